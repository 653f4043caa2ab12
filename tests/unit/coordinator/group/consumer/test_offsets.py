"""Who may commit and read the offsets of a consumer group, and how long they stay."""

from __future__ import annotations

import pytest

from semel.coordinator.group.membership import Committer
from semel.coordinator.group.offsets.offset_results import CommitRequest, CommitResult, OffsetToCommit
from semel.errors import ErrorCode
from semel.types import ProducerIdentity, TopicPartition
from tests.unit.coordinator.group.consumer.simulated_group import (
    GROUP,
    Coordinator,
    Member,
    Topics,
    members_of,
    revocation_owed,
    settle,
)

OFFSETS = [OffsetToCommit("orders", 0, 7)]


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator(Topics(orders=4))


def commit(coordinator: Coordinator, member_id: str, epoch: int | None, *, version: int = 9) -> ErrorCode:
    request = CommitRequest(GROUP, Committer(member_id, epoch), OFFSETS, version)
    decision = coordinator.shard.offsets.commit(request, now_ms=coordinator.moment.wall_ms)
    result: CommitResult = coordinator.carry_out(decision)
    return result.errors[0]


def commit_transactional(coordinator: Coordinator, member_id: str, epoch: int | None) -> ErrorCode:
    request = CommitRequest(GROUP, Committer(member_id, epoch), OFFSETS, api_version=5)
    decision = coordinator.shard.offsets.commit_transactional(request, ProducerIdentity(1, 0), now_ms=0)
    return decision.response.errors[0]


def with_a_stale_epoch(coordinator: Coordinator) -> tuple[Member, int]:
    """A member, and the epoch that it had before another one joined."""
    first, second = members_of(coordinator, 2)
    settle(first)
    stale = first.epoch
    settle(first, second)
    return first, stale


def test_a_member_commits_under_its_epoch_and_no_other(coordinator: Coordinator) -> None:
    """Scenario 53, for KIP-848's protocol."""
    first, stale = with_a_stale_epoch(coordinator)

    assert commit(coordinator, "member-0", first.epoch) is ErrorCode.NONE
    assert commit(coordinator, "member-0", stale) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(coordinator, "member-0", first.epoch + 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(coordinator, "stranger", first.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(coordinator, "", None) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_zombie_commits_nothing_in_a_transaction(coordinator: Coordinator) -> None:
    """Scenario 53: producers know generations only, so a stale epoch is an illegal generation."""
    first, stale = with_a_stale_epoch(coordinator)

    assert commit_transactional(coordinator, "member-0", first.epoch) is ErrorCode.NONE
    assert commit_transactional(coordinator, "member-0", stale) is ErrorCode.ILLEGAL_GENERATION
    first.leave()
    assert commit_transactional(coordinator, "member-0", stale) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_still_owes_a_revocation_commits_under_its_old_epoch(coordinator: Coordinator) -> None:
    first, _ = revocation_owed(coordinator)
    assert len(first.told) < 4, "it has to give up some"

    assert commit(coordinator, "member-0", first.epoch) is ErrorCode.NONE


def test_a_version_without_member_epochs_is_not_for_members(coordinator: Coordinator) -> None:
    (member,) = members_of(coordinator, 1)
    settle(member)

    assert commit(coordinator, "member-0", member.epoch, version=8) is ErrorCode.UNSUPPORTED_VERSION


def test_anybody_commits_for_a_group_without_members(coordinator: Coordinator) -> None:
    (member,) = members_of(coordinator, 1)
    settle(member)
    member.leave()

    assert commit(coordinator, "", None) is ErrorCode.NONE


def test_offsets_are_read_by_members_of_the_epoch_and_by_who_claims_to_be_none(coordinator: Coordinator) -> None:
    (member,) = members_of(coordinator, 1)
    settle(member)

    def fetch(member_id: str | None, epoch: int | None) -> ErrorCode:
        fetched = coordinator.shard.offsets.fetch(GROUP, None, member_id=member_id, member_epoch=epoch)
        return fetched.response.error

    assert fetch(None, None) is ErrorCode.NONE
    assert fetch("member-0", member.epoch) is ErrorCode.NONE
    assert fetch("member-0", member.epoch + 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert fetch("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_a_topic_that_is_read_are_neither_deleted_nor_expired(coordinator: Coordinator) -> None:
    (member,) = members_of(coordinator, 1)
    settle(member)
    commit(coordinator, "member-0", member.epoch)
    delete = coordinator.shard.offsets.delete_offsets(GROUP, [TopicPartition("orders", 0)])
    assert delete.response.errors == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,)
    later_ms = coordinator.moment.wall_ms + 8 * 24 * 3600 * 1000
    assert coordinator.shard.offsets.expire(later_ms) == []

    member.beat(topic_names=("payments",))

    (expired,) = coordinator.shard.offsets.expire(later_ms + 1)
    assert expired.response.offsets == 1


def test_an_empty_group_is_forgotten_with_its_last_offset(coordinator: Coordinator) -> None:
    member = Member(coordinator, "member", regex="o.*")
    settle(member)
    commit(coordinator, "member", member.epoch)
    member.leave()

    (expired,) = coordinator.shard.offsets.expire(coordinator.moment.wall_ms + 8 * 24 * 3600 * 1000)
    coordinator.carry_out(expired)

    assert coordinator.shard.directory.groups == {}
    assert coordinator.reload().directory.groups == {}


def test_a_group_is_deleted_when_nobody_is_in_it(coordinator: Coordinator) -> None:
    (member,) = members_of(coordinator, 1)
    settle(member)
    assert coordinator.shard.offsets.delete_group(GROUP).response.error is ErrorCode.NON_EMPTY_GROUP
    member.leave()

    coordinator.carry_out(coordinator.shard.offsets.delete_group(GROUP))

    assert coordinator.shard.directory.groups == {}
