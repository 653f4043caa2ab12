"""What may be compacted, and which log comes first."""

from __future__ import annotations

from typing import Any

import pytest

from semel.log.compaction.cleanable import CleanableRange, cleanable_range, dirtiest, is_due_to_roll, needs_cleaning
from semel.types import TopicPartition
from tests.unit.log.compaction.bench import Bench


def filled(segments: int = 3, **settings: Any) -> Bench:
    """Segments with two offsets each, below the recovery point, and an active one with another two."""
    bench = Bench(settings=settings)
    for number in range(segments + 1):
        bench.put(("a", f"{number}"))
        bench.put(("b", f"{number}"))
        if number < segments:
            bench.roll()
        bench.now_ms += 1000
    bench.checkpoint()
    return bench


def found(bench: Bench, first_dirty_offset: int = 0) -> tuple[int, int] | None:
    cleanable = cleanable_range(bench.log, first_dirty_offset, bench.now_ms)
    return None if cleanable is None else (cleanable.first_dirty_offset, cleanable.end_offset)


def test_the_active_segment_is_not_in_the_range() -> None:
    assert found(filled()) == (0, 6)


def test_a_log_of_one_segment_has_no_range() -> None:
    assert found(filled(0)) is None


def test_a_range_begins_at_the_first_dirty_offset_and_counts_what_lies_before_as_clean() -> None:
    bench = filled()
    size = bench.log.segments.first.size_bytes
    assert cleanable_range(bench.log, 4, bench.now_ms) == CleanableRange(4, 6, 2 * size, size, False)
    assert found(bench, 6) is None


def test_a_segment_that_is_dirty_in_part_counts_as_dirty() -> None:
    bench = filled()
    size = bench.log.segments.first.size_bytes
    assert cleanable_range(bench.log, 3, bench.now_ms) == CleanableRange(3, 6, size, 2 * size, False)


def test_a_range_begins_no_earlier_than_the_log() -> None:
    bench = filled()
    bench.log.delete_records_before(3)
    assert found(bench) == (3, 6)


def test_what_is_not_synced_in_the_partitions_own_files_is_not_in_the_range() -> None:
    bench = filled()
    bench.log.recovery_point = 5
    assert found(bench) == (0, 4)


def test_what_readers_may_not_see_yet_is_not_in_the_range() -> None:
    bench = filled()
    bench.log.high_watermark = bench.log.last_stable_offset = 3
    assert found(bench) == (0, 2)


def test_scenario_47_nothing_undecided_is_in_the_range() -> None:
    bench = filled(2)
    bench.put(("t", "undecided"), producer=1, transactional=True)
    bench.roll()
    bench.put(("a", "later"))
    bench.roll()
    bench.checkpoint()
    assert bench.log.last_stable_offset == 6
    assert found(bench) == (0, 4)
    bench.commit(1)
    assert found(bench) == (0, 8)


def test_scenario_47_deleting_records_past_an_open_transaction_does_not_make_it_cleanable() -> None:
    bench = filled(1)
    bench.put(("t", "undecided"), producer=1, transactional=True)
    bench.roll()
    bench.put(("a", "later"))
    bench.roll()
    bench.checkpoint()
    bench.log.delete_records_before(5)
    assert bench.log.last_stable_offset == 5 > 4 == bench.log.producers.first_undecided_offset
    assert found(bench) is None


def test_scenario_47_a_transaction_counts_as_undecided_until_its_marker_is_visible() -> None:
    bench = filled(1)
    bench.put(("t", "decided"), producer=1, transactional=True)
    bench.roll()
    bench.put(("a", "later"))
    bench.roll()
    bench.checkpoint()
    bench.log.on_durable = lambda log: None
    bench.commit(1)
    assert found(bench) == (0, 2)
    bench.log.advance_high_watermark(bench.log.log_end_offset)
    assert found(bench) == (0, 6)


def test_a_segment_with_a_record_younger_than_the_minimum_lag_is_left_for_later() -> None:
    bench = filled(min_compaction_lag_ms=2500)
    assert found(bench) == (0, 4)
    assert found(bench, 4) is None
    bench.now_ms += 1000
    assert found(bench) == (0, 6)


def test_a_log_is_worth_it_from_the_dirty_ratio_on() -> None:
    log = filled(min_cleanable_dirty_ratio=0.5).log
    assert needs_cleaning(log, CleanableRange(0, 1, 100, 100, False))
    assert not needs_cleaning(log, CleanableRange(0, 1, 101, 100, False))
    assert needs_cleaning(log, CleanableRange(0, 1, 101, 1, True))


def test_a_record_that_has_waited_for_the_maximum_lag_makes_its_log_overdue() -> None:
    bench = filled(max_compaction_lag_ms=3500, segment_ms=10**9)
    cleanable = cleanable_range(bench.log, 0, bench.now_ms)
    assert cleanable is not None
    assert cleanable.overdue
    cleanable = cleanable_range(bench.log, 2, bench.now_ms)
    assert cleanable is not None
    assert not cleanable.overdue


def test_the_overdue_come_first_then_the_dirtiest_then_the_name_decides() -> None:
    logs = [filled(0).log for _ in range(5)]
    for number, log in enumerate(logs):
        log.topic_partition = TopicPartition("t", number)
    clean, dirty, dirty_too, overdue, not_worth_it = logs
    candidates = [
        (not_worth_it, CleanableRange(0, 1, 90, 10, False)),
        (dirty_too, CleanableRange(0, 1, 0, 10, False)),
        (clean, CleanableRange(0, 1, 40, 60, False)),
        (dirty, CleanableRange(0, 1, 0, 10, False)),
        (overdue, CleanableRange(0, 1, 99, 1, True)),
    ]
    ranked = []
    while (chosen := dirtiest(candidates)) is not None:
        ranked.append(chosen)
        candidates = [candidate for candidate in candidates if candidate[0] is not chosen]
    assert ranked == [overdue, dirty, dirty_too, clean]


@pytest.mark.parametrize(
    ("settings", "waited_ms", "due"),
    [
        ({"segment_ms": 1000}, 1000, False),
        ({"segment_ms": 1000}, 1001, True),
        ({"segment_ms": 1000, "max_compaction_lag_ms": 500}, 501, True),
        ({"segment_ms": 1000, "max_compaction_lag_ms": 500}, 500, False),
    ],
)
def test_a_segment_is_closed_by_time_although_nobody_writes_to_it(
    settings: dict[str, int], waited_ms: int, due: bool
) -> None:
    bench = Bench(settings=settings)
    assert not is_due_to_roll(bench.log, bench.now_ms + 10**9), "an empty one has nothing to wait for"
    bench.now_ms += 5000
    bench.put(("a", "v"))
    assert is_due_to_roll(bench.log, bench.now_ms + waited_ms) is due


def test_a_segment_of_old_records_is_not_closed_at_every_look() -> None:
    bench = Bench(settings={"segment_ms": 1000})
    bench.put(("a", "from last year"), timestamp=bench.now_ms - 365 * 86_400_000)
    assert not is_due_to_roll(bench.log, bench.now_ms + 1000)
    assert is_due_to_roll(bench.log, bench.now_ms + 1001)


def test_an_append_closes_a_compacted_segment_by_the_maximum_lag() -> None:
    bench = Bench(settings={"segment_ms": 10_000, "max_compaction_lag_ms": 500})
    bench.put(("a", "1"))
    bench.now_ms += 501
    bench.put(("a", "2"))
    assert len(bench.log.segments) == 2
