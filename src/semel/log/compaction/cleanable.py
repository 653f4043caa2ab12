"""The decisions of compaction: which part of a log may be compacted, whether it is worth it, and which log is next.

The law: a range ends at the beginning of a segment. All of it is below the last stable offset, visible, and synced in
the partition's own files. So a crash does not bring back records that were compacted, and in a range every transaction
that was not aborted is committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from semel.log.partition_log import PartitionLog
from semel.types import INT64_MAX


@dataclass(frozen=True, slots=True)
class CleanableRange:
    """The dirty part of a log that may be compacted now, and the size of the clean part before it."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool  # whether a record in it has waited for longer than max.compaction.lag.ms

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)


def cleanable_range(log: PartitionLog, first_dirty_offset: int, now_ms: int) -> CleanableRange | None:
    """The range that may be compacted, or ``None``. A segment that is dirty in part counts as dirty."""
    config = log.config
    first_dirty_offset = max(first_dirty_offset, log.log_start_offset)
    limit = _first_uncleanable_offset(log)
    touched_ms = now_ms - config.min_compaction_lag_ms if config.min_compaction_lag_ms else INT64_MAX
    overdue_ms = now_ms - config.max_compaction_lag_ms if config.max_compaction_lag_ms < INT64_MAX else None
    clean_bytes = dirty_bytes = 0
    range_end, overdue = first_dirty_offset, False
    for number, segment in enumerate(log.segments):
        end_offset = log.segments.end_of(number)
        if end_offset is None or end_offset > limit:
            break
        if end_offset <= first_dirty_offset:
            clean_bytes += segment.size_bytes
            continue
        if segment.largest_timestamp > touched_ms:
            break
        dirty_bytes += segment.size_bytes
        range_end = end_offset
        if overdue_ms is not None and not overdue:
            first_timestamp = segment.first_timestamp()
            overdue = first_timestamp is not None and 0 <= first_timestamp < overdue_ms
    if not dirty_bytes:
        return None
    return CleanableRange(first_dirty_offset, range_end, clean_bytes, dirty_bytes, overdue)


def needs_cleaning(log: PartitionLog, cleanable: CleanableRange) -> bool:
    return cleanable.overdue or cleanable.dirty_ratio >= log.config.min_cleanable_dirty_ratio


def dirtiest(candidates: Iterable[tuple[PartitionLog, CleanableRange]]) -> PartitionLog | None:
    """The log to compact next. One that is over ``max.compaction.lag.ms`` comes first, then the largest dirty ratio."""
    worth_it = [candidate for candidate in candidates if needs_cleaning(*candidate)]
    if not worth_it:
        return None
    log, _ = min(worth_it, key=lambda found: (not found[1].overdue, -found[1].dirty_ratio, found[0].topic_partition))
    return log


def is_due_to_roll(log: PartitionLog, now_ms: int) -> bool:
    """Whether the active segment has waited so long that it must be closed, since only closed ones are compacted.

    An append closes it by the records' own times. This is for a log that is not appended to. Here the time since
    the segment was created counts too: otherwise a log filled with old records would get a new segment at each check.
    """
    active = log.segments.active
    first_timestamp = active.first_timestamp()
    if first_timestamp is None:
        return False
    return now_ms - max(active.created_ms, first_timestamp) > log.segment_age_max_ms


def _first_uncleanable_offset(log: PartitionLog) -> int:
    limit = min(log.last_stable_offset, log.recovery_point)
    # DeleteRecords may move the last stable offset past the first offset of a transaction that is still open.
    undecided = log.producers.first_undecided_offset
    return limit if undecided is None else min(limit, undecided)
