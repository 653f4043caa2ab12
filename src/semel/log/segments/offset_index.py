"""The offset index of one segment (``.index``): the file position at which to begin the search for an offset.

An entry ``(offset, position)`` says that the batch at ``position`` ends with ``offset``. Not every batch has one. On
disk an entry is 8 bytes, as in Kafka: the offset relative to the segment's base, and the position, both big-endian.

The law: offsets and positions both ascend. The index is derived from the log. Entries are kept in memory and written to
the file at a checkpoint (``index_file.py``); a file that breaks the law is built again from the log.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice
from operator import ge
from typing import Final

from semel.errors import DecodeError
from semel.log.segments.index_file import IndexFile, require_whole_entries
from semel.types import INT32_MAX, INT64_MAX, Buffer

ENTRY_SIZE: Final = 8


class OffsetIndex:
    __slots__ = ("_offsets", "_positions", "base_offset", "file")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._offsets = array("I")  # relative to the base offset
        self._positions = array("I")
        self.file = IndexFile(ENTRY_SIZE)

    @classmethod
    def load(
        cls, data: Buffer, base_offset: int, *, end_offset: int = INT64_MAX, end_position: int | None = None
    ) -> OffsetIndex:
        """Read an index file, without the entries at or beyond the log end. Raises ``DecodeError``."""
        require_whole_entries(data, ENTRY_SIZE)
        words = array("I", bytes(data))
        if sys.byteorder == "little":
            words.byteswap()
        index = cls(base_offset)
        index._offsets, index._positions = words[0::2], words[1::2]
        for name, values in (("offsets", index._offsets), ("positions", index._positions)):
            if any(map(ge, values, islice(values, 1, None))) or (values and values[-1] > INT32_MAX):
                raise DecodeError(f"the {name} of an offset index (base {base_offset}) do not ascend within 31 bits")
        index.file.loaded(index.entries, data)
        index.truncate_to(end_offset)
        if end_position is not None:
            index._keep(bisect_left(index._positions, end_position))
        return index

    @property
    def entries(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        base_offset = self.base_offset
        return (
            (base_offset + offset, position) for offset, position in zip(self._offsets, self._positions, strict=True)
        )

    def append(self, offset: int, position: int) -> None:
        relative = offset - self.base_offset
        assert 0 <= relative <= INT32_MAX, f"offset {offset} in the index of base offset {self.base_offset}"
        if self._offsets:
            assert relative > self._offsets[-1], f"relative offset {relative} after {self._offsets[-1]}"
            assert position > self._positions[-1], f"position {position} after {self._positions[-1]}"
        self._offsets.append(relative)
        self._positions.append(position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """The last entry at or before ``offset``; the beginning of the segment if there is none."""
        slot = bisect_right(self._offsets, offset - self.base_offset) - 1
        if slot < 0:
            return self.base_offset, 0
        return self.base_offset + self._offsets[slot], self._positions[slot]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or beyond ``offset``."""
        self._keep(bisect_left(self._offsets, offset - self.base_offset))

    def packed(self, first: int, end: int) -> bytes:
        words = array("I", bytes((end - first) * ENTRY_SIZE))
        words[0::2], words[1::2] = self._offsets[first:end], self._positions[first:end]
        if sys.byteorder == "little":
            words.byteswap()
        return words.tobytes()

    def _keep(self, entries: int) -> None:
        self.file.cut(entries)
        del self._offsets[entries:]
        del self._positions[entries:]
