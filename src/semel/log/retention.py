"""Retention: the oldest segments of a log are removed by age (``retention.ms``) or size (``retention.bytes``).

Segments are removed whole and from the oldest on, so the search ends at the first that must stay. A segment is removed
only if it lies below the high watermark, because readers may not have seen what lies above.

Removing files takes time, so it is done in steps, with one or a few file system calls in each. After the first step the
log no longer has the segments. Files that a crash leaves behind are below the log start, so the retention of the next
process removes them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from semel.log.durability.checkpointing import persist_log_start, remove_partition_checkpoint

if TYPE_CHECKING:
    from semel.log.partition_log import PartitionLog
    from semel.log.segments.segment import Segment


def apply_retention(log: PartitionLog, now_ms: int) -> int:
    """Remove the segments that exceed the topic's retention time or size. Returns the number of removed segments."""
    steps = retention_steps(log, now_ms)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            removed: int = end.value
            return removed


def retention_steps(log: PartitionLog, now_ms: int) -> Generator[None, None, int]:
    """Apply retention like ``apply_retention``, with a ``yield`` after every step."""
    expired = [] if log.is_truncating else expired_segments(log, now_ms)
    if expired:
        yield from _removal_steps(log, expired, now_ms)
    return len(expired)


def below_start_steps(log: PartitionLog) -> Generator[None, None, int]:
    """Remove the segments below the log start, with a ``yield`` after every step. Returns the number of removed
    segments.

    For DeleteRecords, and for a log that another broker leads: only the leader applies retention, and a follower takes
    over the leader's log start. The segments are found in the first step: meanwhile retention or another DeleteRecords
    may have removed them.
    """
    below = [] if log.is_truncating or log.offline is not None else _segments_below_start(log)
    if below:
        yield from _removal_steps(log, below, 0)  # The time is not used: the active segment stays, so none is made.
    return len(below)


def _removal_steps(log: PartitionLog, segments: Sequence[Segment], now_ms: int) -> Generator[None, None, None]:
    """Remove these segments, which are the oldest of the log, with a ``yield`` after every step.

    At least one segment stays, if necessary a new one: its file name keeps the log end offset on disk. If the log goes
    offline between two steps, the other files stay: it may have been deleted, and its folder may belong to a new topic.
    If it is truncated, they stay, too: it may begin again at the offset of one of these segments.
    """
    truncations = log.truncations
    assert segments[0] is log.segments.first, f"{segments[0]!r} is not the first segment of {log}"
    if segments[-1] is log.segments.active:
        log.roll(now_ms)
        # The new segment's name contains the log end: it must be durable before the old segment is removed.
        log.disk.sync_directory(log.folder)
    following = log.segments[log.segments.number_for(segments[-1].base_offset) + 1]
    log.advance_log_start(following.base_offset)
    try:
        persist_log_start(log)
    except OSError:
        # The disk may be full, and removing segments makes room.
        remove_partition_checkpoint(log)
    log.segments.replace(segments, ())
    aborted = any(segment.transaction_index.entries for segment in segments)
    for segment in segments:
        log.disk.remove(segment.path(".log"))
        if aborted:
            # A power cut may undo any removal: it must not bring back records without their index of aborted
            # transactions.
            log.disk.sync_directory(log.folder)
        yield
        if log.offline is not None or log.is_truncating or log.truncations != truncations:
            return
    for segment in segments:
        segment.remove()
        if segment.base_offset != log.recovery_point:
            log.snapshots.remove(segment.base_offset)
        yield
        if log.offline is not None or log.is_truncating or log.truncations != truncations:
            return


def expired_segments(log: PartitionLog, now_ms: int) -> list[Segment]:
    """The segments that retention will remove, oldest first. Changes nothing."""
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
        # The active segment is too much only if nothing may stay: retention.bytes is 0.
        is_past_retention = excess_bytes >= segment.size_bytes or _is_too_old(log, segment, now_ms)
        # A closed segment goes, too, if all its records were deleted by DeleteRecords; the active one can stay in use.
        if not is_past_retention and (is_active or end_offset > log.log_start_offset):
            break
        excess_bytes -= segment.size_bytes
        expired.append(segment)
    return expired


def _segments_below_start(log: PartitionLog) -> list[Segment]:
    """The closed segments that lie completely below the log start, oldest first."""
    below = []
    for number, segment in enumerate(log.segments):
        end_offset = log.segments.end_of(number)
        if end_offset is None or end_offset > log.log_start_offset:
            break
        below.append(segment)
    return below


def _is_too_old(log: PartitionLog, segment: Segment, now_ms: int) -> bool:
    retention_ms = log.config.retention_ms
    if not log.config.delete or retention_ms is None:
        return False
    newest = segment.largest_timestamp if segment.largest_timestamp >= 0 else segment.created_ms
    return now_ms - newest > retention_ms
