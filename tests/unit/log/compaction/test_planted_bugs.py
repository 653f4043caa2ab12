"""Bugs that compaction of transactional logs has had elsewhere, planted one by one: the checks must see each of them.

The checks are those of the property test; the logs here are the smallest that each bug destroys.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from semel.log.compaction.batch_filter import BatchFilter
from semel.log.compaction.cleanable import CleanableRange, cleanable_range
from semel.log.compaction.cleaning import CleaningPass
from semel.log.compaction.rewriting import Rewriting
from semel.log.compaction.statistics import CleanerStatistics
from semel.log.compaction.transactions import AbortedTransactions, LiveProducers
from semel.log.segment import Segment
from semel.log.transaction_index import AbortedTransaction
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


def above_the_last_stable_offset(bench: Bench) -> CleanableRange:
    return CleanableRange(0, bench.log.segments.active.base_offset, 0, bench.log.size_bytes, False)


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


def undecided(bench: Bench) -> None:
    bench.put(("a", "committed"))
    bench.put(("a", "undecided"), producer=1, transactional=True)
    bench.roll()
    bench.put(("b", "1"))


MUTANTS: list[tuple[type[CleaningPass], Callable[[Bench], None]]] = [
    (DropsLastBatches, emptied_producer),
    (ForgetsAborts, aborted_after_committed),
    (DropsIndexEntriesEarly, aborted_beyond_the_map),
    (DeduplicatesMarkers, committed_and_a_key_like_the_markers),
    (DropsMarkersEarly, committed_and_a_key_like_the_markers),
]


def clean(bench: Bench, make: type[CleaningPass], cleanable: CleanableRange | None) -> None:
    assert cleanable is not None
    cleaning = make(
        bench.log,
        cleanable,
        disk=bench.disk,
        now_ms=bench.now_ms,
        map_entries_max=2,
        statistics=CleanerStatistics(),
    )
    for _ in cleaning.run():
        pass


@pytest.mark.parametrize(("mutant", "fill"), MUTANTS, ids=lambda value: value.__name__)
def test_a_planted_bug_is_seen_and_without_it_all_is_well(
    mutant: type[CleaningPass], fill: Callable[[Bench], None]
) -> None:
    bench = Bench()
    fill(bench)
    bench.roll()
    bench.checkpoint()
    for make, sound in ((CleaningPass, True), (mutant, False)):
        copy = bench.copy()
        faithful = remember(copy)
        clean(copy, make, cleanable_range(copy.log, 0, copy.now_ms))
        if sound:
            faithful.check(copy)
        else:
            with pytest.raises(Unfaithful):
                faithful.check(copy)


def test_cleaning_above_the_last_stable_offset_is_seen() -> None:
    """Scenario 47."""
    bench = Bench()
    undecided(bench)
    bench.roll()
    bench.checkpoint()
    faithful = remember(bench)
    assert cleanable_range(bench.log, 0, bench.now_ms) is None
    clean(bench, CleaningPass, above_the_last_stable_offset(bench))
    with pytest.raises(Unfaithful):
        faithful.check(bench)
