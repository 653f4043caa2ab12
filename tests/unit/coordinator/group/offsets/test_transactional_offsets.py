"""Offsets in transactions: scenarios 51, 52 and 55, and what redpanda's and Kafka's own bugs have taught."""

from __future__ import annotations

import pytest

from semel.coordinator.group.offsets.offset_results import FetchedOffset, OpenTransaction
from semel.coordinator.group.records import OffsetKey, OffsetTombstone
from semel.errors import ErrorCode
from semel.types import ProducerIdentity
from tests.unit.coordinator.group.offsets.meaning import verify
from tests.unit.coordinator.group.offsets.offset_log import OffsetLog

ONE = ProducerIdentity(1000, 0)
TWO = ProducerIdentity(2000, 3)


@pytest.fixture
def log() -> OffsetLog:
    return OffsetLog()


def at(offset: int | None, partition: int = 0) -> FetchedOffset:
    return FetchedOffset("orders", partition, offset)


def unstable(partition: int = 0) -> FetchedOffset:
    return FetchedOffset("orders", partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)


class TestScenario51:
    """A transactional commit is invisible until the marker, dropped on abort, and survives a reload."""

    def test_it_is_invisible_before_the_marker(self, log: OffsetLog) -> None:
        log.commit(5)
        log.commit_in(ONE, 10)

        assert log.fetch() == at(5)
        verify(log)

    def test_it_counts_from_the_commit_marker_on(self, log: OffsetLog) -> None:
        log.commit(5)
        log.commit_in(ONE, 10)
        log.commit_in(ONE, 20, partition=1)
        log.end(ONE, committed=True)

        assert (log.fetch(), log.fetch(1)) == (at(10), at(20, 1))
        verify(log)

    def test_it_is_dropped_by_the_abort_marker(self, log: OffsetLog) -> None:
        log.commit(5)
        log.commit_in(ONE, 10)
        log.end(ONE, committed=False)
        log.end(ONE, committed=True)

        assert log.fetch(require_stable=True) == at(5)
        verify(log)

    def test_the_last_of_several_in_one_transaction_counts(self, log: OffsetLog) -> None:
        log.commit_in(ONE, 10)
        log.commit_in(ONE, 30)
        log.commit_in(ONE, 20)
        log.end(ONE, committed=True)

        assert log.fetch() == at(20)
        verify(log)

    def test_a_reload_in_the_middle_leaves_it_pending(self, log: OffsetLog) -> None:
        log.commit_in(ONE, 10)
        log.restart()

        assert log.fetch(require_stable=True) == unstable()
        log.end(ONE, committed=True)
        assert log.fetch(require_stable=True) == at(10)

    def test_a_marker_ends_one_producers_transaction_in_every_group_and_no_other(self, log: OffsetLog) -> None:
        log.commit_in(ONE, 10)
        log.commit_in(ONE, 11, group_id="audit")
        log.commit_in(TWO, 20, partition=1)
        log.end(ONE, committed=True)

        assert (log.fetch(), log.fetch(group_id="audit")) == (at(10), at(11))
        assert log.fetch(1, require_stable=True) == unstable(1)

    def test_a_marker_without_anything_pending_changes_nothing(self, log: OffsetLog) -> None:
        log.commit(5)
        log.end(TWO, committed=True)

        assert log.fetch(require_stable=True) == at(5)

    def test_a_marker_may_carry_a_higher_epoch_than_what_it_ends(self, log: OffsetLog) -> None:
        """Transactions V2: every end of a transaction raises the epoch."""
        log.commit_in(ONE, 10)
        log.end(ProducerIdentity(ONE.producer_id, ONE.producer_epoch + 1), committed=True)

        assert log.fetch(require_stable=True) == at(10)


