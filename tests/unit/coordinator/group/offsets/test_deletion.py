"""OffsetDelete, DeleteGroups, and what becomes of offsets when their topic goes."""

from __future__ import annotations

from uuid import UUID

import pytest

from semel.coordinator.decision import Decision
from semel.coordinator.group.offsets.offset_results import DeleteGroupResult, DeleteOffsetsResult, Removed
from semel.coordinator.group.offsets.removal import RECORDS_PER_BATCH_MAX
from semel.coordinator.group.records import (
    GroupMetadata,
    GroupTombstone,
    Member,
    OffsetCommit,
    OffsetKey,
    OffsetTombstone,
)
from semel.errors import ErrorCode
from semel.types import ProducerIdentity, TopicPartition
from tests.unit.coordinator.group.offsets.meaning import verify
from tests.unit.coordinator.group.offsets.offset_log import OffsetLog

PRODUCER = ProducerIdentity(1000, 0)
OTHER = ProducerIdentity(1001, 0)
MEMBER = Member("m-1", None, "client", "/127.0.0.1", 300_000, 45_000, b"", b"")
OLD, NEW = UUID(int=1), UUID(int=2)


@pytest.fixture
def log() -> OffsetLog:
    return OffsetLog()


def key(partition: int = 0, *, topic: str = "orders", group_id: str = "payments") -> OffsetKey:
    return OffsetKey(group_id, topic, partition)


def tombstones(*keys: OffsetKey) -> tuple[OffsetTombstone, ...]:
    return tuple(map(OffsetTombstone, keys))


class TestOffsetDelete:
    def test_removes_what_is_committed_and_what_is_pending_and_nothing_else(self, log: OffsetLog) -> None:
        log.commit(5, partition=0)
        log.commit_in(PRODUCER, 10, partition=1)
        log.commit(5, partition=2)

        partitions = [TopicPartition("orders", number) for number in (1, 0, 9, 0)]
        decision = log.shard.delete_offsets("payments", partitions)

        assert decision == Decision(DeleteOffsetsResult(errors=(ErrorCode.NONE,) * 4), tombstones(key(1), key(0)))
        log.apply(decision)
        log.end(PRODUCER, committed=True)
        assert [(one.partition, one.offset) for one in log.shard.fetch("payments", None).response.offsets] == [(2, 5)]
        verify(log)

    def test_leaves_nothing_of_a_transaction_whose_last_offset_it_takes(self, log: OffsetLog) -> None:
        log.commit_in(ProducerIdentity(1000, 4), 10)
        log.apply(log.shard.delete_offsets("payments", [TopicPartition("orders", 0)]))

        assert log.shard.open_transactions("payments") == ()
        assert log.commit_in(ProducerIdentity(1000, 3), 10) is ErrorCode.NONE, "its epoch is the log's to check"

    @pytest.mark.parametrize(
        ("group_id", "error"), [("", ErrorCode.INVALID_GROUP_ID), ("nobody", ErrorCode.GROUP_ID_NOT_FOUND)]
    )
    def test_refuses_a_group_that_is_not_there(self, log: OffsetLog, group_id: str, error: ErrorCode) -> None:
        assert log.shard.delete_offsets(group_id, [TopicPartition("orders", 0)]) == Decision(DeleteOffsetsResult(error))

    def test_refuses_a_group_with_members_of_whom_nobody_can_say_what_they_read(self, log: OffsetLog) -> None:
        log.commit(5)
        log.write(GroupMetadata("payments", "connect", 1, "range", "m-1", 0, (MEMBER,)))

        decision = log.shard.delete_offsets("payments", [TopicPartition("orders", 0)])

        assert decision == Decision(DeleteOffsetsResult(ErrorCode.NON_EMPTY_GROUP))


class TestDeleteGroups:
    def test_removes_all_offsets_of_the_group_once_each_and_the_group(self, log: OffsetLog) -> None:
        log.write(GroupMetadata("payments", "consumer", 1, None, None, 0, ()))
        log.commit(5, partition=1)
        log.commit_in(PRODUCER, 10, partition=1)
        log.commit_in(PRODUCER, 10, partition=0)
        log.commit(7, group_id="audit")

        decision = log.shard.delete_group("payments")

        assert decision == Decision(DeleteGroupResult(), (*tombstones(key(0), key(1)), GroupTombstone("payments")))
        log.apply(decision)
        log.end(PRODUCER, committed=True)
        assert log.shard.fetch("payments", None, require_stable=True).response.offsets == ()
        assert log.shard.delete_group("payments").response.error is ErrorCode.GROUP_ID_NOT_FOUND
        assert log.fetch(group_id="audit").offset == 7

    def test_removes_a_group_that_is_known_by_its_offsets_only(self, log: OffsetLog) -> None:
        log.commit(5)

        assert log.shard.delete_group("payments") == Decision(DeleteGroupResult(), tombstones(key()))

    def test_refuses_a_group_that_has_members_or_is_not_there(self, log: OffsetLog) -> None:
        log.write(GroupMetadata("payments", "consumer", 1, "range", "m-1", 0, (MEMBER,)))

        assert log.shard.delete_group("payments") == Decision(DeleteGroupResult(ErrorCode.NON_EMPTY_GROUP))
        assert log.shard.delete_group("nobody") == Decision(DeleteGroupResult(ErrorCode.GROUP_ID_NOT_FOUND))


