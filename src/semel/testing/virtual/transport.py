"""The two ends of a simulated connection, as asyncio transports.

They keep the contract of asyncio's TCP transports: ``connection_made`` is called first and ``connection_lost`` last,
each once; nothing is delivered while reading is paused or after ``close``; ``close`` sends the bytes that were written,
``abort`` does not; ``pause_writing`` and ``resume_writing`` are called at the water marks; the connection of a protocol
that raises is closed.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from typing import Any

from semel.testing.virtual.frames import DELIVER, Frame, FrameSplitter, Interceptor, payload
from semel.testing.virtual.links import Links
from semel.testing.virtual.pipe import Ending, Pipe

HIGH_WATER_BYTES = 64 * 1024


class VirtualTransport(asyncio.Transport):
    """One end of a connection. ``address`` and ``peer`` are (host name, port)."""

    def __init__(
        self, connection: Connection, address: tuple[str, int], peer: tuple[str, int], *, server: bool
    ) -> None:
        super().__init__(extra={"sockname": address, "peername": peer})
        self.host = address[0]
        self._peer = peer
        self._receiving = f"{_name(address)} received"
        self._from_peer = f"from {_name(peer)}"
        self._server = server
        self._connection = connection
        self._links = connection.links
        self._outgoing = Pipe(connection.links, address[0], peer[0])
        self._incoming: Pipe
        self._context: contextvars.Context
        self._protocol: Any = None
        self._splitter = FrameSplitter() if connection.interceptor is not None else None
        self._unread: deque[bytes | Ending] = deque()
        self._reading = True
        self._writing_paused = False
        self._eof_written = False
        self._closing = False
        self._gone = False  # Whether the socket is closed: `connection_lost` was called or will be in the next turn.
        self.set_write_buffer_limits()

    # -- asyncio's interface ------------------------------------------------------------------------------------------

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading and not self._closing:
            self._reading = True
            self._links.loop.call_soon(self._read, context=self._links.context)

    def get_write_buffer_size(self) -> int:
        return self._outgoing.unsent_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_water_bytes, self._high_water_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high_water_bytes = high
        self._low_water_bytes = low
        self._pause_writing_if_full()

    def can_write_eof(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
        if self._eof_written:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or not data:
            return
        self._send(bytes(data))
        self._pause_writing_if_full()

    def write_eof(self) -> None:
        if self._closing or self._eof_written:
            return
        self._eof_written = True
        self._send_rest()
        self._outgoing.send(Ending.EOF)

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._send_rest()
        if any(isinstance(item, bytes) for item in self._unread):
            # A kernel does the same when it has to drop bytes that were not read.
            self._outgoing.send(Ending.RESET)
        elif not self._eof_written:
            self._outgoing.send(Ending.EOF)
        if not self._outgoing.unsent_bytes:
            self._go(None)

    def abort(self) -> None:
        self._break_off(None)

    # -- called by the pipes ------------------------------------------------------------------------------------------

    def arrived(self, data: bytes) -> None:
        self._links.record(f"{self._receiving} {len(data)} bytes {self._from_peer}")
        if self._gone:
            # This socket is closed: the kernel answers with a reset.
            self._outgoing.send(Ending.RESET)
            self._incoming.consumed(len(data))
            return
        self._unread.append(data)
        self._read()

    def ended(self, ending: Ending) -> None:
        self._links.record(f"{self._receiving} {ending.value} {self._from_peer}")
        if self._gone:
            self._connection.over_if_idle()
        elif ending is Ending.RESET:
            self.failed(ConnectionResetError(f"connection to {_name(self._peer)} was reset by the peer"))
        else:
            self._unread.append(ending)
            self._read()

    def drained(self) -> None:
        if self._gone:
            return
        if self._closing and not self._outgoing.unsent_bytes:
            self._go(None)
        elif self._writing_paused and self._outgoing.unsent_bytes <= self._low_water_bytes:
            self._writing_paused = False
            self._call(self._protocol.resume_writing)

    def failed(self, error: BaseException) -> None:
        """Close this end with an error, because the connection is broken."""
        if self._gone:
            self._connection.over_if_idle()
        else:
            self._closing = True
            self._outgoing.cut(lossless=True)
            self._go(error)

    # -- called by the network ----------------------------------------------------------------------------------------

    def join(self, other: VirtualTransport) -> None:
        self._incoming = other._outgoing
        self._outgoing.join(self, other)

    def made(self, factory: Callable[[], asyncio.BaseProtocol], context: contextvars.Context) -> None:
        """Create the protocol and call its ``connection_made``, within the context of its owner."""
        self._context = context
        if self._gone:
            return
        self._protocol = self._call(factory)
        if self._protocol is not None:
            self._call(self._protocol.connection_made, self)
            self._read()

    def vanish(self, *, silently: bool) -> None:
        """Close this end because its process has died: its protocol is not called any more.

        The peer notices it, unless ``silently``.
        """
        self._protocol = None
        if self._gone:
            return
        self._closing = self._gone = True
        self._unread.clear()
        self._outgoing.cut(lossless=self._splitter is not None)
        if not silently:
            self._outgoing.send(self._links.random.choice((Ending.EOF, Ending.RESET)))
        self._connection.over_if_idle()

    def unblocked(self) -> None:
        self._outgoing.unblocked()

    @property
    def gone(self) -> bool:
        return self._gone

    @property
    def idle(self) -> bool:
        return self._gone and self._outgoing.empty

    # -- private ------------------------------------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        if self._splitter is None:
            self._outgoing.send(data)
        else:
            for frame in self._splitter.feed(data):
                self._judge(frame, framed=self._splitter.framed)
        link = self._links.link(self.host, self._peer[0])
        random = self._links.random
        if link.reset_probability and random.random() < link.reset_probability:
            soon_s = self._links.delay_s(self.host, self._peer[0]) * random.random()
            self._links.loop.call_later(soon_s, self._connection.reset, context=self._links.context)
        if link.stall_probability and random.random() < link.stall_probability:
            self._outgoing.stall()

    def _judge(self, frame: bytes, *, framed: bool) -> None:
        verdict = DELIVER
        if framed and self._connection.interceptor is not None:
            seen = Frame(self.host, self._peer[0], self._connection.number, not self._server, payload(frame))
            verdict = self._connection.interceptor(seen)
        for _ in range(verdict.copies):
            self._outgoing.send(frame, delay_ms=verdict.delay_ms)
        if verdict.reset:
            self._links.loop.call_soon(self._connection.reset, context=self._links.context)
        if verdict.sender_loses:
            lost = ConnectionResetError(f"connection {self._connection.number} was reset in between")
            self._links.loop.call_soon(self.failed, lost, context=self._links.context)

    def _send_rest(self) -> None:
        if self._splitter is not None and (rest := self._splitter.rest()):
            self._outgoing.send(rest)

    def _read(self) -> None:
        while self._unread and self._protocol is not None and self._reading and not self._closing:
            item = self._unread.popleft()
            if isinstance(item, Ending):
                if not self._call(self._protocol.eof_received):
                    self.close()
            elif isinstance(self._protocol, asyncio.BufferedProtocol):
                self._fill(self._protocol, item)
            else:
                self._call(self._protocol.data_received, item)
                self._incoming.consumed(len(item))

    def _fill(self, protocol: asyncio.BufferedProtocol, data: bytes) -> None:
        """Copy as much as fits into the protocol's buffer; the rest remains first in ``_unread``."""
        buffer = self._call(protocol.get_buffer, -1)
        if buffer is None:
            return
        with memoryview(buffer) as view:
            size = min(len(view), len(data))
            view[:size] = data[:size]
        if not size:
            self._fatal(RuntimeError("get_buffer() returned an empty buffer"), "get_buffer")
            return
        if size < len(data):
            self._unread.appendleft(data[size:])
        self._call(protocol.buffer_updated, size)
        self._incoming.consumed(size)

    def _pause_writing_if_full(self) -> None:
        if self._outgoing.unsent_bytes > self._high_water_bytes and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    def _break_off(self, error: BaseException | None) -> None:
        if self._gone:
            return
        self._closing = True
        # An interceptor is like a proxy: frames that it has passed on arrive even if the sender is gone.
        self._outgoing.cut(lossless=self._splitter is not None)
        self._outgoing.send(self._links.random.choice((Ending.EOF, Ending.RESET)))
        self._go(error)

    def _go(self, error: BaseException | None) -> None:
        self._gone = True
        self._links.loop.call_soon(self._lost, error, context=self._links.context)

    def _lost(self, error: BaseException | None) -> None:
        if self._protocol is not None:
            self._call(self._protocol.connection_lost, error)
        self._connection.over_if_idle()

    def _call(self, method: Callable[..., Any], *args: Any) -> Any:
        try:
            return self._context.run(method, *args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._fatal(error, getattr(method, "__name__", "protocol factory"))
            return None

    def _fatal(self, error: BaseException, method: str) -> None:
        report = {"message": f"protocol.{method}() failed", "exception": error, "transport": self}
        self._context.run(self._links.loop.call_exception_handler, report)
        self._break_off(error)


class Connection:
    """A simulated TCP connection with its two ends."""

    def __init__(
        self,
        number: int,
        links: Links,
        client: tuple[str, int],
        server: tuple[str, int],
        *,
        interceptor: Interceptor | None,
        over: Callable[[int], None],
    ) -> None:
        self.number = number
        self.links = links
        self.interceptor = interceptor
        self._over = over
        self.client = VirtualTransport(self, client, server, server=False)
        self.server = VirtualTransport(self, server, client, server=True)
        self.client.join(self.server)
        self.server.join(self.client)

    @property
    def ends(self) -> tuple[VirtualTransport, VirtualTransport]:
        return self.client, self.server

    def joins(self, one: str, other: str) -> bool:
        return {self.client.host, self.server.host} == {one, other}

    def reset(self) -> None:
        """Reset the connection, as a device between the hosts can do: both ends notice it at once."""
        for end in self.ends:
            end.failed(ConnectionResetError(f"connection {self.number} was reset in between"))

    def over_if_idle(self) -> None:
        if self.client.idle and self.server.idle:
            self._over(self.number)


def _name(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"
