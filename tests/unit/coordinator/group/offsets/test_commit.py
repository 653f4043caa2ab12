"""OffsetCommit and TxnOffsetCommit: who may, and what is refused. The codes are those of Kafka 4.3."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from semel.coordinator.decision import Decision
from semel.coordinator.group.membership import Committer
from semel.coordinator.group.offsets.offset_results import CommitRequest, CommitResult, OffsetToCommit
from semel.coordinator.group.offsets.offset_shard import OffsetShard
from semel.coordinator.group.records import GroupMetadata, Member, OffsetCommit, OffsetKey
from semel.coordinator.group.settings import OffsetSettings
from semel.errors import ErrorCode
from semel.types import INT64_MAX, ProducerIdentity
from tests.unit.coordinator.group.offsets.offset_log import OffsetLog

TOPIC_ID = UUID(int=7)
PRODUCER = ProducerIdentity(1000, 0)
ONE_OFFSET = [OffsetToCommit("orders", 0, 42)]


def commit(shard: OffsetShard, *, transactional: bool = False, **changes: Any) -> Decision[CommitResult, Any, Any]:
    committer = {name: changes.pop(name) for name in ("generation", "member_id", "instance_id") if name in changes}
    now_ms = changes.pop("now_ms", 1000)
    producer = changes.pop("producer", PRODUCER)
    fields = {"group_id": "payments", "offsets": ONE_OFFSET, "api_version": 8, **changes}
    request = CommitRequest(committer=Committer(**committer), **fields)
    if transactional:
        return shard.commit_transactional(request, producer, now_ms=now_ms)
    return shard.commit(request, now_ms=now_ms)


def errors(shard: OffsetShard, **changes: Any) -> tuple[ErrorCode, ...]:
    decision = commit(shard, **changes)
    if any(decision.response.errors):
        assert decision.records == (), "what is refused leaves nothing"
    return decision.response.errors


def group_with_members(*members: Member) -> OffsetLog:
    log = OffsetLog()
    log.write(GroupMetadata("payments", "consumer", 5, "range", "m-1", 0, members))
    return log


def member(member_id: str, instance_id: str | None = None) -> Member:
    return Member(member_id, instance_id, "client", "/127.0.0.1", 300_000, 45_000, b"", b"")


@pytest.fixture
def shard() -> OffsetShard:
    return OffsetShard(partition=0)


@pytest.mark.parametrize("transactional", [False, True])
def test_whoever_is_no_member_commits_to_a_group_without_members(shard: OffsetShard, transactional: bool) -> None:
    offset = OffsetToCommit("orders", 3, 42, leader_epoch=7, metadata="by hand", topic_id=TOPIC_ID)

    assert commit(shard, transactional=transactional, offsets=[offset]) == Decision(
        CommitResult((ErrorCode.NONE,)),
        (OffsetCommit(OffsetKey("payments", "orders", 3), 42, 7, "by hand", 1000, topic_id=TOPIC_ID),),
    )


def test_a_decision_changes_nothing(shard: OffsetShard) -> None:
    commit(shard)

    assert shard.fetch("payments", None).response.offsets == ()


def test_metadata_that_is_null_is_empty(shard: OffsetShard) -> None:
    decision = commit(shard, offsets=[OffsetToCommit("orders", 0, 42, metadata=None)])

    assert [record.metadata for record in decision.records] == [""]


@pytest.mark.parametrize("transactional", [False, True])
def test_metadata_too_large_is_refused_for_its_partition_alone(transactional: bool) -> None:
    shard = OffsetShard(partition=0, settings=OffsetSettings(metadata_size_max=4))
    texts = ["1234", "12345", "éééé", "ééééé", "😀😀", "😀😀1"]
    offsets = [OffsetToCommit("orders", number, 42, metadata=text) for number, text in enumerate(texts)]

    decision = commit(shard, transactional=transactional, offsets=offsets)

    # As in Kafka, the limit counts characters of UTF-16, of which the last two texts have four and five.
    large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    none = ErrorCode.NONE
    assert decision.response.errors == (none, large, none, large, none, large)
    assert [record.key.partition for record in decision.records] == [0, 2, 4]


class TestAnEmptyGroupId:
    def test_may_commit(self, shard: OffsetShard) -> None:
        assert errors(shard, group_id="") == (ErrorCode.NONE,)

    def test_may_not_commit_in_a_transaction(self, shard: OffsetShard) -> None:
        assert errors(shard, group_id="", transactional=True) == (ErrorCode.INVALID_GROUP_ID,)


class TestAGroupThatDoesNotExist:
    @pytest.mark.parametrize(
        ("api_version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
    )
    def test_has_no_generation(self, shard: OffsetShard, api_version: int, error: ErrorCode) -> None:
        assert errors(shard, generation=0, member_id="m-1", api_version=api_version) == (error,)

    def test_has_no_generation_in_a_transaction_scenario_53(self, shard: OffsetShard) -> None:
        refused = errors(shard, generation=0, member_id="m-1", transactional=True, api_version=5)
        assert refused == (ErrorCode.ILLEGAL_GENERATION,)

    def test_does_not_ask_who_commits_without_a_generation(self, shard: OffsetShard) -> None:
        assert errors(shard, member_id="m-1", instance_id="i-1") == (ErrorCode.NONE,)


class TestAGroupWithOffsetsOnly:
    """It exists, and it is empty. Kafka calls it simple."""

    @pytest.mark.parametrize("transactional", [False, True])
    @pytest.mark.parametrize("pending", [False, True])
    def test_has_no_members_scenario_53(self, transactional: bool, pending: bool) -> None:
        log = OffsetLog()
        if pending:
            log.commit_in(ProducerIdentity(2000, 0), 1)
        else:
            log.commit(1)

        for claim in ({"member_id": "m-1"}, {"member_id": "m-1", "instance_id": "i-1"}, {}):
            refused = errors(log.shard, generation=0, transactional=transactional, api_version=9, **claim)
            assert refused == (ErrorCode.UNKNOWN_MEMBER_ID,)

    def test_stops_existing_with_its_last_offset(self) -> None:
        log = OffsetLog()
        log.commit_in(PRODUCER, 1)
        log.end(PRODUCER, committed=False)

        assert errors(log.shard, generation=0, api_version=9) == (ErrorCode.GROUP_ID_NOT_FOUND,)


class TestAGroupWithMembers:
    @pytest.mark.parametrize("transactional", [False, True])
    @pytest.mark.parametrize(
        ("claim", "error"),
        [
            ({"generation": 5, "member_id": "m-1"}, ErrorCode.NONE),
            ({"generation": 5, "member_id": "m-2", "instance_id": "i-2"}, ErrorCode.NONE),
            ({"generation": 4, "member_id": "m-1"}, ErrorCode.ILLEGAL_GENERATION),
            ({"generation": 6, "member_id": "m-1"}, ErrorCode.ILLEGAL_GENERATION),
            ({"generation": None, "member_id": "m-1"}, ErrorCode.ILLEGAL_GENERATION),
            ({"generation": 5, "member_id": "m-9"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation": 5, "member_id": ""}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation": 5, "member_id": "m-1", "instance_id": "i-9"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation": 5, "member_id": "m-1", "instance_id": "i-2"}, ErrorCode.FENCED_INSTANCE_ID),
        ],
    )
    def test_takes_offsets_from_members_of_its_generation_scenario_53(
        self, claim: dict[str, Any], error: ErrorCode, transactional: bool
    ) -> None:
        log = group_with_members(member("m-1"), member("m-2", "i-2"))

        assert errors(log.shard, transactional=transactional, **claim) == (error,)

    def test_takes_none_from_who_is_no_member(self) -> None:
        log = group_with_members(member("m-1"))

        assert errors(log.shard) == (ErrorCode.UNKNOWN_MEMBER_ID,)

    def test_takes_them_from_an_old_producer_that_cannot_say_who_it_is(self) -> None:
        log = group_with_members(member("m-1"))

        assert errors(log.shard, transactional=True, api_version=2) == (ErrorCode.NONE,)

    def test_is_open_to_anybody_when_the_last_one_has_left(self) -> None:
        log = group_with_members()

        assert errors(log.shard) == (ErrorCode.NONE,)
        assert errors(log.shard, generation=5, member_id="m-1") == (ErrorCode.UNKNOWN_MEMBER_ID,)


class TestAnExplicitRetention:
    def test_sets_the_expiry(self, shard: OffsetShard) -> None:
        offset = OffsetToCommit("orders", 0, 42, leader_epoch=7, topic_id=TOPIC_ID)

        (record,) = commit(shard, offsets=[offset], retention_ms=500).records

        # The log has no place for epoch and id beside an expiry, so they are not remembered until the next load either.
        assert record == OffsetCommit(OffsetKey("payments", "orders", 0), 42, None, "", 1000, expires_ms=1500)

    @pytest.mark.parametrize(("retention_ms", "expires_ms"), [(INT64_MAX, INT64_MAX), (-INT64_MAX, 0), (0, 1000)])
    def test_stays_within_what_the_log_can_say(self, shard: OffsetShard, retention_ms: int, expires_ms: int) -> None:
        (record,) = commit(shard, retention_ms=retention_ms).records

        assert record.expires_ms == expires_ms


def test_a_zombie_that_lags_behind_the_epoch_of_what_is_pending_is_refused() -> None:
    log = OffsetLog()
    log.commit_in(ProducerIdentity(1000, 4), 10)

    assert log.commit_in(ProducerIdentity(1000, 3), 5) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.commit_in(ProducerIdentity(1000, 4), 11) is ErrorCode.NONE