class TestScenario52:
    """``require_stable`` refuses what a transaction is undecided about. redpanda #9571: a new owner that read the old
    offset, while the commit of its predecessor was under way, processed everything twice."""

    def test_the_partition_is_unstable_until_every_transaction_on_it_has_ended(self, log: OffsetLog) -> None:
        log.commit(5)
        log.commit_in(ONE, 10)
        log.commit_in(TWO, 20)

        assert log.fetch(require_stable=True) == unstable()
        log.end(ONE, committed=True)
        assert log.fetch(require_stable=True) == unstable()
        log.end(TWO, committed=False)
        assert log.fetch(require_stable=True) == at(10)

    def test_other_partitions_and_groups_are_stable(self, log: OffsetLog) -> None:
        log.commit(5, partition=1)
        log.commit(6, group_id="audit")
        log.commit_in(ONE, 10)

        assert log.fetch(1, require_stable=True) == at(5, 1)
        assert log.fetch(group_id="audit", require_stable=True) == at(6)

    def test_whoever_does_not_require_it_reads_what_is_committed(self, log: OffsetLog) -> None:
        log.commit_in(ONE, 10)

        assert log.fetch() == at(None)

    def test_all_partitions_include_those_with_nothing_but_a_pending_offset(self, log: OffsetLog) -> None:
        """A client that is not told of them would take them for never committed."""
        log.commit(5, partition=1)
        log.commit_in(ONE, 10)

        assert log.shard.fetch("payments", None).response.offsets == (at(5, 1),)
        stable = log.shard.fetch("payments", None, require_stable=True).response.offsets
        assert stable == (unstable(0), at(5, 1))

    def test_one_can_see_who_makes_a_group_wait(self, log: OffsetLog) -> None:
        log.commit_in(TWO, 20, partition=2)
        log.commit_in(TWO, 20, partition=1)
        log.commit_in(ONE, 10, partition=1)
        log.commit_in(ONE, 10, group_id="audit")

        assert log.shard.open_transactions("payments") == (
            OpenTransaction(1000, 0, (("orders", 1),)),
            OpenTransaction(2000, 3, (("orders", 1), ("orders", 2))),
        )
        assert log.shard.open_transactions("nobody") == ()


class TestScenario55:
    """A plain and a transactional commit race: the higher one in the log wins, live and after a reload.

    redpanda #31483 (CORE-16998): live, the one that was decided last won; after a reload, the other one.
    """

    def test_the_transaction_wins_if_it_wrote_last(self, log: OffsetLog) -> None:
        log.commit(5)
        log.commit_in(ONE, 10)
        log.end(ONE, committed=True)

        assert log.fetch() == at(10)
        verify(log)

    def test_the_plain_commit_wins_if_it_wrote_last_though_the_transaction_ended_later(self, log: OffsetLog) -> None:
        log.commit_in(ONE, 10)
        log.commit(5)
        log.end(ONE, committed=True)

        assert log.fetch() == at(5)
        verify(log)

    def test_of_two_transactions_the_one_that_wrote_last_wins_though_it_ended_first(self, log: OffsetLog) -> None:
        log.commit_in(ONE, 10)
        log.commit_in(TWO, 20)
        log.end(TWO, committed=True)
        log.end(ONE, committed=True)

        assert log.fetch() == at(20)
        verify(log)

    def test_an_aborted_transaction_that_wrote_last_does_not_hide_the_plain_commit(self, log: OffsetLog) -> None:
        log.commit(5)
        log.commit_in(ONE, 10)
        log.end(ONE, committed=False)

        assert log.fetch() == at(5)
        verify(log)

    def test_a_deletion_between_the_offset_and_the_marker_wins(self, log: OffsetLog) -> None:
        """redpanda #31483 (CORE-17000): what a tombstone had ended came back with the marker, until the next reload."""
        log.commit(5)
        log.commit_in(ONE, 10)
        log.write(OffsetTombstone(OffsetKey("payments", "orders", 0)))
        log.end(ONE, committed=True)

        assert log.fetch(require_stable=True) == at(None)
        verify(log)

    def test_what_the_transaction_writes_after_a_deletion_counts(self, log: OffsetLog) -> None:
        log.commit_in(ONE, 10)
        log.write(OffsetTombstone(OffsetKey("payments", "orders", 0)))
        log.commit_in(ONE, 11)
        log.end(ONE, committed=True)

        assert log.fetch(require_stable=True) == at(11)
        verify(log)
