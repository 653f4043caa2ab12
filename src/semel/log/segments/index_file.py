"""The file of an index: how many of the entries it holds, and the bytes that it lacks.

The three indexes of a segment keep their entries in memory, on the event loop; a worker writes their files at a
checkpoint. The loop takes the missing end of a file as a value (``IndexTail``), the worker writes it, and the loop
calls ``IndexFile.written``.

The law: writing a tail twice leaves the same file as writing it once, so a write that failed is repeated as a whole. An
entry counts as written only after a tail that holds it was written.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from semel.errors import DecodeError
from semel.log.disk import File
from semel.log.segments.segment_checksums import IndexChecksum, RunningChecksum
from semel.types import Buffer


class IndexTail(NamedTuple):
    """The end of an index file: from ``position`` on the file holds ``data`` and nothing else."""

    position: int
    data: bytes
    cuts: int  # how often the index had been cut when this was taken

    def write(self, file: File) -> None:
        """Write the tail; the caller syncs the file."""
        if file.size() > self.position:
            file.truncate(self.position)
        if self.data:
            file.write(self.position, self.data)


class Index(Protocol):
    """What ``IndexFile`` needs from an offset, time or transaction index."""

    @property
    def file(self) -> IndexFile: ...

    @property
    def entries(self) -> int: ...

    def packed(self, first: int, end: int) -> bytes:
        """The entries from ``first`` up to ``end``, in the file's format."""
        ...


class IndexFile:
    __slots__ = ("_checksum", "_cuts", "_entry_size", "_has_others", "_written")

    def __init__(self, entry_size: int) -> None:
        self._entry_size = entry_size
        self._written = 0  # how many of the entries are in the file
        self._has_others = False  # whether the file may hold other entries after them
        self._cuts = 0
        self._checksum = RunningChecksum(entry_size)

    def loaded(self, entries: int, data: Buffer) -> None:
        """Note that the index was read from its file, which holds ``data``."""
        self._written = entries
        self._checksum.loaded(entries, data)

    def cut(self, entries: int) -> None:
        """Note that the index was truncated to its first ``entries`` entries."""
        self._cuts += 1
        self._checksum.cut(entries)
        if entries < self._written:
            self._written = entries
            self._has_others = True

    def written(self, tail: IndexTail) -> None:
        """Note that the tail was written to the file."""
        if tail.cuts == self._cuts:
            self._written = (tail.position + len(tail.data)) // self._entry_size
            self._has_others = False
        else:
            self._has_others = True  # The index was cut while the tail was being written.

    def is_behind(self, index: Index) -> bool:
        """Whether the file differs from the index."""
        return self._has_others or self._written < index.entries

    def tail(self, index: Index) -> IndexTail:
        """The entries that the file lacks."""
        return IndexTail(self._written * self._entry_size, index.packed(self._written, index.entries), self._cuts)

    def checksum(self, index: Index) -> IndexChecksum:
        """The checksum of the file once it holds all entries."""
        return self._checksum.over(index.entries, index.packed)


def require_whole_entries(data: Buffer, entry_size: int) -> None:
    """Raise ``DecodeError`` if a file ends within an entry."""
    if len(data) % entry_size:
        raise DecodeError(f"an index of {len(data)} bytes; entries are {entry_size} bytes each")


def flush(index: Index, file: File) -> None:
    """Write the index to its file, which then holds these entries and no others. The caller syncs the file."""
    tail = index.file.tail(index)
    tail.write(file)
    index.file.written(tail)
