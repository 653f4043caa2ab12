"""Lookup of offsets by timestamp (ListOffsets).

A batch header has the largest timestamp of its batch, a time index entry the largest of many batches. So the search
goes from segment to index entry to batch by comparing numbers, and usually decodes one batch only.

It may have to look at many more: the record that has the largest timestamp of a segment may be deleted, or may not
exist, in a log of an earlier version, which believed the headers of producers. So the search is done in steps.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Final, NamedTuple

from semel.wire.records import NO_TIMESTAMP, BatchHeader, iterate_records

if TYPE_CHECKING:
    from semel.log.partition_log import PartitionLog
    from semel.log.segments.segment import Segment

STEP_EFFORT: Final = 500
"""How many batch headers or records one step looks at: about a millisecond."""


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int | None


Steps = Generator[None, None, TimestampOffset | None]


def first_at_or_after(log: PartitionLog, timestamp: int) -> Steps:
    """Find the first record, by offset, whose timestamp is not before ``timestamp``. As in Kafka it may be a marker.

    Between two steps the log may be appended to, compacted, or lose segments at its start.
    """
    reached = 0  # Below this offset there is no such record.
    effort = 0
    while (found := _next_segment(log, timestamp, reached)) is not None:
        segment, end_offset = found
        # This is the last index entry up to which everything is older than ``timestamp``.
        _, offset = segment.time_index.lookup(timestamp - 1)
        _, position = segment.offset_index.lookup(max(offset, reached))
        while True:
            for at, header in segment.headers(position):
                position = at + header.size_bytes
                effort += 1
                if header.next_offset > reached:
                    reached = header.next_offset
                    if header.max_timestamp >= timestamp and reached > log.log_start_offset:
                        record = yield from _first_record(log, segment, at, header, timestamp)
                        if record is not None:
                            return record
                        effort = STEP_EFFORT
                if effort >= STEP_EFFORT:
                    break
            else:
                if end_offset is None:
                    return None
                reached = max(reached, end_offset)
                break
            yield
            effort = 0
            if not any(segment is other for other in log.segments):
                break  # It was replaced or removed: find the place again.
    return None


def first_with_largest_timestamp(log: PartitionLog) -> Steps:
    """Find the first record with the largest timestamp."""
    largest = max((segment.largest_timestamp for segment in log.segments), default=NO_TIMESTAMP)
    if largest == NO_TIMESTAMP:
        return None
    return (yield from first_at_or_after(log, largest))


def _next_segment(log: PartitionLog, timestamp: int, reached: int) -> tuple[Segment, int | None] | None:
    """The first segment from this offset on that may have the record, and its end offset if it is closed."""
    segments = log.segments
    for number in range(segments.number_for(reached), len(segments)):
        if segments[number].largest_timestamp >= timestamp:
            return segments[number], segments.end_of(number)
    return None


def _first_record(log: PartitionLog, segment: Segment, position: int, header: BatchHeader, timestamp: int) -> Steps:
    for number, record in enumerate(iterate_records(segment.read_batch(position, header)), 1):
        if record.timestamp >= timestamp and record.offset >= log.log_start_offset:
            epoch = header.partition_leader_epoch
            return TimestampOffset(record.timestamp, record.offset, epoch if epoch >= 0 else None)
        if number % STEP_EFFORT == 0:
            yield
    return None


def at_once(steps: Steps) -> TimestampOffset | None:
    """Do all steps in this turn of the event loop."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: TimestampOffset | None = end.value
            return found
