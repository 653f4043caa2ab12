"""When offsets expire: scenario 56, and Kafka's rules for simple groups, empty groups and explicit retention."""

from __future__ import annotations

import pytest

from semel.coordinator.group.offsets.offset_results import Removed
from semel.coordinator.group.offsets.removal import RECORDS_PER_BATCH_MAX
from semel.coordinator.group.records import (
    GroupMetadata,
    GroupRecord,
    GroupTombstone,
    Member,
    OffsetKey,
    OffsetTombstone,
)
from semel.errors import ErrorCode
from semel.types import ProducerIdentity
from tests.unit.coordinator.group.offsets.offset_log import MINUTE_MS, OffsetLog

RETENTION_MS = 10 * MINUTE_MS
PRODUCER = ProducerIdentity(1000, 0)
MEMBER = Member("m-1", None, "client", "/127.0.0.1", 300_000, 45_000, b"", b"")


@pytest.fixture
def log() -> OffsetLog:
    return OffsetLog()


def expired(log: OffsetLog, now_ms: int) -> list[GroupRecord]:
    """What a sweep removes; it is removed."""
    decisions = log.shard.expire(now_ms)
    log.apply_all(decisions)
    return [record for decision in decisions for record in decision.records]


def tombstone(partition: int = 0, *, group_id: str = "payments") -> OffsetTombstone:
    return OffsetTombstone(OffsetKey(group_id, "orders", partition))


def group(*members: Member, changed_ms: int | None = 0, protocol_type: str = "consumer") -> GroupMetadata:
    return GroupMetadata("payments", protocol_type, 1, None, None, changed_ms, members)


class TestASimpleGroup:
    def test_keeps_an_offset_for_the_retention_time_after_its_commit(self, log: OffsetLog) -> None:
        log.commit(5, partition=0, now_ms=0)
        log.commit(5, partition=1, now_ms=MINUTE_MS)

        assert expired(log, RETENTION_MS - 1) == []
        assert expired(log, RETENTION_MS) == [tombstone(0)]
        assert expired(log, RETENTION_MS + MINUTE_MS - 1) == []
        assert expired(log, RETENTION_MS + MINUTE_MS) == [tombstone(1)]
        assert log.shard.fetch("payments", None).response.offsets == ()

    def test_keeps_it_longer_when_it_commits_again(self, log: OffsetLog) -> None:
        log.commit(5, now_ms=0)
        log.commit(6, now_ms=MINUTE_MS)

        assert expired(log, RETENTION_MS) == []
        assert expired(log, RETENTION_MS + MINUTE_MS) == [tombstone()]

    def test_that_is_gone_can_come_back(self, log: OffsetLog) -> None:
        log.commit(5, now_ms=0)
        expired(log, RETENTION_MS)
        log.commit(6, now_ms=RETENTION_MS)

        assert expired(log, 2 * RETENTION_MS - 1) == []
        assert expired(log, 2 * RETENTION_MS) == [tombstone()]


class TestAnExplicitRetention:
    def test_shortens_the_time(self, log: OffsetLog) -> None:
        log.commit(5, partition=0, now_ms=0)
        log.commit(5, partition=1, now_ms=0, retention_ms=MINUTE_MS)

        assert expired(log, MINUTE_MS - 1) == []
        assert expired(log, MINUTE_MS) == [tombstone(1)]
        assert expired(log, RETENTION_MS) == [tombstone(0)]

    def test_lengthens_the_time(self, log: OffsetLog) -> None:
        log.commit(5, now_ms=0, retention_ms=3 * RETENTION_MS)

        assert expired(log, 3 * RETENTION_MS - 1) == []
        assert expired(log, 3 * RETENTION_MS) == [tombstone()]

    def test_of_an_earlier_commit_is_forgotten_with_it(self, log: OffsetLog) -> None:
        log.commit(5, now_ms=0, retention_ms=MINUTE_MS)
        log.commit(6, now_ms=1)

        assert expired(log, MINUTE_MS) == []
        assert expired(log, RETENTION_MS + 1) == [tombstone()]


