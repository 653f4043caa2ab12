"""The seam to group coordination: what the shard asks a group, and what it makes of the answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.coordinator.decision import Decision
from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.membership import Committer, Membership, Retention
from semel.coordinator.group.offsets.offset_results import (
    CommitRequest,
    CommitResult,
    DeleteOffsetsResult,
    FetchResult,
    OffsetToCommit,
    PartitionToFetch,
)
from semel.coordinator.group.offsets.offset_shard import OffsetShard
from semel.coordinator.group.records import (
    GroupMetadata,
    GroupRecord,
    GroupTombstone,
    OffsetCommit,
    OffsetKey,
    OffsetTombstone,
)
from semel.coordinator.group.settings import OffsetSettings
from semel.coordinator.group.shard import GroupShard
from semel.errors import ErrorCode
from semel.types import ProducerIdentity, TopicPartition
from tests.unit.coordinator.group.no_topics import NoTopics


@dataclass
class StableGroup:
    """A group of KIP-848's protocol with one member, at member epoch 3, that reads ``orders``."""

    asked: list[tuple[Committer, bool, int]] = field(default_factory=list)

    is_empty = False

    def validate_offset_commit(self, committer: Committer, *, transactional: bool, api_version: int) -> ErrorCode:
        self.asked.append((committer, transactional, api_version))
        return ErrorCode.NONE if committer.generation == 3 else ErrorCode.STALE_MEMBER_EPOCH

    def validate_offset_fetch(self, *, member_id: str | None, member_epoch: int | None) -> ErrorCode:
        return ErrorCode.NONE if member_epoch in (None, 3) else ErrorCode.STALE_MEMBER_EPOCH

    def validate_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed(self, topic: str) -> bool:
        return topic == "orders"

    def retention(self) -> Retention | None:
        return Retention()


@dataclass
class OneGroup:
    group: StableGroup = field(default_factory=StableGroup)

    def membership(self, group_id: str) -> Membership | None:
        return self.group if group_id == "payments" else None

    def tombstones(self, group_id: str) -> tuple[GroupRecord, ...]:
        return (GroupTombstone(group_id),)


def shard_with_offsets(groups: OneGroup, *topics: str) -> OffsetShard:
    shard = OffsetShard(partition=0, settings=OffsetSettings(retention_ms=1000), groups=groups)
    offsets = [OffsetToCommit(topic, 0, 42) for topic in topics]
    decision = shard.commit(CommitRequest("payments", Committer("m-1", 3, "i-1"), offsets, 9), now_ms=0)
    for number, record in enumerate(decision.records):
        assert isinstance(record, OffsetCommit)
        shard.replay(record, offset=number)
    return shard


def test_a_group_is_asked_who_may_commit() -> None:
    groups = OneGroup()
    shard_with_offsets(groups, "orders")

    assert groups.group.asked == [(Committer("m-1", 3, "i-1"), False, 9)]


def test_a_stale_member_is_told_so() -> None:
    shard = OffsetShard(partition=0, groups=OneGroup())
    offsets = [OffsetToCommit("orders", 0, 42), OffsetToCommit("orders", 1, 42)]

    decision = shard.commit(CommitRequest("payments", Committer("m-1", 2), offsets, 9), now_ms=0)

    assert decision == Decision(CommitResult((ErrorCode.STALE_MEMBER_EPOCH,) * 2))


def test_a_stale_member_is_told_in_words_that_producers_know_scenario_53() -> None:
    shard = OffsetShard(partition=0, groups=OneGroup())

    request = CommitRequest("payments", Committer("m-1", 2), [OffsetToCommit("orders", 0, 42)], api_version=5)
    decision = shard.commit_transactional(request, ProducerIdentity(1000, 0), now_ms=0)

    assert decision == Decision(CommitResult((ErrorCode.ILLEGAL_GENERATION,)))


def test_a_group_is_asked_who_may_read() -> None:
    shard = shard_with_offsets(OneGroup(), "orders")
    wanted = [PartitionToFetch("orders", 0)]

    assert shard.fetch("payments", wanted, member_id="m-1", member_epoch=2) == Decision(
        FetchResult(ErrorCode.STALE_MEMBER_EPOCH)
    )
    assert shard.fetch("payments", wanted, member_id="m-1", member_epoch=3).response.offsets[0].offset == 42


def test_offsets_of_topics_that_members_read_are_not_deleted() -> None:
    shard = shard_with_offsets(OneGroup(), "orders", "refunds")

    decision = shard.delete_offsets("payments", [TopicPartition("orders", 0), TopicPartition("refunds", 0)])

    assert decision == Decision(
        DeleteOffsetsResult(errors=(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE)),
        (OffsetTombstone(OffsetKey("payments", "refunds", 0)),),
    )


def test_offsets_of_topics_that_members_no_longer_read_expire_and_the_group_stays() -> None:
    shard = shard_with_offsets(OneGroup(), "orders", "refunds")

    (decision,) = shard.expire(1000)

    assert decision.records == (OffsetTombstone(OffsetKey("payments", "refunds", 0)),)


def test_a_record_of_a_group_goes_to_the_groups_and_the_offsets_hear_that_the_group_changed() -> None:
    shard = GroupShard(partition=0, topics=NoTopics)

    shard.replay(GroupMetadata("payments", "consumer", 1, None, None, 0, ()), 0)

    assert isinstance(shard.directory.groups["payments"], ClassicGroup)
    assert shard.offsets.is_due(0)
