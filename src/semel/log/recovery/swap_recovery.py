"""Recovery of a segment swap: compaction replaces segments, and a crash may interrupt it.

Compaction replaces segments in this order, and a crash may come after every step:

1. the new segment is written as ``<base>.log.cleaned``, its three indexes and its checksums under their names with
   ``.swap``; all five are synced, then the folder;
2. the log file is renamed to ``.log.swap``, then the folder is synced: **this is the commit point**;
3. the old segments that it covers are removed;
4. the indexes and the checksums lose ``.swap``, then the folder is synced;
5. the log file loses ``.swap``.

So a ``.log.swap`` means that the swap is committed and must be finished; its indexes are there, with or without
``.swap``. Without a ``.log.swap`` the swap did not happen. The syncs between the steps are needed because a power cut
may keep a later rename and lose an earlier one. The new segment covers every segment that begins within it.
"""

from __future__ import annotations

from collections.abc import Sequence

from semel.errors import DecodeError
from semel.log.damage import LostRecords
from semel.log.disk import Disk, read_file
from semel.log.segments import segment_checksums
from semel.log.segments.segment import INDEX_SUFFIXES, SUFFIXES, file_name
from semel.log.segments.segment_checksums import CHECKSUMS_SUFFIX
from semel.wire.records import HEADER_SIZE, parse_header

CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"


_DERIVED = (*INDEX_SUFFIXES, CHECKSUMS_SUFFIX)


def finish_swaps(disk: Disk, folder: str) -> list[str]:
    """Finish the swaps that have reached their commit point. Returns the names that are then in the folder.

    Files of other swaps stay until ``remove_leftovers``: in the folder of a damaged partition nothing is removed.
    Raises ``LostRecords`` if the new segment is incomplete: then the old segments that are left must stay.
    """
    names = disk.list(folder)
    for name in names:
        if name.endswith(".log" + SWAP):
            base_offset = int(name.removesuffix(".log" + SWAP))
            _check_swap(disk, folder, base_offset)
            last_offset = _last_offset(disk, f"{folder}/{name}", base_offset)
            begun = [int(other.removesuffix(".log")) for other in names if other.endswith(".log")]
            finish_swap(disk, folder, base_offset, [other for other in begun if base_offset < other <= last_offset])
            disk.sync_directory(folder)
    return disk.list(folder)


def remove_leftovers(disk: Disk, folder: str) -> None:
    """Remove the files of unfinished swaps, and index files without a segment."""
    names = disk.list(folder)
    logs = {name.removesuffix(".log") for name in names if name.endswith(".log")}
    for name in names:
        stem, dot, _ = name.partition(".")
        unfinished = name.endswith((CLEANED, DELETED, SWAP, ".tmp"))
        if unfinished or (dot and name.endswith(_DERIVED) and stem not in logs):
            disk.remove(f"{folder}/{name}")


def _check_swap(disk: Disk, folder: str, base_offset: int) -> None:
    path = f"{folder}/{file_name(base_offset, CHECKSUMS_SUFFIX)}"
    try:
        checksums = segment_checksums.decode(read_file(disk, path + SWAP if disk.exists(path + SWAP) else path))
    except (DecodeError, FileNotFoundError):
        return  # The segment's batches are checked one by one instead.
    log_path = f"{folder}/{file_name(base_offset, '.log')}{SWAP}"
    file = disk.open(log_path)
    try:
        if file.size() < checksums.log_size_bytes:
            raise LostRecords(log_path, base_offset, checksums.end_offset)
    finally:
        file.close()


def finish_swap(
    disk: Disk, folder: str, base_offset: int, covered: Sequence[int], *, suffixes: Sequence[str] = SUFFIXES
) -> None:
    """Do steps 3 to 5. They can be repeated after a crash, with the same result.

    ``suffixes``: the files of the old segments that are removed. Without its log file, the others are not used.
    """
    for old in covered:
        for suffix in suffixes:
            disk.remove(f"{folder}/{file_name(old, suffix)}")
    for suffix in _DERIVED:
        path = f"{folder}/{file_name(base_offset, suffix)}"
        if disk.exists(path + SWAP):
            disk.rename(path + SWAP, path)
    disk.sync_directory(folder)
    path = f"{folder}/{file_name(base_offset, '.log')}"
    disk.rename(path + SWAP, path)


def remove_unfinished(disk: Disk, folder: str) -> None:
    """Remove the files of a swap that has not reached its commit point, after a pass was dropped."""
    for name in disk.list(folder):
        if name.endswith(CLEANED) or (name.endswith(SWAP) and not name.endswith(".log" + SWAP)):
            disk.remove(f"{folder}/{name}")


def _last_offset(disk: Disk, path: str, base_offset: int) -> int:
    last_offset, position = base_offset, 0
    file = disk.open(path)
    try:
        size_bytes = file.size()
        while position + HEADER_SIZE <= size_bytes:
            try:
                header = parse_header(file.read(position, HEADER_SIZE))
            except DecodeError:
                break
            position += header.size_bytes
            if position > size_bytes:
                break
            last_offset = header.last_offset
    finally:
        file.close()
    return last_offset
