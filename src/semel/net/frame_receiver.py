"""Bytes in, whole frames out: the receiving half of a connection that asks.

A frame is a 4-byte size and that many bytes. A small one arrives in a buffer of the connection and is copied out of it;
a large one gets a buffer of its own and is received straight into it, so that what was fetched is copied once, by the
kernel. Frames are handed out to keep.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from semel.errors import DecodeError
from semel.types import INT32_MAX

_SIZE_BYTES: Final = 4
_SCRATCH_BYTES: Final = 64 * 1024
# From here on a buffer grows with what has arrived, not with what was promised, and is copied when it does. A fetch of
# four partitions, which brings a little more than 4 MB by default, stays below.
_LARGE_BYTES: Final = 8 * 2**20


class FrameReceiver:
    __slots__ = ("_end", "_large", "_large_end", "_large_size", "_scratch")

    def __init__(self) -> None:
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._end = 0
        self._large: bytearray | None = None
        self._large_end = 0
        self._large_size = 0

    def buffer(self) -> memoryview:
        """Where the next bytes go."""
        if self._large is None:
            return memoryview(self._scratch)[self._end :]
        if self._large_end == len(self._large):
            # A new one: the old one cannot grow while a view of it may still be held.
            grown = bytearray(min(2 * len(self._large), self._large_size))
            grown[: self._large_end] = self._large
            self._large = grown
        return memoryview(self._large)[self._large_end :]

    def received(self, count: int) -> Iterator[bytes | memoryview]:
        """``count`` bytes were put into ``buffer()``: the frames that are whole now."""
        if self._large is not None:
            self._large_end += count
            if self._large_end == self._large_size:
                frame, self._large = memoryview(self._large), None
                yield frame
            return
        self._end += count
        scratch, end = self._scratch, self._end
        start = 0
        while end - start >= _SIZE_BYTES:
            size = int.from_bytes(scratch[start : start + _SIZE_BYTES], "big", signed=True)
            if not 0 < size <= INT32_MAX:
                raise DecodeError(f"a frame of {size} bytes")
            begin = start + _SIZE_BYTES
            if end - begin < size:
                if size > _SCRATCH_BYTES - _SIZE_BYTES:
                    self._begin_large(scratch[begin:end], size)
                    return
                break
            start = begin + size
            yield bytes(scratch[begin:start])
        if start:
            scratch[: end - start] = scratch[start:end]
            self._end = end - start

    def _begin_large(self, begun: bytearray, size: int) -> None:
        self._large = bytearray(min(size, max(_LARGE_BYTES, 2 * len(begun))))
        self._large[: len(begun)] = begun
        self._large_end, self._large_size = len(begun), size
        self._end = 0