class TestScenario56:
    """Expiry skips partitions with pending transactional offsets.

    redpanda #31483: retention tombstoned what an open transaction had staged, and the transaction's commit was lost.
    """

    def test_an_offset_that_a_transaction_may_replace_does_not_expire(self, log: OffsetLog) -> None:
        log.commit(5, partition=0, now_ms=0)
        log.commit(5, partition=1, now_ms=0)
        log.commit_in(PRODUCER, 10, partition=0, now_ms=1)

        assert expired(log, 5 * RETENTION_MS) == [tombstone(1)]
        log.end(PRODUCER, committed=True)
        assert log.fetch(require_stable=True).offset == 10

    def test_it_expires_once_the_transaction_was_aborted(self, log: OffsetLog) -> None:
        log.commit(5, now_ms=0)
        log.commit_in(PRODUCER, 10, now_ms=1)
        assert expired(log, RETENTION_MS) == []

        log.end(PRODUCER, committed=False)

        assert expired(log, RETENTION_MS + 1) == [tombstone()]

    def test_what_the_transaction_committed_expires_by_its_own_time(self, log: OffsetLog) -> None:
        log.commit_in(PRODUCER, 10, now_ms=MINUTE_MS)
        assert expired(log, 5 * RETENTION_MS) == []

        log.end(PRODUCER, committed=True)

        assert expired(log, 5 * RETENTION_MS) == [tombstone()]

    def test_a_group_with_nothing_but_pending_offsets_is_not_forgotten(self, log: OffsetLog) -> None:
        log.write(group())
        log.commit_in(PRODUCER, 10)

        assert expired(log, 5 * RETENTION_MS) == []
        log.end(PRODUCER, committed=False)
        assert expired(log, 5 * RETENTION_MS + 1) == [GroupTombstone("payments")]


class TestAGroupThatHadMembers:
    def test_keeps_its_offsets_for_the_retention_time_after_the_last_one_left(self, log: OffsetLog) -> None:
        log.commit(5, now_ms=0)
        log.write(group(MEMBER, changed_ms=MINUTE_MS))
        assert expired(log, 5 * RETENTION_MS) == []

        log.write(group(changed_ms=5 * RETENTION_MS))

        assert expired(log, 6 * RETENTION_MS - 1) == []
        assert expired(log, 6 * RETENTION_MS) == [tombstone(), GroupTombstone("payments")]
        assert log.shard.delete_group("payments").response.error is ErrorCode.GROUP_ID_NOT_FOUND

    def test_counts_from_the_commit_if_the_log_does_not_say_when_they_left(self, log: OffsetLog) -> None:
        log.write(group(changed_ms=None))
        log.commit(5, now_ms=MINUTE_MS)

        assert expired(log, RETENTION_MS + MINUTE_MS - 1) == []
        assert expired(log, RETENTION_MS + MINUTE_MS) == [tombstone(), GroupTombstone("payments")]

    def test_does_not_count_a_commit_by_hand_after_they_left(self, log: OffsetLog) -> None:
        log.commit(4, partition=1, now_ms=0)
        log.write(group(changed_ms=MINUTE_MS))
        log.commit(5, now_ms=9 * MINUTE_MS)

        assert expired(log, RETENTION_MS + MINUTE_MS - 1) == []
        assert expired(log, RETENTION_MS + MINUTE_MS) == [tombstone(1), tombstone(0), GroupTombstone("payments")]

    def test_does_not_keep_a_commit_by_hand_for_as_long_as_another_offset(self, log: OffsetLog) -> None:
        log.write(group(changed_ms=0))
        log.commit(5, partition=1, now_ms=0, retention_ms=3 * RETENTION_MS)
        assert expired(log, MINUTE_MS) == []
        log.commit(5, partition=0, now_ms=9 * MINUTE_MS)

        assert expired(log, RETENTION_MS) == [tombstone(0)]

    def test_that_is_forgotten_before_its_offsets_keeps_them_as_a_simple_group_does(self, log: OffsetLog) -> None:
        log.commit(5, now_ms=0)
        log.write(group(changed_ms=5 * RETENTION_MS))
        assert expired(log, 5 * RETENTION_MS) == []
        log.write(GroupTombstone("payments"))

        assert expired(log, 5 * RETENTION_MS) == [tombstone()]

    def test_is_forgotten_in_the_next_sweep_after_its_last_offset_was_deleted(self, log: OffsetLog) -> None:
        log.write(group(changed_ms=0))
        log.commit(5, now_ms=0)
        assert expired(log, 1) == []
        log.apply_all(log.shard.delete_topic("orders", None))

        assert expired(log, 2) == [GroupTombstone("payments")]

    def test_is_forgotten_at_once_if_it_has_no_offsets(self, log: OffsetLog) -> None:
        log.write(group(changed_ms=0))

        assert expired(log, 1) == [GroupTombstone("payments")]
        assert expired(log, 2) == []


