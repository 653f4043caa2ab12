"""The time index of one segment (``.timeindex``): the offset up to which all records are at or before a timestamp.

An entry ``(timestamp, offset)`` says that no record up to ``offset`` is younger than ``timestamp``, and that the batch
which ends with ``offset`` has this timestamp. On disk an entry is 12 bytes, as in Kafka: the timestamp, and the offset
relative to the segment's base, both big-endian.

The law: timestamps ascend, and offsets never descend. As with the offset index, entries are kept in memory and written
to the file at a checkpoint; a file that breaks the law is built again from the log.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice
from operator import ge, gt
from typing import Final

from semel.errors import DecodeError
from semel.log.segments.index_file import IndexFile, require_whole_entries
from semel.types import INT32_MAX, INT64_MAX, Buffer
from semel.wire.records import NO_TIMESTAMP

ENTRY_SIZE: Final = 12


class TimeIndex:
    __slots__ = ("_offsets", "_timestamps", "base_offset", "file")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("I")  # relative to the base offset
        self.file = IndexFile(ENTRY_SIZE)

    @classmethod
    def load(cls, data: Buffer, base_offset: int, *, end_offset: int = INT64_MAX) -> TimeIndex:
        """Read an index file, without the entries at or beyond the log end. Raises ``DecodeError``."""
        require_whole_entries(data, ENTRY_SIZE)
        index = cls(base_offset)
        index._timestamps, index._offsets = _decode(bytes(data))
        timestamps, offsets = index._timestamps, index._offsets
        if any(map(ge, timestamps, islice(timestamps, 1, None))) or (timestamps and timestamps[0] < 0):
            raise DecodeError(f"the timestamps of a time index (base {base_offset}) do not ascend from 0 or later")
        if any(map(gt, offsets, islice(offsets, 1, None))) or (offsets and offsets[-1] > INT32_MAX):
            raise DecodeError(f"the offsets of a time index (base {base_offset}) descend or exceed 31 bits")
        index.file.loaded(index.entries, data)
        index.truncate_to(end_offset)
        return index

    @property
    def entries(self) -> int:
        return len(self._timestamps)

    @property
    def last(self) -> tuple[int, int] | None:
        if not self._timestamps:
            return None
        return self._timestamps[-1], self.base_offset + self._offsets[-1]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        base_offset = self.base_offset
        return (
            (timestamp, base_offset + offset) for timestamp, offset in zip(self._timestamps, self._offsets, strict=True)
        )

    def append(self, timestamp: int, offset: int) -> None:
        """Add the segment's largest timestamp so far, unless the last entry already has it."""
        relative = offset - self.base_offset
        assert 0 <= relative <= INT32_MAX, f"offset {offset} in the time index of base offset {self.base_offset}"
        if timestamp <= (self._timestamps[-1] if self._timestamps else NO_TIMESTAMP):
            return
        if self._offsets:
            assert relative >= self._offsets[-1], f"relative offset {relative} after {self._offsets[-1]}"
        self._timestamps.append(timestamp)
        self._offsets.append(relative)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry at or before ``timestamp``; ``NO_TIMESTAMP`` and the base offset if there is none."""
        slot = bisect_right(self._timestamps, timestamp) - 1
        if slot < 0:
            return NO_TIMESTAMP, self.base_offset
        return self._timestamps[slot], self.base_offset + self._offsets[slot]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or beyond ``offset``."""
        entries = bisect_left(self._offsets, offset - self.base_offset)
        self.file.cut(entries)
        del self._timestamps[entries:]
        del self._offsets[entries:]

    def packed(self, first: int, end: int) -> bytes:
        return _encode(self._timestamps[first:end], self._offsets[first:end])


# An entry is three 32-bit words. Whole columns are moved at once: a segment may have a quarter of a million entries.


def _encode(timestamps: array[int], offsets: array[int]) -> bytes:
    if sys.byteorder == "little":
        timestamps.byteswap()
        offsets.byteswap()
    halves = array("I", timestamps.tobytes())
    words = array("I", bytes(len(offsets) * ENTRY_SIZE))
    words[0::3], words[1::3], words[2::3] = halves[0::2], halves[1::2], offsets
    return words.tobytes()


def _decode(data: bytes) -> tuple[array[int], array[int]]:
    words = array("I", data)
    offsets = words[2::3]
    halves = array("I", bytes(len(offsets) * 8))
    halves[0::2], halves[1::2] = words[0::3], words[1::3]
    timestamps = array("q", halves.tobytes())
    if sys.byteorder == "little":
        timestamps.byteswap()
        offsets.byteswap()
    return timestamps, offsets
