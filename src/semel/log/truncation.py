"""Cutting a log back: a follower that diverged from its leader, or a log that is to start somewhere else.

What was cut is gone from everything derived: indexes, producer state, leader epochs, open transactions.
"""

from __future__ import annotations

from semel.log.disk import Disk
from semel.log.loading import rebuild_producers
from semel.log.partition_log import PartitionLog


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
    log.was_cut(offset, rebuild_producers(disk, log))
