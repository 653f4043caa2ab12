"""Bugs that compaction of transactional logs has had elsewhere, planted one by one: the checks must see each of them.

The checks are those of the property test; the logs here are the smallest that each bug destroys.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from semel.log.compaction.batch_filter import BatchFilter
from semel.log.compaction.cleanable import CleanableRange, cleanable_range
from semel.log.compaction.cleaning import CleaningPass
from semel.log.compaction.rewriting import Rewriting
from semel.log.compaction.statistics import CleanerStatistics
from semel.log.compaction.transactions import AbortedTransactions, LiveProducers
from semel.log.segments.segment import Segment
from semel.log.segments.transaction_index import AbortedTransaction, TransactionIndex
from semel.types import Buffer
from semel.wire.records import BatchHeader, iterate_records
from tests.unit.log.compaction.bench import Bench
from tests.unit.log.compaction.checks import Unfaithful, remember


class DropsLastBatches(CleaningPass):
    """Scenario 48: a live producer's next sequence looks like a gap."""

    def live_producers(self) -> LiveProducers:
        return LiveProducers(())


class ForgetsAborts(CleaningPass):
    """KAFKA-8351: aborted records are taken for committed, and replace what is."""

    def aborted_transactions(self) -> AbortedTransactions:
        return AbortedTransactions(())


class _WithoutIndex(Rewriting):
    def aborted_by_marker(self) -> dict[int, AbortedTransaction]:
        return {}


class DropsIndexEntriesEarly(CleaningPass):
    """KAFKA-13727: the records beyond the map are copied, but nothing says any more that they were aborted."""

    def rewriting(self, group: list[Segment]) -> Rewriting:
        made = super().rewriting(group)
        made.__class__ = _WithoutIndex
        return made


class _MarkersByKey(BatchFilter):
    def _marker(self, header: BatchHeader, batch: memoryview, ends_segment: bool) -> Buffer | None:
        (record,) = iterate_records(batch)
        return batch if self._is_latest(record) else None


class DeduplicatesMarkers(CleaningPass):
    """crabka #528, scenario 50: all markers of a kind share a key."""

    batch_filter = _MarkersByKey


class _MarkersAtOnce(BatchFilter):
    def _marker(self, header: BatchHeader, batch: memoryview, ends_segment: bool) -> Buffer | None:
        return None


class DropsMarkersEarly(CleaningPass):
    """The records of a committed transaction outlive its marker: after a start it is open for ever."""

    batch_filter = _MarkersAtOnce


class _NothingSeen(BatchFilter):
    def _marker(self, header: BatchHeader, batch: memoryview, ends_segment: bool) -> Buffer | None:
        self._with_records.clear()
        return super()._marker(header, batch, ends_segment)


class ForgetsRecordsBetweenSegments(CleaningPass):
    """KAFKA-8351: what was seen of a transaction is not carried over to where its marker is."""

    batch_filter = _NothingSeen


class _EntriesForEver(Rewriting):
    def _finish(self, new: Segment) -> Generator[None, None, None]:
        new.transaction_index = TransactionIndex()
        for entry in self.aborted_by_marker().values():
            new.transaction_index.append(entry)
        yield from super()._finish(new)


class KeepsIndexEntries(CleaningPass):
    """An entry outlives its marker, and hides what its producer wrote afterwards."""

    def rewriting(self, group: list[Segment]) -> Rewriting:
        made = super().rewriting(group)
        made.__class__ = _EntriesForEver
        return made


class AbortsOfTheRangeOnly(CleaningPass):
    """KAFKA-13727: the marker lies beyond the range, so the records in it are taken for committed."""

    def aborted_transactions(self) -> AbortedTransactions:
        return AbortedTransactions(
            entry
            for segment in self.log.segments
            for entry in segment.transaction_index
            if entry.last_offset < self.cleanable.end_offset
        )


def emptied_producer(bench: Bench) -> None:
    bench.put(("a", "1"), producer=1)
    bench.put(("a", "2"))


def aborted_after_committed(bench: Bench) -> None:
    bench.put(("a", "committed"))
    bench.put(("a", "aborted"), producer=1, transactional=True)
    bench.abort(1)


def aborted_beyond_the_map(bench: Bench) -> None:
    for number in range(6):
        bench.put((f"k{number // 2}", "1"))
    bench.put(("a", "aborted"), producer=1, transactional=True)
    bench.abort(1)


