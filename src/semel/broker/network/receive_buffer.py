"""The receive buffer of a connection: takes received bytes, and returns whole frames as views into it.

A frame is a 4-byte size and that many bytes. Frames are returned as views into the buffer they were received in, so
they are valid only until the next byte is received: a caller that keeps bytes must copy them.

All connections of a broker receive into one shared ``scratch``. That is safe because a transport asks for a buffer,
fills it and reports it within one callback, with no other connection in between; so an idle connection owns no buffer.
The rest of an incomplete frame is copied to the connection's own memory (``settle``) before the callback ends. A frame
larger than the scratch gets a buffer of its own and is received directly into it. That buffer grows with the bytes that
have arrived, never with the announced size, so a client that announces 100 MB and sends nothing costs nothing. All
these buffers together are limited by ``RequestMemory``. They are mapped, not allocated on the heap: unmapped memory
leaves the process at once, while a heap with many such buffers would keep several times their size.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from struct import Struct
from typing import Final

from semel.broker.network.request_memory import RequestMemory
from semel.errors import DecodeError

SCRATCH_BYTES: Final = 256 * 1024

_SIZE: Final = Struct(">i")
_SIZE_BYTES: Final = _SIZE.size
# The first two bytes of a TLS connection, which are read here as the upper half of a size: a record of the handshake,
# version 3.
_TLS_HANDSHAKE: Final = 0x1603


class ReceiveBuffer:
    """The receive buffer of one connection."""

    __slots__ = (
        "_end",
        "_large",
        "_large_size",
        "_memory",
        "_rest",
        "_scratch",
        "_start",
        "_view",
        "_wanted",
        "frame_bytes_max",
        "lacks_memory",
        "large_frames",
    )

    def __init__(self, scratch: memoryview, frame_bytes_max: int, memory: RequestMemory) -> None:
        self._scratch = scratch
        self.frame_bytes_max = frame_bytes_max
        self._memory = memory
        self._view = scratch
        self._start = self._end = 0
        self._rest = bytearray()  # An incomplete frame that fits into the scratch, or frames that have to wait.
        self._large: memoryview | None = None  # The buffer for frames that do not fit.
        self._large_size = 0  # The size of the frame that is received into it, with its prefix; 0: there is none.
        self._wanted = 0
        self.large_frames = 0
        """How many frames have begun that needed a buffer of their own."""
        self.lacks_memory = False
        """Whether nothing more may be received because there is no memory. ``wait_for_memory`` waits for some."""

    @property
    def waiting(self) -> bool:
        """Whether bytes were received that have not been returned as a frame."""
        return bool(self._rest) or self._large_size > 0

    @property
    def is_receiving_large(self) -> bool:
        """Whether a frame is in a buffer of its own, either in part or waiting to be returned."""
        return self._large_size > 0

    def buffer(self) -> memoryview:
        """Return the memory for the next bytes."""
        if self._large_size:
            assert self._large is not None
            return self._large[self._end : self._large_size]
        if rest := len(self._rest):
            if rest == len(self._scratch):
                raise BufferError("bytes arrived on a connection that asked for none")
            self._scratch[:rest] = self._rest
            return self._scratch[rest:]
        return self._scratch

    def received(self, count: int) -> None:
        """Take ``count`` bytes that were written into ``buffer()``."""
        if self._large_size:
            self._end += count
            return
        self._view, self._start, self._end = self._scratch, 0, len(self._rest) + count
        if self._rest:
            self._rest = bytearray()

    def reopen(self) -> None:
        """Continue with the bytes that ``settle`` has copied, to return the frames that had to wait."""
        if self._rest:
            self._view, self._start, self._end = memoryview(self._rest), 0, len(self._rest)
            self._rest = bytearray()

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame without its size, or None. Raises DecodeError if the size is not allowed."""
        start = self._start
        available = self._end - start
        if available < _SIZE_BYTES:
            return None
        size: int = _SIZE.unpack_from(self._view, start)[0]
        if not 0 < size <= self.frame_bytes_max:
            if size >> 16 == _TLS_HANDSHAKE:
                raise DecodeError("the client speaks TLS, and this listener does not")
            raise DecodeError(f"a frame of {size} bytes; the limit is {self.frame_bytes_max}")
        if available < size + _SIZE_BYTES:
            return None
        self._start = start + size + _SIZE_BYTES
        return self._view[start + _SIZE_BYTES : self._start]

    def put_back(self, frame: memoryview) -> None:
        """Take back the frame that was returned last: it has to wait, and is returned again."""
        self._start -= _SIZE_BYTES + len(frame)

    def settle(self) -> None:
        """Copy the bytes that were not returned as frames, so that the shared buffer is free again."""
        start, end = self._start, self._end
        if self._large_size:
            if start == 0:
                if end < self._large_size and end == len(self._large or ()):
                    self._reserve(min(end * 2, self._large_size))
                return
            self._large_size = 0  # It was returned, and was alone in its buffer.
            if self._memory.is_scarce:
                self.shrink()
        elif start < end:
            rest = self._view[start:end]
            needed = _SIZE_BYTES + _SIZE.unpack_from(rest)[0] if len(rest) >= _SIZE_BYTES else 0
            self._rest = bytearray(rest)
            if needed > len(self._scratch):
                self._start_large(needed)
                return
        self._view = self._scratch
        self._start = self._end = 0

    def wait_for_memory(self, resume: Callable[[], None]) -> None:
        """Wait for the memory that is missing; ``resume`` is called when there is enough to receive more."""

        def given() -> None:
            self.lacks_memory = False
            self._grow(self._wanted)
            resume()

        self._memory.wait(self, self._wanted - len(self._large or ()), given)

    def shrink(self) -> None:
        """Give back the buffer for large frames, if none is being received."""
        if not self._large_size and self._large is not None:
            self._large = None
            self._memory.give_back(self)

    def close(self) -> None:
        """Drop all that was received. The memory is free at once, even if this object is still referred to."""
        self._large, self._large_size, self._rest = None, 0, bytearray()
        self._view = self._scratch
        self._start = self._end = 0
        self._memory.give_back(self)

    def _start_large(self, needed: int) -> None:
        """Receive the frame that begins in ``_rest`` into a buffer of its own."""
        self._large_size = needed
        self.large_frames += 1
        self._start = self._end = 0
        self._reserve(min(len(self._rest) * 4, needed))

    def _reserve(self, wanted: int) -> None:
        have = len(self._large or ())
        if wanted <= have or self._memory.take(self, wanted - have):
            self._grow(max(wanted, have))
        else:
            self.lacks_memory, self._wanted = True, wanted

    def _grow(self, size: int) -> None:
        have = self._large
        if have is None or len(have) < size:
            self._large = memoryview(_mapped(size))
            if have is not None:
                self._large[: self._end] = have[: self._end]
        assert self._large is not None
        if self._rest:  # The first bytes of the frame, from the scratch.
            self._end = len(self._rest)
            self._large[: self._end] = self._rest
            self._rest = bytearray()
        self._view, self._start = self._large, 0


def _mapped(size: int) -> mmap.mmap:
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)  # Windows, where such a mapping is always private.
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
