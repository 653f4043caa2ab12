"""Splits received bytes into frames, for a connection on which requests are sent and responses received.

A frame is a 4-byte size and that many bytes. A small frame is received into a buffer of the connection and copied out
of it. A large frame is received directly into a buffer of its own, so that fetched records are copied only once, by the
kernel. The caller may keep the frames: their memory is not used again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from semel.errors import DecodeError
from semel.types import INT32_MAX

_SIZE_BYTES: Final = 4
_SCRATCH_BYTES: Final = 64 * 1024
# A frame up to this size gets its whole buffer at once. The buffer of a larger one grows with the bytes that have
# arrived, because the size field alone is not trusted, and is copied when it grows. The response to a Fetch of four
# partitions, by default a little more than 4 MB, stays below.
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
        """Return the free buffer space that the next bytes are to be received into."""
        if self._large is None:
            return memoryview(self._scratch)[self._end :]
        if self._large_end == len(self._large):
            # A new buffer: a bytearray cannot be resized while a memoryview of it may still exist.
            grown = bytearray(min(2 * len(self._large), self._large_size))
            grown[: self._large_end] = self._large
            self._large = grown
        return memoryview(self._large)[self._large_end :]

    def received(self, count: int) -> Iterator[bytes | memoryview]:
        """Yield the frames that are complete, after ``count`` bytes were received into ``buffer()``."""
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
