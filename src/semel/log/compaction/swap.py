"""A new segment takes the place of old ones, on disk and in memory.

The order of the steps is in ``semel.log.recovery.interrupted``, which finishes them after a crash. All of them happen
in one slice: nobody reads, removes or closes segments of the log in between.
"""

from __future__ import annotations

from collections.abc import Sequence

from semel.log.disk import Disk
from semel.log.partition_log import PartitionLog
from semel.log.recovery.interrupted import SWAP, finish_swap
from semel.log.segments.segment import Segment, file_name


def swap_segments(disk: Disk, log: PartitionLog, old: Sequence[Segment], new: Segment) -> bool:
    """Put ``new``, whose files are complete and synced, in the place of ``old``. ``False`` if they are gone meanwhile.

    A disk that refuses in the middle leaves the log offline: the next start finds out which of the two is there.
    """
    if not set(map(id, old)) <= set(map(id, log.segments)):
        return False
    cleaned = new.path(".log")
    new.ending = SWAP
    try:
        disk.rename(cleaned, new.path(".log"))
        disk.sync_directory(log.folder)
        new.ending = ""
        log.replace_segments(old, new)
        covered = [segment.base_offset for segment in old[1:]]
        finish_swap(disk, log.folder, new.base_offset, covered)
        new.open_on_demand()
        for base_offset in covered:
            if base_offset != log.recovery_point:
                disk.remove(f"{log.folder}/{file_name(base_offset, '.snapshot')}")
    except OSError as error:
        log.go_offline(f"compaction could not replace {old[0]!r}: {error}")
        raise
    return True
