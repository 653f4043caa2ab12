"""Faults at the level of messages: an interceptor sees every whole frame, as a faulty proxy would.

A frame is a four-byte big-endian length and so many bytes, which is how Kafka's protocol frames its requests and
responses. A stream that breaks this framing passes unseen from there on.
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
    """Without the length."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a frame: how many copies of it go on, how much later, and whether the connection survives it.

    A delayed frame delays what comes after it on its connection, and arrives even if its sender has hung up meanwhile.
    With ``sender_loses`` its sender loses the connection at once; the receiver learns nothing of that.
    """

    copies: int = 1
    delay_ms: float = 0.0
    reset: bool = False
    sender_loses: bool = False


DELIVER: Final = Verdict()
DROP: Final = Verdict(copies=0)
REPEAT: Final = Verdict(copies=2)
RESET: Final = Verdict(copies=0, reset=True)
"""The frame is lost and its connection with it: all that TCP can do to a single message."""

Interceptor: TypeAlias = Callable[[Frame], Verdict]

_LENGTH_BYTES: Final = 4
_SIZE_BYTES_MAX: Final = 256 * 1024 * 1024


class FrameSplitter:
    """Cuts one direction of a connection into frames, however the bytes were written."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.framed = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Whole frames, each with its length in front; once ``framed`` is False, whatever comes as it comes."""
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
        """What was written since the last whole frame: it goes out when the connection ends."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest


def payload(frame: bytes) -> bytes:
    return frame[_LENGTH_BYTES:]
