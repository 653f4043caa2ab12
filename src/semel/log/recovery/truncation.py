"""Truncation of one log: the part above an offset is removed, or the log is emptied and begins at another offset.

A follower does this when it has diverged from its leader, or has fallen behind the leader's log start. All derived
state is truncated with the log: indexes, producer state and its snapshots, leader epochs, open transactions.

The law: before this begins, no other file may refer to the records that are removed. ``semel.log.truncations`` first
lowers the high watermark and the recovery point and voids the journal entries, and has the table of these steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from semel.errors import DecodeError
from semel.log.disk import Disk
from semel.log.durability.checkpointing import persist_log_start
from semel.log.leader_epochs import LeaderEpochs
from semel.log.partition_log import PartitionLog
from semel.log.producers.producer_state import ProducerStates
from semel.log.recovery.loading import rebuild_producers
from semel.log.recovery.snapshot_loading import remove_snapshots_above
from semel.log.segments.segment import SUFFIXES, Segment


@dataclass(frozen=True, slots=True)
class Cut:
    """The place where a log is truncated: within one of its segments, or at the end of it."""

    segment: Segment
    position: int | None  # None: at the end of the segment
    end_offset: int


def find_cut(log: PartitionLog, offset: int) -> Cut:
    """Find the place at which to truncate a log to ``offset``. Raises ``DecodeError`` if the batches there are unsound.

    A batch is kept whole or not at all, and the log will end with the last one: at ``offset`` or before. If compaction
    has left a hole below ``offset``, no file says that the log ended behind it, and a start would miss its records.
    """
    segment = log.segments[log.segments.number_for(offset)]
    place = segment.locate(offset)
    position = segment.size_bytes if place is None else place.position
    end_offset = segment.base_offset
    # The index entry before the place is of a batch that is kept: it may be the last one.
    _, reached = segment.offset_index.lookup(offset - 1)
    for at, header in segment.headers(reached):
        if at >= position:
            break
        reached, end_offset = at + header.size_bytes, header.next_offset
    if reached != position:
        raise DecodeError(f"{segment.path('.log')}: the batches before position {position} end at {reached}")
    return Cut(segment, None if place is None else position, end_offset)


def truncate_to(disk: Disk, log: PartitionLog, offset: int) -> None:
    """Make the log end at ``offset``, or at the batch boundary before it."""
    if offset < log.log_end_offset:
        cut = find_cut(log, offset)
        cut_off(disk, log, cut)
        sync_cut(disk, log, cut)
        log.log_start_offset = min(log.log_start_offset, log.log_end_offset)


def truncate_where_epochs_go_back(disk: Disk, log: PartitionLog) -> None:
    """Truncate a damaged log before the first leader epoch that is followed by an older one, if there is one.

    One of the two is wrong: epochs ascend, and the CRC of a batch does not cover its epoch.
    """
    epoch, start_offset = -1, log.log_start_offset
    for segment in log.segments:
        for _, header in segment.headers():
            if header.partition_leader_epoch < epoch:
                truncate_to(disk, log, start_offset)
                return
            if header.partition_leader_epoch > epoch:
                epoch, start_offset = header.partition_leader_epoch, header.base_offset


def cut_off(disk: Disk, log: PartitionLog, cut: Cut) -> None:
    """Truncate the files and all state derived from them. The caller syncs the cut before anything is appended."""
    lost = [segment for segment in log.segments if segment.base_offset > cut.segment.base_offset]
    if cut.position is not None:
        cut.segment.cut(cut.position, cut.end_offset)
    log.segments.replace(lost, ())
    for later in reversed(lost):
        later.remove()
    # They belong to the removed records, and would later be taken for snapshots of the records that replace them.
    remove_snapshots_above(disk, log.folder, cut.end_offset)
    log.log_end_offset = cut.end_offset
    log.high_watermark = min(log.high_watermark, cut.end_offset)
    log.truncated(cut.end_offset, rebuild_producers(disk, log))


def sync_cut(disk: Disk, log: PartitionLog, cut: Cut) -> None:
    cut.segment.file.sync()
    disk.sync_directory(log.folder)


def restart_at(disk: Disk, log: PartitionLog, offset: int, *, now_ms: int) -> None:
    """Empty the log, so that it begins at ``offset``.

    First the recovery point is set to 0 on disk, so no record is required any more: whatever a crash leaves of the old
    segments can be opened, and is a part of the old log.
    """
    log.log_start_offset, log.recovery_point = min(log.log_start_offset, offset), 0
    persist_log_start(log)
    old = list(log.segments)
    for segment in reversed(old):
        segment.remove()
    for name in disk.list(log.folder):
        if name.endswith(SUFFIXES):  # Of segments below the log start, whose removal the truncation has interrupted.
            disk.remove(f"{log.folder}/{name}")
    remove_snapshots_above(disk, log.folder, -1)
    disk.sync_directory(log.folder)
    fresh = Segment(disk, log.folder, offset, created_ms=now_ms, create=True)
    disk.sync_directory(log.folder)  # The segment's name contains the log end.
    log.segments.replace(old, (fresh,))
    log.epochs = LeaderEpochs()
    log.log_start_offset = offset
    empty = ProducerStates(log.topic_partition, producer_id_expiration_ms=log.producers.producer_id_expiration_ms)
    log.truncated(offset, empty)
    log.recovery_point = log.durable_offset = log.high_watermark = offset
    persist_log_start(log)
