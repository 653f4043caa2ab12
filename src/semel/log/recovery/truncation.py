"""Truncation of a log: a follower that diverged from its leader, or a log that must begin at another offset.

All derived state is truncated with it: indexes, producer state, leader epochs, open transactions.
"""

from __future__ import annotations

from semel.log.disk import Disk
from semel.log.durability.checkpointing import persist_log_start
from semel.log.leader_epochs import LeaderEpochs
from semel.log.partition_log import PartitionLog
from semel.log.producers.producer_state import ProducerStates
from semel.log.recovery.loading import rebuild_producers
from semel.log.segments.segment import Segment


def truncate_to(disk: Disk, log: PartitionLog, offset: int) -> None:
    """Make the log end at ``offset``, or at the batch boundary before it. What the journal holds of the rest must be
    void before this is called (``LogDirectory.truncate`` does both)."""
    if offset >= log.log_end_offset:
        return
    number = log.segments.number_for(offset)
    lost = list(log.segments)[number + 1 :]
    segment = log.segments[number]
    place = segment.locate(offset)
    if place is not None:
        # A batch is kept whole or not at all.
        first = next(segment.headers(place.position))[1]
        offset = min(offset, first.base_offset)
        segment.cut(place.position, offset)
    log.segments.replace(lost, ())
    for later in reversed(lost):
        later.remove()
    segment.file.sync()
    disk.sync_directory(log.folder)
    log.log_end_offset = offset
    log.truncated(offset, rebuild_producers(disk, log))


def restart_at(disk: Disk, log: PartitionLog, offset: int, *, now_ms: int) -> None:
    """Make the log empty, with ``offset`` as its next offset."""
    old = list(log.segments)
    fresh = Segment(disk, log.folder, offset, created_ms=now_ms, create=True)
    # The name carries the log end: it must survive before anything else goes.
    disk.sync_directory(log.folder)
    log.log_start_offset = offset
    persist_log_start(log)
    log.segments.replace(old, (fresh,))
    for segment in old:
        if segment.base_offset != offset:
            segment.remove()
    log.epochs = LeaderEpochs()
    empty = ProducerStates(log.topic_partition, producer_id_expiration_ms=log.producers.producer_id_expiration_ms)
    log.truncated(offset, empty)
    log.recovery_point = offset
