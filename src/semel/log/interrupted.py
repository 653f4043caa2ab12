"""What a crash in the middle of replacing files leaves behind, and how it is brought to an end.

A cleaner replaces segments in this order, and a crash may fall behind every step:

1. the new segment is written as ``<base>.log.cleaned`` (and its indexes likewise) and synced;
2. its indexes are renamed to ``.swap``, then the log file, then the folder is synced: **this is the commit point**;
3. the old segments that it covers are removed;
4. the ``.swap`` files lose their ending, the log file last.

So a ``.log.swap`` means that the replacement counts and is to be finished; without one it never happened.
"""

from __future__ import annotations

from semel.errors import DecodeError
from semel.log.disk import Disk
from semel.log.segment import INDEX_SUFFIXES, SUFFIXES, file_name
from semel.wire.records import HEADER_SIZE, parse_header

CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"


def finish_interrupted(disk: Disk, folder: str) -> list[str]:
    """Finish or undo what was interrupted. Returns the names that are then in the folder."""
    names = disk.list(folder)
    for name in names:
        if name.endswith((CLEANED, DELETED, ".tmp")):
            disk.remove(f"{folder}/{name}")
    swaps = [name for name in names if name.endswith(".log" + SWAP)]
    for name in swaps:
        base_offset = int(name.removesuffix(".log" + SWAP))
        _finish_swap(disk, folder, names, base_offset)
    names = disk.list(folder)
    logs = {name.removesuffix(".log") for name in names if name.endswith(".log")}
    for name in names:
        stem, dot, _ = name.partition(".")
        if name.endswith(SWAP) or (dot and name.endswith(INDEX_SUFFIXES) and stem not in logs):
            disk.remove(f"{folder}/{name}")
    return disk.list(folder)


def _finish_swap(disk: Disk, folder: str, names: list[str], base_offset: int) -> None:
    last_offset = _last_offset(disk, f"{folder}/{file_name(base_offset, '.log' + SWAP)}", base_offset)
    for name in names:
        if name.endswith(".log") and base_offset < int(name.removesuffix(".log")) <= last_offset:
            for suffix in SUFFIXES:
                disk.remove(f"{folder}/{file_name(int(name.removesuffix('.log')), suffix)}")
    for suffix in INDEX_SUFFIXES:
        path = f"{folder}/{file_name(base_offset, suffix)}"
        if disk.exists(path + SWAP):
            disk.rename(path + SWAP, path)
    path = f"{folder}/{file_name(base_offset, '.log')}"
    disk.rename(path + SWAP, path)
    disk.sync_directory(folder)


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
            last_offset = header.last_offset
            position += header.size_bytes
    finally:
        file.close()
    return last_offset
