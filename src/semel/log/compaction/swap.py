"""The swap at the end of a compaction pass: a new segment replaces old ones, on disk and in memory.

The order of the steps is in ``semel.log.recovery.swap_recovery``, which finishes them after a crash. All steps happen
in one slice: between them nothing else reads, removes or closes segments of the log. What is then left of the old
segments is removed file by file, since each removal takes time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from semel.log.disk import Disk
from semel.log.partition_log import PartitionLog
from semel.log.recovery.swap_recovery import SWAP, finish_swap
from semel.log.segments.segment import INDEX_SUFFIXES, Segment
from semel.log.segments.segment_checksums import CHECKSUMS_SUFFIX


def swap_segments(disk: Disk, log: PartitionLog, old: Sequence[Segment], new: Segment) -> bool:
    """Replace ``old`` by ``new``, whose files are complete and synced. ``False`` if ``old`` was removed meanwhile.

    If the disk fails in the middle, the log goes offline: the next start finishes or undoes the swap.
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
        finish_swap(disk, log.folder, new.base_offset, covered, suffixes=(".log",))
        new.open_on_demand()
    except OSError as error:
        log.go_offline(f"compaction could not replace {old[0]!r}: {error}")
        raise
    return True


def remove_old_files(disk: Disk, log: PartitionLog, old: Sequence[Segment]) -> Iterator[None]:
    """Remove the other files of segments that were replaced. The next start removes those that are left.

    The files of the first one are those of the new segment now.
    """
    for segment in old[1:]:
        for suffix in (*INDEX_SUFFIXES, CHECKSUMS_SUFFIX):
            with contextlib.suppress(OSError):
                disk.remove(segment.path(suffix))
            yield
        if segment.base_offset != log.recovery_point:
            with contextlib.suppress(OSError):
                log.snapshots.remove(segment.base_offset)
            yield
