"""Faults for single requests and responses: an interceptor receives every complete frame, as a faulty proxy would.

A frame is a four-byte big-endian length and that number of bytes, as Kafka's protocol frames its requests and
responses. From the point where a stream breaks this framing, its bytes are passed on without the interceptor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Frame:
    source: str
    destination: str
    connection: int
    to_server: bool
    payload: bytes
    """The frame's bytes without the length."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An interceptor's decision about a frame: how many copies are delivered, after what delay, and whether the
    connection is reset.

    A delayed frame delays all later bytes on its connection, and is delivered even if its sender has closed the
    connection meanwhile. With ``sender_loses`` the sender loses the connection at once; the receiver does not notice.
    """

    copies: int = 1
    delay_ms: float = 0.0
    reset: bool = False
    sender_loses: bool = False


DELIVER: Final = Verdict()
DROP: Final = Verdict(copies=0)
REPEAT: Final = Verdict(copies=2)
RESET: Final = Verdict(copies=0, reset=True)
"""The frame is lost and its connection is reset. With TCP a single message can be lost in no other way."""

Interceptor: TypeAlias = Callable[[Frame], Verdict]

_LENGTH_BYTES: Final = 4
_SIZE_BYTES_MAX: Final = 256 * 1024 * 1024


class FrameSplitter:
    """Splits the bytes of one direction of a connection into frames, independent of how they were written."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.framed = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Return the complete frames, each with its length; once ``framed`` is False, the bytes as they come."""
        self._buffer += data
        while self.framed and len(self._buffer) >= _LENGTH_BYTES:
            size = int.from_bytes(self._buffer[:_LENGTH_BYTES], "big", signed=True)
            if not 0 <= size <= _SIZE_BYTES_MAX:
                self.framed = False
                break
            if len(self._buffer) < _LENGTH_BYTES + size:
                break
            frame = bytes(self._buffer[: _LENGTH_BYTES + size])
            del self._buffer[: _LENGTH_BYTES + size]
            yield frame
        if not self.framed:
            yield self.rest()

    def rest(self) -> bytes:
        """Return the bytes after the last complete frame, which are sent when the connection ends, and forget them."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest


def payload(frame: bytes) -> bytes:
    return frame[_LENGTH_BYTES:]
