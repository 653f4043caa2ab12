"""One client's connection: requests come in, answers leave in the order the requests came.

The law: a client is read only as fast as it is served. Requests of one connection are looked at one after the other;
answered at once, or parked (a Produce that waits for the disk lets the ones behind it be looked at; a Fetch that waits
for records, or an admin request, holds them back, as in Apache Kafka). When too many are waiting, or the client does
not read its answers, nothing more is read from it, and TCP tells it so.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol, cast

from semel.broker.inbox import Inbox
from semel.clock import Clock
from semel.errors import DecodeError
from semel.types import Buffer

# Enough for a pipelining producer to keep the disk busy. librdkafka's default is a million in flight.
WAITING_REQUESTS_MAX: Final = 256
# How many requests of one client are looked at before the others get their turn.
TURN_REQUESTS_MAX: Final = 128
# Answers that are ready and wait for the one before them.
WAITING_ANSWER_BYTES_MAX: Final = 1024 * 1024
# Answers that leave in one write. Only after a write is it known whether the client reads.
OUT_BYTES_MAX: Final = 64 * 1024


class Slot(Protocol):
    """A request, as far as its connection is concerned: a place in the line."""

    parts: list[Buffer] | None
    """The answer, once there is one. An empty list is the answer to a request that wants none."""

    def abandoned(self) -> None:
        """The client is gone; whatever waits on its behalf can stop waiting."""


class Server(Protocol):
    """What a connection needs from whoever accepted it."""

    clock: Clock

    def opened(self, connection: Connection) -> bool:
        """Whether this connection may stay."""

    def closed(self, connection: Connection) -> None: ...

    def request(self, connection: Connection, frame: memoryview) -> None:
        """Serve one request. The frame is good only during this call. Raises nothing but DecodeError."""

    def refused(self, connection: Connection, reason: object) -> None:
        """What this client sent cannot be served; its connection is being closed."""

    def transferred(self, received_bytes: int, sent_bytes: int) -> None: ...


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_answer_bytes",
        "_busy",
        "_finishing",
        "_flush_scheduled",
        "_held_by",
        "_inbox",
        "_line",
        "_loop",
        "_out",
        "_out_bytes",
        "_reading_paused",
        "_resuming",
        "_server",
        "_transport",
        "_writing_paused",
        "active_at_ms",
        "host",
        "peer",
    )

    def __init__(self, server: Server, inbox: Inbox, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._inbox = inbox
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._line: deque[Slot] = deque()
        self._answer_bytes = 0
        self._held_by: Slot | None = None
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._finishing = False
        self._busy = False  # While the requests of one read are looked at: their answers leave together.
        self._flush_scheduled = False
        self._reading_paused = False
        self._resuming = False
        self._writing_paused = False
        self.active_at_ms = 0.0
        self.host = "?"
        self.peer = "?"

    # What a request does with its connection.

    def begin(self, slot: Slot) -> None:
        """Take a place in the line."""
        self._line.append(slot)

    def hold(self, slot: Slot) -> None:
        """Look at no further request of this client before this one is answered."""
        self._held_by = slot

    def answered(self, slot: Slot) -> None:
        """``slot.parts`` is there: it leaves when everything before it has left."""
        line = self._line
        if not line:
            return  # The client left before its answer.
        if line[0] is slot:
            self._send_soon(line.popleft())
            while line and line[0].parts is not None:
                self._answer_bytes -= self._send_soon(line.popleft())
            if not self._busy and not self._flush_scheduled:
                self._flush_scheduled = True
                self._loop.call_soon(self._flush)
        else:
            self._answer_bytes += sum(map(len, slot.parts or ()))
        if self._held_by is slot:
            self._held_by = None
            self._resume_soon()
        elif self._reading_paused:
            self._resume_soon()

    def close(self) -> None:
        """Send what is ready, serve nothing more."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            self._flush()
            transport.close()

    def finish(self) -> None:
        """Look at no further request, and close once the ones already begun are answered."""
        self._finishing = True
        if not self._line:
            self.close()

    def abort(self) -> None:
        """Drop the connection and what it still had to say."""
        if self._transport is not None:
            self._transport.abort()

    def now_ms(self) -> float:
        return self._server.clock.monotonic_ms()

    @property
    def idle(self) -> bool:
        """Whether nothing is owed to this client."""
        return not self._line

    @property
    def is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def shrink(self) -> None:
        self._inbox.shrink()

    # What asyncio says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple):
            self.host = str(name[0])
            self.peer = f"{name[0]}:{name[1]}"
        self.active_at_ms = self._server.clock.monotonic_ms()
        if not self._server.opened(self):
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        line, self._line = self._line, deque()
        self._out.clear()
        for slot in line:
            if slot.parts is None:
                slot.abandoned()
        self._server.closed(self)

    def eof_received(self) -> None:
        """A client that has said everything is a client that is gone: the transport closes."""

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.active_at_ms = self._server.clock.monotonic_ms()
        self._inbox.received(nbytes)
        self._server.transferred(nbytes, 0)
        self._work()

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._resume_soon()

    def _work(self) -> None:
        inbox, server = self._inbox, self._server
        self._busy = True
        turn_is_over = False
        requests = 0
        try:
            while not (self._blocked() or turn_is_over):
                frame = inbox.next_frame()
                if frame is None:
                    break
                server.request(self, frame)
                if self._out_bytes > OUT_BYTES_MAX:
                    self._flush()
                requests += 1
                turn_is_over = requests == TURN_REQUESTS_MAX
        except DecodeError as error:
            server.refused(self, error)
            self._busy = False
            self.close()
            return
        finally:
            self._busy = False
            inbox.settle()
        if self._out:
            self._flush()
        if inbox.waiting and (turn_is_over or self._blocked()):
            self._pause_reading()
            if turn_is_over:
                self._resume_soon()

    def _send_soon(self, slot: Slot) -> int:
        parts = slot.parts or ()
        size_bytes = sum(map(len, parts))
        self._out += parts
        self._out_bytes += size_bytes
        return size_bytes

    def _blocked(self) -> bool:
        return (
            self._held_by is not None
            or self._finishing
            or self._writing_paused
            or len(self._line) >= WAITING_REQUESTS_MAX
            or self._answer_bytes >= WAITING_ANSWER_BYTES_MAX
            or self._transport is None
            or self._transport.is_closing()
        )

    def _flush(self) -> None:
        self._flush_scheduled = False
        out, transport = self._out, self._transport
        if not out or transport is None or transport.is_closing():
            return
        self._server.transferred(0, self._out_bytes)
        self._out, self._out_bytes = [], 0
        if len(out) == 1:
            transport.write(out[0])
        else:
            transport.writelines(out)
        if self._finishing and not self._line:
            transport.close()

    def _pause_reading(self) -> None:
        if not self._reading_paused and self._transport is not None and not self._transport.is_closing():
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_soon(self) -> None:
        if self._reading_paused and not self._busy and not self._resuming:
            self._resuming = True
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._resuming = False
        if self._blocked() or not self._reading_paused:
            return
        self._inbox.reopen()
        self._work()
        if self._inbox.waiting and (self._resuming or self._blocked()):
            return
        self._reading_paused = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
