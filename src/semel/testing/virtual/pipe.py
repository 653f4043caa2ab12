"""One direction of a connection: bytes arrive in order, late, and in other pieces than they were written.

Bytes that were written and not sent yet wait here for room in the window, as in a full socket buffer. Bytes that were
sent are in flight: each piece has an arrival time, and pieces that are due together arrive as one. The end of the
stream is sent in the same way, after the bytes.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from enum import Enum
from typing import Final, Protocol

from semel.testing.virtual.links import Links

WINDOW_BYTES: Final = 64 * 1024
"""How many bytes may be sent that the receiver has not read yet."""

_CUTS: Final = (0, 0, 0, 1, 2)


class Ending(Enum):
    EOF = "end"
    RESET = "reset"


class Sender(Protocol):
    def drained(self) -> None:
        """Some of the unsent bytes have been sent."""

    def failed(self, error: OSError) -> None: ...


class Receiver(Protocol):
    def arrived(self, data: bytes) -> None: ...

    def ended(self, ending: Ending) -> None: ...


class Pipe:
    def __init__(self, links: Links, source: str, destination: str) -> None:
        self.source = source
        self.destination = destination
        self.unsent_bytes = 0
        self._links = links
        self._unsent: deque[tuple[float, memoryview | Ending]] = deque()
        self._in_flight: deque[tuple[float, bytes | Ending]] = deque()
        self._window_bytes = WINDOW_BYTES
        self._arrival: asyncio.TimerHandle | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._stalled = False

    def join(self, sender: Sender, receiver: Receiver) -> None:
        self._sender = sender
        self._receiver = receiver

    @property
    def empty(self) -> bool:
        return not self._unsent and not self._in_flight

    def send(self, item: bytes | Ending, *, delay_ms: float = 0.0) -> None:
        not_before = self._links.loop.time() + delay_ms / 1000
        if isinstance(item, Ending):
            self._unsent.append((not_before, item))
        else:
            self._unsent.append((not_before, memoryview(item)))
            self.unsent_bytes += len(item)
        self._transmit()

    def consumed(self, size: int) -> None:
        """Open the window by ``size`` bytes, which the receiver has read."""
        self._window_bytes += size
        if self._unsent and not self._blocked():
            self._transmit()
            self._sender.drained()

    def stall(self) -> None:
        """Deliver nothing any more. The sender notices it when it gives up."""
        self._stalled = True

    def cut(self, *, lossless: bool) -> None:
        """Drop the unsent bytes, because the sender is gone; unless ``lossless``, also a random tail of those in
        flight."""
        self._unsent.clear()
        self.unsent_bytes = 0
        if not lossless:
            for _ in range(self._links.random.randint(0, len(self._in_flight))):
                self._in_flight.pop()

    def unblocked(self) -> None:
        """Continue sending and delivering, after a partition was healed or a host resumed."""
        if self._blocked():
            return
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        if self._unsent:
            self._transmit()
            self._sender.drained()
        self._schedule_arrival(self._links.delay_s(self.source, self.destination))

    def _transmit(self) -> None:
        while self._unsent:
            not_before, item = self._unsent[0]
            if isinstance(item, Ending):
                self._fly(item, not_before)
            elif not self._window_bytes:
                break
            else:
                for piece in self._pieces(item[: self._window_bytes]):
                    self._fly(piece, not_before)
                sent = min(len(item), self._window_bytes)
                self._window_bytes -= sent
                self.unsent_bytes -= sent
                if sent < len(item):
                    self._unsent[0] = (not_before, item[sent:])
                    break
            self._unsent.popleft()
        self._schedule_arrival()

    def _fly(self, item: bytes | Ending, not_before: float) -> None:
        links = self._links
        due = max(not_before, links.loop.time() + links.delay_s(self.source, self.destination))
        self._in_flight.append((due, item))  # It arrives after the pieces before it, even if they are due later.

    def _pieces(self, data: memoryview) -> list[bytes]:
        """Return the data whole, as usual, or sometimes cut into two or three pieces at random positions."""
        random = self._links.random
        cuts = random.choice(_CUTS) if len(data) > 1 else 0
        if not cuts:
            return [bytes(data)]
        pieces = []
        start = 0
        for stop in sorted([random.randrange(1, len(data)) for _ in range(cuts)]):
            if stop > start:
                pieces.append(bytes(data[start:stop]))
                start = stop
        return [*pieces, bytes(data[start:])]

    def _schedule_arrival(self, delay_s: float = 0.0) -> None:
        if self._arrival is None and self._in_flight:
            loop = self._links.loop
            due = max(self._in_flight[0][0], loop.time() + delay_s)
            self._arrival = loop.call_at(due, self._arrive, context=self._links.context)

    def _arrive(self) -> None:
        self._arrival = None
        if self._blocked():
            if self._giving_up is None:
                self._give_up_later()
            return
        now = self._links.loop.time()
        data: list[bytes] = []
        ending: Ending | None = None
        while self._in_flight and self._in_flight[0][0] <= now and ending is None:
            _, item = self._in_flight.popleft()
            if isinstance(item, Ending):
                ending = item
            else:
                data.append(item)
        self._schedule_arrival()
        if data:
            self._receiver.arrived(b"".join(data))
        if ending is not None:
            self._receiver.ended(ending)

    def _blocked(self) -> bool:
        return self._stalled or self._links.blocked(self.source, self.destination)

    def _give_up_later(self) -> None:
        loop = self._links.loop
        self._giving_up = loop.call_later(self._links.give_up_ms / 1000, self._give_up, context=self._links.context)

    def _give_up(self) -> None:
        if self.source in self._links.paused:  # The time in which the sender is paused does not count.
            self._give_up_later()
            return
        self._giving_up = None
        self._unsent.clear()
        self._in_flight.clear()
        message = f"{self.destination} has not acknowledged anything for {self._links.give_up_ms} ms"
        self._sender.failed(TimeoutError(errno.ETIMEDOUT, message))