class TestTheEndOfATopic:
    def test_takes_its_offsets_of_all_groups_along_once_each(self, log: OffsetLog) -> None:
        log.commit(5, partition=1)
        log.commit(5, group_id="audit")
        log.commit(5, topic="refunds")
        log.commit_in(PRODUCER, 10, partition=1)
        log.commit_in(PRODUCER, 10, partition=2)
        log.commit_in(PRODUCER, 10, topic="refunds", partition=1)

        decisions = list(log.shard.delete_topic("orders", OLD))

        assert decisions == [
            Decision(Removed(3), tombstones(key(1), key(group_id="audit"), key(2))),
        ]
        log.apply_all(decisions)
        log.end(PRODUCER, committed=True)
        left = log.shard.fetch("payments", None).response.offsets
        assert [(one.topic, one.partition) for one in left] == [("refunds", 0), ("refunds", 1)]
        assert list(log.shard.delete_topic("orders", OLD)) == []

    def test_without_offsets_decides_nothing(self, log: OffsetLog) -> None:
        assert list(log.shard.delete_topic("orders", OLD)) == []

    @pytest.mark.parametrize(
        ("committed_for", "deleted", "goes"),
        [(OLD, OLD, True), (None, OLD, True), (OLD, None, True), (NEW, OLD, False)],
    )
    def test_leaves_offsets_of_a_newer_topic_of_that_name(
        self, log: OffsetLog, committed_for: UUID | None, deleted: UUID | None, goes: bool
    ) -> None:
        log.write(OffsetCommit(key(), 42, None, "", 0, topic_id=committed_for))

        decisions = list(log.shard.delete_topic("orders", deleted))

        assert decisions == ([Decision(Removed(1), tombstones(key()))] if goes else [])

    def test_does_not_end_a_transaction_on_a_newer_topic_with_the_old_topics_offset(self, log: OffsetLog) -> None:
        """One tombstone ends both, so it is not written: what the transaction commits replaces the old one anyway."""
        log.write(OffsetCommit(key(), 42, None, "", 0, topic_id=OLD))
        log.shard.replay(OffsetCommit(key(), 1, None, "", 0, topic_id=NEW), 99, ProducerIdentity(1000, 0))

        assert list(log.shard.delete_topic("orders", OLD)) == []

    def test_leaves_what_was_committed_after_it_for_a_newer_topic(self, log: OffsetLog) -> None:
        """A commit with a retention time has no topic id."""
        log.commit(5)
        log.commit(5, group_id="audit")
        decisions = log.shard.delete_topic("orders", OLD, below=len(log.entries))
        log.commit(6, group_id="audit", retention_ms=1000)

        assert log.apply_all(decisions) == [Removed(1)]
        assert log.fetch(group_id="audit").offset == 6

    def test_leaves_what_was_committed_for_a_newer_topic_after_a_batch_was_carried_out(self, log: OffsetLog) -> None:
        """Whatever place the offset has in the order of the batches."""
        for number in range(RECORDS_PER_BATCH_MAX + 2):
            log.commit(5, group_id=f"group-{number}")
        decisions = log.shard.delete_topic("orders", OLD, below=len(log.entries))
        removed = log.apply_all([next(decisions)])
        for number in range(RECORDS_PER_BATCH_MAX + 2):
            log.commit(6, group_id=f"group-{number}")

        assert removed + log.apply_all(decisions) == [Removed(RECORDS_PER_BATCH_MAX)]
        assert {log.fetch(group_id=f"group-{number}").offset for number in range(RECORDS_PER_BATCH_MAX + 2)} == {6}

    def test_takes_an_offset_along_that_its_transaction_commits_meanwhile(self, log: OffsetLog) -> None:
        log.commit(5)
        log.commit_in(PRODUCER, 10, partition=1)
        log.commit_in(OTHER, 10, partition=2)
        decisions = log.shard.delete_topic("orders", OLD)
        log.end(PRODUCER, committed=True)
        log.end(OTHER, committed=False)

        assert log.apply_all(decisions) == [Removed(2)]
        assert log.shard.fetch("payments", None).response.offsets == ()

    def test_that_many_groups_read_comes_in_batches_that_fit_into_the_log(self, log: OffsetLog) -> None:
        for number in range(RECORDS_PER_BATCH_MAX + 10):
            log.commit(5, group_id=f"group-{number}")

        assert log.apply_all(log.shard.delete_topic("orders", OLD)) == [Removed(RECORDS_PER_BATCH_MAX), Removed(10)]