def committed_and_a_key_like_the_markers(bench: Bench) -> None:
    bench.put(("a", "committed"), producer=1, transactional=True)
    bench.commit(1)
    bench.put(("\0\0\0\1", "a user's"))


def aborted_then_committed(bench: Bench) -> None:
    bench.put(("a", "aborted"), producer=1, transactional=True)
    bench.abort(1)
    bench.put(("b", "committed"), producer=1, transactional=True)
    bench.commit(1)


def aborted_beyond_the_range(bench: Bench) -> None:
    bench.put(("a", "committed"))
    bench.put(("a", "aborted"), producer=1, transactional=True)
    bench.roll()
    bench.put(("b", "open"), producer=2, transactional=True)
    bench.abort(1)


MUTANTS: list[tuple[type[CleaningPass], Callable[[Bench], None]]] = [
    (DropsLastBatches, emptied_producer),
    (ForgetsAborts, aborted_after_committed),
    (AbortsOfTheRangeOnly, aborted_beyond_the_range),
    (DropsIndexEntriesEarly, aborted_beyond_the_map),
    (KeepsIndexEntries, aborted_then_committed),
    (DeduplicatesMarkers, committed_and_a_key_like_the_markers),
    (DropsMarkersEarly, committed_and_a_key_like_the_markers),
    (ForgetsRecordsBetweenSegments, committed_and_a_key_like_the_markers),
]


def clean_and_check(bench: Bench, make: type[CleaningPass], *, passes: int = 4) -> None:
    """One pass after the other, each with something new to clean."""
    first_dirty_offset = 0
    for number in range(passes):
        bench.roll()
        bench.checkpoint()
        cleanable = cleanable_range(bench.log, first_dirty_offset, bench.now_ms)
        if cleanable is not None:
            first_dirty_offset = clean(bench, make, cleanable)
        bench.put((f"new {number}", "1"))


def clean(bench: Bench, make: type[CleaningPass], cleanable: CleanableRange) -> int:
    faithful = remember(bench)
    cleaning = make(
        bench.log,
        cleanable,
        disk=bench.disk,
        now_ms=bench.now_ms,
        map_entries_max=2,
        statistics=CleanerStatistics(),
    )
    steps = cleaning.run()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            faithful.check(bench)
            return int(end.value)


@pytest.mark.parametrize(("mutant", "fill"), MUTANTS, ids=lambda value: value.__name__)
def test_a_planted_bug_is_seen_and_without_it_all_is_well(
    mutant: type[CleaningPass], fill: Callable[[Bench], None]
) -> None:
    bench = Bench(settings={"delete_retention_ms": 0})
    fill(bench)
    bench.roll()
    bench.checkpoint()
    clean_and_check(bench.copy(), CleaningPass)
    with pytest.raises(Unfaithful):
        clean_and_check(bench, mutant)


class OutgrowsItsSegments(CleaningPass):
    """Not a bug: a group whose new segment would be too large is left as it is (KAFKA-20036)."""

    def rewriting(self, group: list[Segment]) -> Rewriting:
        made = super().rewriting(group)
        if group[0].base_offset == 0:
            made._size_bytes_max = 100
        return made


def test_a_group_that_outgrows_one_segment_stays_as_it_is_and_its_records_still_hold_their_markers() -> None:
    bench = Bench(settings={"delete_retention_ms": 0, "segment_bytes": 400})
    bench.put(("a", "1"), ("filler", "x" * 100))
    bench.put(("a", "2"), producer=1, transactional=True)
    bench.put(("b", "2"), ("filler", "x" * 200), producer=2, transactional=True)
    bench.roll()
    bench.commit(1)
    bench.abort(2)
    bench.put(("c", "1"), ("filler", "x" * 200))
    first = bench.log.segments.first
    clean_and_check(bench, OutgrowsItsSegments)
    assert bench.log.segments.first is first
    assert len(bench.log.segments) > 2


def test_cleaning_above_the_last_stable_offset_is_seen() -> None:
    """Scenario 47."""
    bench = Bench()
    bench.put(("a", "committed"))
    bench.put(("a", "undecided"), producer=1, transactional=True)
    bench.roll()
    bench.put(("b", "1"))
    bench.roll()
    bench.checkpoint()
    assert cleanable_range(bench.log, 0, bench.now_ms) is None
    too_far = CleanableRange(0, bench.log.segments.active.base_offset, 0, bench.log.size_bytes, False)
    with pytest.raises(Unfaithful):
        clean(bench, CleaningPass, too_far)