class TestASweep:
    def test_that_could_not_be_written_is_decided_again(self, log: OffsetLog) -> None:
        log.commit(5, now_ms=0)
        first = log.shard.expire(RETENTION_MS)

        assert first != []
        assert log.shard.expire(RETENTION_MS) == first
        assert log.shard.expire(RETENTION_MS + 1) == first

    def test_that_could_not_be_written_does_not_wait_for_what_expires_later(self, log: OffsetLog) -> None:
        log.commit(5, partition=0, now_ms=0)
        log.commit(5, partition=1, now_ms=MINUTE_MS)
        first = log.shard.expire(RETENTION_MS)

        assert first != []
        assert log.shard.expire(RETENTION_MS + 1) == first

    def test_finds_nothing_twice_once_it_is_written(self, log: OffsetLog) -> None:
        log.commit(5, now_ms=0)
        log.apply_all(log.shard.expire(RETENTION_MS))

        assert log.shard.expire(RETENTION_MS) == []

    def test_does_the_same_after_a_restart(self, log: OffsetLog) -> None:
        for number in range(5):
            log.commit(5, group_id=f"group-{number}", now_ms=number)

        assert log.loaded().expire(RETENTION_MS + 2) == log.shard.expire(RETENTION_MS + 2)

    def test_can_be_done_in_pieces(self, log: OffsetLog) -> None:
        for number in range(5):
            log.commit(5, group_id=f"group-{number}", now_ms=number)
        pieces = []
        while log.shard.is_due(RETENTION_MS + 3):
            pieces += log.apply_all(log.shard.expire(RETENTION_MS + 3, examined_max=3))

        # A group that is gone is looked at once more, to find that nothing is left of it.
        assert pieces == [Removed(3), Removed(1)]
        assert log.fetch(group_id="group-4").offset == 5

    def test_has_pieces_by_offsets_and_not_by_groups(self, log: OffsetLog) -> None:
        for number in range(4):
            for partition in range(5):
                log.commit(5, partition, group_id=f"group-{number}", now_ms=number)
        pieces = []
        while log.shard.is_due(RETENTION_MS + 3):
            pieces.append(
                sum(removed.offsets for removed in log.apply_all(log.shard.expire(RETENTION_MS + 3, examined_max=7)))
            )

        assert [piece for piece in pieces if piece] == [10, 10]

    def test_does_not_come_to_an_open_transaction_again(self, log: OffsetLog) -> None:
        log.commit(5, now_ms=0)
        log.commit_in(PRODUCER, 10)

        assert log.shard.is_due(RETENTION_MS)
        assert log.shard.expire(RETENTION_MS) == []
        assert not log.shard.is_due(RETENTION_MS)
        assert log.shard.is_due(RETENTION_MS + 1)

    def test_is_not_put_off_by_a_clock_that_is_set_back(self, log: OffsetLog) -> None:
        """A group with an open transaction is to be examined again in the next sweep, whatever its time is."""
        log.commit(5, now_ms=0)
        log.commit_in(PRODUCER, 10)
        for now_ms in (1000 * RETENTION_MS, RETENTION_MS, RETENTION_MS + 1):
            log.shard.sweep_begins(now_ms)
            assert log.shard.is_due(now_ms)
            assert log.shard.expire(now_ms) == []
        log.end(PRODUCER, committed=False)
        log.shard.sweep_begins(RETENTION_MS)
        assert log.shard.is_due(RETENTION_MS)
        assert log.apply_all(log.shard.expire(RETENTION_MS)) == [Removed(1)]

    def test_of_many_groups_comes_in_batches_that_fit_into_the_log(self, log: OffsetLog) -> None:
        for number in range(RECORDS_PER_BATCH_MAX + 10):
            log.commit(5, group_id=f"group-{number}", now_ms=0)

        removed = log.apply_all(log.shard.expire(RETENTION_MS))

        assert removed == [Removed(RECORDS_PER_BATCH_MAX), Removed(10)]
        assert log.shard.expire(RETENTION_MS) == []

    def test_of_a_large_group_forgets_the_group_after_its_offsets_and_never_before(self, log: OffsetLog) -> None:
        log.write(group(changed_ms=0))
        for partition in range(RECORDS_PER_BATCH_MAX + 1):
            log.commit(5, partition, now_ms=0)

        assert log.apply_all(log.shard.expire(RETENTION_MS)) == [Removed(RECORDS_PER_BATCH_MAX), Removed(1)]
        assert log.apply_all(log.shard.expire(RETENTION_MS)) == [Removed(0, groups=1)]
