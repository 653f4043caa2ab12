"""One client's connection: receives requests, and sends their answers in the order of the requests.

The law: a client's requests are read only as fast as they are served. Requests of one connection are served one after
the other, and answered at once or later. While a Produce waits for the disk, the requests after it are served; while a
Fetch waits for records, or an admin request is delayed, they are not, as in Apache Kafka. If too many requests wait, or
the client does not read its answers, nothing more is read from the connection, and TCP's flow control stops the client.
Answers that the operating system has not taken yet count in ``ResponseMemory``; when there is no room left, requests
with large answers wait too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from semel.broker.network.accepting_server import AcceptingServer, DelayedResponse
from semel.broker.network.mute import Mute
from semel.broker.network.reading_progress import ReadingProgress
from semel.broker.network.receive_buffer import ReceiveBuffer
from semel.broker.network.response_memory import COUNTED_BYTES_MIN, has_large_answer
from semel.errors import DecodeError
from semel.metadata.image import PLAINTEXT
from semel.types import Buffer

if TYPE_CHECKING:
    import ssl

# Enough for a pipelining producer to keep the disk busy. librdkafka's default is a million in flight.
WAITING_REQUESTS_MAX: Final = 256
# How many requests of one client are served in one turn of the event loop; fewer if they take long (``end_turn``).
TURN_REQUESTS_MAX: Final = 128
# How many bytes of answers may be ready and wait for an earlier answer.
WAITING_ANSWER_BYTES_MAX: Final = 1024 * 1024
# How many bytes of answers are collected for one write. Only after a write is it known whether the client reads.
OUT_BYTES_MAX: Final = 64 * 1024

# The host of a connection whose client was gone before it was accepted.
UNKNOWN_HOST: Final = "?"

# The reasons why no further request is served, as bits of ``_stops``.
_HELD: Final = 1
_FINISHING: Final = 2
_NOT_READ: Final = 4
_TOO_MANY_ANSWERS: Final = 8
_CLOSED: Final = 16
_LACKS_MEMORY: Final = 32
_NO_ROOM: Final = 64
_TURN_IS_OVER: Final = 128
_MUTED: Final = 256


class Connection(asyncio.BufferedProtocol):
    """The connection of one client, as an asyncio protocol."""

    __slots__ = (
        "_answer_bytes",
        "_answer_queue",
        "_busy",
        "_counted_bytes",
        "_flush_scheduled",
        "_held_by",
        "_inbox",
        "_loop",
        "_mute",
        "_out",
        "_out_bytes",
        "_progress",
        "_reading_paused",
        "_resuming",
        "_server",
        "_stops",
        "_transport",
        "active_at_ms",
        "has_read",
        "host",
        "listener",
        "now_ms",
        "paused_at_ms",
        "peer",
        "principal",
        "responses",
        "serve",
    )

    def __init__(
        self,
        server: AcceptingServer,
        inbox: ReceiveBuffer,
        loop: asyncio.AbstractEventLoop,
        listener: str = PLAINTEXT,
    ) -> None:
        self._server = server
        self._inbox = inbox
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._stops = 0
        self._answer_queue: deque[DelayedResponse] = deque()
        self._held_by: DelayedResponse | None = None
        self._answer_bytes = 0  # The size of the answers that are ready and wait for an earlier one.
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._counted_bytes = 0  # What ``responses`` counts for the answers in ``_out`` and in the transport.
        self._flush_scheduled = False
        self._busy = False  # Whether the requests of one read are being served: their answers are sent together.
        self._mute: Mute | None = None
        self._reading_paused = False
        self._resuming = False
        self._progress = ReadingProgress()
        self.responses = server.responses
        self.now_ms = server.clock.monotonic_ms
        self.active_at_ms = 0.0
        self.paused_at_ms: float | None = None
        """Since when the transport's write buffer has been above its high-water mark; None if it is below."""
        self.has_read = False
        """Whether the client has read a large answer."""
        self.host = self.peer = UNKNOWN_HOST
        self.listener = listener
        """The name of the listener that accepted the connection."""
        self.principal = "User:ANONYMOUS"
        """The principal of the client. Set at most once, before the first request after the authentication."""
        self.serve: Callable[[Connection, memoryview], None] = server.request
        """The function that serves one request. On a SASL listener it is another one until the client has logged in."""

    # Called by requests.

    def reply(self, parts: list[Buffer]) -> None:
        """Send the answer of the request that is being served, after the answers of earlier requests that wait."""
        if self._answer_queue:
            self._answer_queue.append(_Ready(parts))
            self._answers_wait(sum(map(len, parts)))
        else:
            self._send_soon(parts)

    def begin(self, delayed: DelayedResponse, *, hold: bool) -> None:
        """Queue a request whose answer comes later. With ``hold`` no further request of this client is served before
        that."""
        self._answer_queue.append(delayed)
        if hold:
            self._held_by = delayed
            self._stops |= _HELD

    def release(self, delayed: DelayedResponse) -> None:
        """Serve the requests after this one, which was held, although it is not answered yet."""
        if self._held_by is delayed:
            self._held_by = None
            self._stops &= ~_HELD
            self._resume_soon()

    def answered(self, delayed: DelayedResponse) -> None:
        """Send the answer of a delayed request, ``delayed.parts``, once all earlier answers are sent."""
        queue, parts = self._answer_queue, delayed.parts
        assert parts is not None
        if not queue:
            return  # The client left before its answer.
        if queue[0] is delayed:
            queue.popleft()
            self._send_soon(parts)
            while queue and (ready := queue[0].parts) is not None:
                queue.popleft()
                self._answers_wait(-sum(map(len, ready)))
                self._send_soon(ready)
        else:
            self._answers_wait(sum(map(len, parts)))
        if self._held_by is delayed:
            self._held_by = None
            self._stops &= ~_HELD
        if self._reading_paused:
            self._resume_soon()

    def end_turn(self) -> None:
        """Serve the client's next request in a later turn of the event loop: the current one has taken long."""
        self._stops |= _TURN_IS_OVER

    def mute(self, throttle_ms: int) -> None:
        """Serve no further request for this long. Requests that were begun are answered."""
        if self._stops & _CLOSED:
            return  # It serves none anyway, and the timer would keep it in memory.
        self._stops |= _MUTED
        if self._mute is None:
            self._mute = Mute(self._loop, self._unmuted)
        self._mute.extend(throttle_ms)

    def _unmuted(self) -> None:
        self._mute = None
        self._stops &= ~_MUTED
        self._resume_soon()

    def soon(self, work: Callable[[], None]) -> None:
        """Do a slice of work on an answer in one of the next turns of the event loop."""
        self._server.soon(work)

    def finish(self) -> None:
        """Serve no further request, and close the connection once those that were begun are answered."""
        self._stops |= _FINISHING
        if not self._answer_queue:
            self.close()

    def close(self) -> None:
        """Send the answers that are ready, serve no further request, and close the connection."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            self._flush()
            self._stops |= _CLOSED
            transport.close()

    def refuse(self, error: DecodeError) -> None:
        """Close the connection because one of its requests cannot be served."""
        self._server.refused(self, error)
        self.close()

    def abort(self) -> None:
        """Close the connection at once, without sending the answers that are ready."""
        self._stops |= _CLOSED
        if self._transport is not None:
            self._transport.abort()

    @property
    def idle(self) -> bool:
        """Whether no request of this client waits for its answer."""
        return not self._answer_queue

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closing, and waits only until the client has read the last answers."""
        return self._transport is not None and self._transport.is_closing()

    @property
    def awaits_bytes(self) -> bool:
        """Whether part of a request has arrived, and the broker is ready to receive the rest."""
        return not self._reading_paused and self._inbox.waiting

    @property
    def unread_answer_bytes(self) -> int:
        """The bytes of ``ResponseMemory`` that this connection holds."""
        return self._counted_bytes + self._answer_bytes

    @property
    def large_frame(self) -> int | None:
        """The number of the large request that is being received and holds memory, or None."""
        inbox = self._inbox
        return inbox.large_frames if inbox.is_receiving_large and not inbox.lacks_memory else None

    def unread_ms(self, now_ms: float) -> float:
        """Return for how long the client has read nothing of its answers; 0 if no answer waits, or if it reads.

        Progress is measured from one call to the next, so this must be called periodically.
        """
        return self._progress.unread_ms(self._transport, now_ms)

    @property
    def tls(self) -> ssl.SSLObject | None:
        """The TLS session, with the client's certificate, once the handshake is over; None without TLS."""
        return None if self._transport is None else self._transport.get_extra_info("ssl_object")

    def shrink(self) -> None:
        self._inbox.shrink()

    def limit_frames(self, bytes_max: int) -> int:
        """Set the maximum size of a request frame. Returns the former limit."""
        before, self._inbox.frame_bytes_max = self._inbox.frame_bytes_max, bytes_max
        return before

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple):
            self.host = str(name[0])
            self.peer = f"{name[0]}:{name[1]}"
        self.active_at_ms = self.now_ms()
        if not self._server.opened(self):
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._stops |= _CLOSED
        if self._mute is not None:
            self._mute.cancel()  # A quota may mute for days, and the timer would keep the connection as long.
            self._mute = None
        queue, self._answer_queue = self._answer_queue, deque()
        self._out.clear()
        self.responses.forget(self._room_made)
        self.responses.remove(self.unread_answer_bytes)
        self._counted_bytes = self._answer_bytes = 0
        self._inbox.close()
        for delayed in queue:
            if delayed.parts is None:
                delayed.abandoned()
        self._server.closed(self)

    def eof_received(self) -> None:
        """Called when the client has closed its side. Returns None, so that the transport closes the connection."""

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.active_at_ms = self.now_ms()
        self._server.received_bytes.value += nbytes
        self._inbox.received(nbytes)
        self._work()

    def pause_writing(self) -> None:
        self._stops |= _NOT_READ
        self.paused_at_ms = self.now_ms()
        self.unread_ms(self.paused_at_ms)  # Progress is counted from here.
        if not self._counted_bytes and self._transport is not None:  # Many small answers.
            self._count(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._stops &= ~_NOT_READ
        self.paused_at_ms = None
        if not self._out:
            self._uncount()
        self._resume_soon()

    # Receiving: frames become requests, as long as ``_stops`` is 0.

    def _work(self) -> None:
        inbox, queue, responses = self._inbox, self._answer_queue, self.responses
        self._busy = True
        must_wait = False
        left = TURN_REQUESTS_MAX
        try:
            while left and not self._stops and len(queue) < WAITING_REQUESTS_MAX:
                frame = inbox.next_frame()
                if frame is None:
                    break
                if responses.is_full and has_large_answer(frame):
                    inbox.put_back(frame)
                    must_wait = True
                    break
                self.serve(self, frame)
                left -= 1
                if self._out_bytes > OUT_BYTES_MAX:
                    self._flush()
        except DecodeError as error:
            self._server.refused(self, error)
            self.close()
            return
        finally:
            self._busy = False
            inbox.settle()
        if self._stops & _TURN_IS_OVER:
            self._stops &= ~_TURN_IS_OVER
            left = 0
        if self._out:
            self._flush()
        if must_wait:
            if responses.is_full:
                self._stops |= _NO_ROOM
                responses.wait(self._room_made)
            else:
                left = 0  # Only its own answers had filled the memory.
        if inbox.lacks_memory and not self._stops & _LACKS_MEMORY:
            self._stops |= _LACKS_MEMORY
            inbox.wait_for_memory(self._memory_available)
        if inbox.waiting and (not left or self._is_stopped()):
            self._pause_reading()
            if not left:
                self._resume_soon()

    def _memory_available(self) -> None:
        self._stops &= ~_LACKS_MEMORY
        self._resume_soon()

    def _room_made(self) -> None:
        self._stops &= ~_NO_ROOM
        self._resume_soon()

    def _is_stopped(self) -> bool:
        return self._stops != 0 or len(self._answer_queue) >= WAITING_REQUESTS_MAX

    def _pause_reading(self) -> None:
        if not self._reading_paused and self._transport is not None and not self._transport.is_closing():
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_soon(self) -> None:
        if self._reading_paused and not self._busy and not self._resuming:
            self._resuming = True
            self._server.soon(self._resume)

    def _resume(self) -> None:
        self._resuming = False
        if self._is_stopped() or not self._reading_paused:
            return
        self._inbox.reopen()
        self.active_at_ms = self.now_ms()
        self._work()
        if self._inbox.waiting and (self._resuming or self._is_stopped()):
            return
        self._reading_paused = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # Sending: answers of one turn are sent in one write.

    def _answers_wait(self, more_bytes: int) -> None:
        self._answer_bytes += more_bytes
        if more_bytes > 0:
            self.responses.add(more_bytes)
        else:
            self.responses.remove(-more_bytes)
        if self._answer_bytes >= WAITING_ANSWER_BYTES_MAX:
            self._stops |= _TOO_MANY_ANSWERS
        else:
            self._stops &= ~_TOO_MANY_ANSWERS

    def _send_soon(self, parts: list[Buffer]) -> None:
        self._out += parts
        size_bytes = 0
        for part in parts:
            size_bytes += len(part)
        self._out_bytes += size_bytes
        if size_bytes >= COUNTED_BYTES_MIN:
            self._count(size_bytes)
        if not self._busy and not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        out, transport = self._out, self._transport
        if transport is None or transport.is_closing():
            return
        if out:
            self._server.sent_bytes.value += self._out_bytes
            self._out, self._out_bytes = [], 0
            if len(out) == 1:
                transport.write(out[0])
            else:
                transport.writelines(out)
            if self._counted_bytes and not self._stops & _NOT_READ:
                self._uncount()
        if self._stops & _FINISHING and not self._answer_queue:
            transport.close()

    def _count(self, size_bytes: int) -> None:
        if self._transport is not None:
            self._counted_bytes += size_bytes
            self.responses.add(size_bytes)

    def _uncount(self) -> None:
        self.has_read = True
        size_bytes, self._counted_bytes = self._counted_bytes, 0
        self.responses.remove(size_bytes)


class _Ready:
    """An answer that is ready, and waits until earlier answers are sent."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Buffer]) -> None:
        self.parts: list[Buffer] | None = parts

    def abandoned(self) -> None:
        """Called when the client has left. There is no operation to abandon."""
