"""Bytes in, whole frames out, in place.

A frame is a 4-byte size and that many bytes. Frames are handed out as views into the buffer they were received in, so
they are good only until the next byte is received: who wants to keep something copies it.

All connections of a broker receive into one shared ``scratch``. That is sound because a transport asks for a buffer,
fills it and reports it within one callback, with no other connection in between; and it means that an idle connection
owns no buffer. What is left over of an incomplete frame is set aside (``settle``) before the callback ends. A frame
larger than the scratch gets a buffer of its own and is received straight into it; that buffer grows with what has
arrived, never with what was promised, so a stranger who claims 100 MB and sends nothing costs nothing. What all these
buffers may take together is limited by ``RequestMemory``. They are mapped, not allocated: what is given back leaves the
process at once, while a heap in which many such buffers grow and go keeps several times their size.
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
# The first bytes of a client that begins with TLS, read as the half of a size: a record of its handshake, version 3.
_TLS_HANDSHAKE: Final = 0x1603


class ReceiveBuffer:
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
        "large_frames",
        "starved",
    )

    def __init__(self, scratch: memoryview, frame_bytes_max: int, memory: RequestMemory) -> None:
        self._scratch = scratch
        self.frame_bytes_max = frame_bytes_max
        self._memory = memory
        self._view = scratch
        self._start = self._end = 0
        self._rest = bytearray()  # An incomplete frame that fits into the scratch, or frames that have to wait.
        self._large: memoryview | None = None  # The buffer for frames that do not.
        self._large_size = 0  # Of the frame being received into it, size prefix included; 0: none.
        self._wanted = 0
        self.large_frames = 0
        """How many frames have begun that needed a buffer of their own."""
        self.starved = False
        """Nothing more may be received: there is no memory. ``feed`` asks for some."""

    @property
    def waiting(self) -> bool:
        """Whether bytes are set aside that have not been handed out."""
        return bool(self._rest) or self._large_size > 0

    @property
    def is_receiving_large(self) -> bool:
        """Whether a frame is in a buffer of its own, in part or waiting to be handed out."""
        return self._large_size > 0

    def buffer(self) -> memoryview:
        """Where the next bytes go."""
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
        """``count`` bytes were put into ``buffer()``."""
        if self._large_size:
            self._end += count
            return
        self._view, self._start, self._end = self._scratch, 0, len(self._rest) + count
        if self._rest:
            self._rest = bytearray()

    def reopen(self) -> None:
        """Go back to what was set aside, to hand out what had to wait."""
        if self._rest:
            self._view, self._start, self._end = memoryview(self._rest), 0, len(self._rest)
            self._rest = bytearray()

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size, or None. Raises DecodeError for a size that no client may send."""
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
        """The frame that was handed out last has to wait; it is handed out again."""
        self._start -= _SIZE_BYTES + len(frame)

    def settle(self) -> None:
        """Set aside what was not handed out, so that the shared buffer is free again."""
        start, end = self._start, self._end
        if self._large_size:
            if start == 0:
                if end < self._large_size and end == len(self._large or ()):
                    self._reserve(min(end * 2, self._large_size))
                return
            self._large_size = 0  # Handed out; it was alone in its buffer.
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

    def feed(self, fed: Callable[[], None]) -> None:
        """Wait for the memory that is missing; ``fed`` is called when receiving can go on."""

        def given() -> None:
            self.starved = False
            self._grow(self._wanted)
            fed()

        self._memory.wait(self, self._wanted - len(self._large or ()), given)

    def shrink(self) -> None:
        """Give back the buffer for large frames, if none is being received."""
        if not self._large_size and self._large is not None:
            self._large = None
            self._memory.give_back(self)

    def close(self) -> None:
        self._large = None
        self._memory.give_back(self)

    def _start_large(self, needed: int) -> None:
        """The frame that has begun in ``_rest`` needs a buffer of its own."""
        self._large_size = needed
        self.large_frames += 1
        self._start = self._end = 0
        self._reserve(min(len(self._rest) * 4, needed))

    def _reserve(self, wanted: int) -> None:
        have = len(self._large or ())
        if wanted <= have or self._memory.take(self, wanted - have):
            self._grow(max(wanted, have))
        else:
            self.starved, self._wanted = True, wanted

    def _grow(self, size: int) -> None:
        have = self._large
        if have is None or len(have) < size:
            self._large = memoryview(_mapped(size))
            if have is not None:
                self._large[: self._end] = have[: self._end]
        assert self._large is not None
        if self._rest:  # It has only just begun.
            self._end = len(self._rest)
            self._large[: self._end] = self._rest
            self._rest = bytearray()
        self._view, self._start = self._large, 0


def _mapped(size: int) -> mmap.mmap:
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)  # Windows, where it is this process' own anyway.
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
