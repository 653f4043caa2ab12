"""Lookup of offsets by timestamp (ListOffsets).

A batch header has the largest timestamp of its batch, a time index entry the largest of many batches. So the search
goes from segment to index entry to batch by comparing numbers, and decodes one batch only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from semel.wire.records import NO_TIMESTAMP, BatchHeader, iterate_records

if TYPE_CHECKING:
    from semel.log.partition_log import PartitionLog
    from semel.log.segments.segment import Segment


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int | None


def first_at_or_after(log: PartitionLog, timestamp: int) -> TimestampOffset | None:
    """The first record, by offset, whose timestamp is not before ``timestamp``. As in Kafka it may be a marker."""
    for segment in log.segments:
        if segment.largest_timestamp < timestamp:
            continue
        # This is the last index entry up to which everything is older than ``timestamp``.
        _, offset = segment.time_index.lookup(timestamp - 1)
        _, position = segment.offset_index.lookup(offset)
        for at, header in segment.headers(position):
            if header.max_timestamp >= timestamp and header.last_offset >= log.log_start_offset:
                found = _first_record(log, segment, at, header, timestamp)
                if found is not None:
                    return found
    return None


def first_with_largest_timestamp(log: PartitionLog) -> TimestampOffset | None:
    largest = max((segment.largest_timestamp for segment in log.segments), default=NO_TIMESTAMP)
    return None if largest == NO_TIMESTAMP else first_at_or_after(log, largest)


def _first_record(
    log: PartitionLog, segment: Segment, position: int, header: BatchHeader, timestamp: int
) -> TimestampOffset | None:
    for record in iterate_records(segment.read_batch(position, header)):
        if record.timestamp >= timestamp and record.offset >= log.log_start_offset:
            epoch = header.partition_leader_epoch
            return TimestampOffset(record.timestamp, record.offset, epoch if epoch >= 0 else None)
    return None
