"""Which segments are due to go. A decision only: ``PartitionLog.remove_segments`` carries it out.

Segments go whole and from the oldest on, so the first that must stay ends the search. Nothing goes that a reader could
not have seen yet: a segment must lie below the high watermark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semel.log.partition_log import PartitionLog
    from semel.log.segments.segment import Segment


def expired_segments(log: PartitionLog, now_ms: int) -> list[Segment]:
    excess_bytes = 0
    if log.config.delete and log.config.retention_bytes is not None:
        excess_bytes = log.size_bytes - log.config.retention_bytes
    expired = []
    for number, segment in enumerate(log.segments):
        end_offset = log.segments.end_of(number)
        is_active = end_offset is None
        if end_offset is None:
            end_offset = log.log_end_offset
        if end_offset > log.high_watermark or (is_active and segment.size_bytes == 0):
            break
        too_much = not is_active and excess_bytes >= segment.size_bytes
        if not (_is_too_old(log, segment, now_ms) or too_much or end_offset <= log.log_start_offset):
            break
        if is_active and end_offset <= log.log_start_offset and not _is_too_old(log, segment, now_ms):
            break  # Everything was deleted by hand; the segment may go on where it is.
        excess_bytes -= segment.size_bytes
        expired.append(segment)
    return expired


def _is_too_old(log: PartitionLog, segment: Segment, now_ms: int) -> bool:
    retention_ms = log.config.retention_ms
    if not log.config.delete or retention_ms is None:
        return False
    newest = segment.largest_timestamp if segment.largest_timestamp >= 0 else segment.created_ms
    return now_ms - newest > retention_ms
