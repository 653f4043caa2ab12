"""One connection between a transport and a server that a test plays."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

from semel.broker.metrics.metrics import Counter
from semel.broker.network.connection import Connection
from semel.broker.network.receive_buffer import ReceiveBuffer
from semel.broker.network.request_memory import RequestMemory
from semel.broker.network.response_memory import ResponseMemory
from semel.errors import DecodeError
from semel.testing.virtual.clock import VirtualClock
from semel.testing.virtual.loop import VirtualLoop
from semel.types import Buffer

HIGH_WATER_BYTES = 64 * 1024


class Transport(asyncio.Transport):
    """What a connection sees of a socket."""

    def __init__(self, protocol: Connection, peer: tuple[str, int] | None = ("10.0.0.1", 5000)) -> None:
        super().__init__({"peername": peer})
        self.protocol = protocol
        self.written: list[bytes] = []
        self.reading = True
        self.closing = False
        self.unread_bytes: int | None = None
        """What the client has not read; None for one that reads everything at once."""

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes or 0

    def write(self, data: Any) -> None:
        assert not self.closing
        self.written.append(bytes(data))
        if self.unread_bytes is not None:
            self.unread_bytes += len(data)
            if self.unread_bytes > HIGH_WATER_BYTES:
                self.protocol.pause_writing()

    def read_by_client(self, size: int) -> None:
        assert self.unread_bytes is not None
        self.unread_bytes -= size
        if not self.unread_bytes:
            self.protocol.resume_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self.protocol.connection_lost(None)

    abort = close

    def deliver(self, data: bytes) -> None:
        while data:
            assert self.reading, "bytes were delivered to a connection that asked for none"
            buffer = self.protocol.get_buffer(-1)
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            data = data[size:]
            self.protocol.buffer_updated(size)


class DelayedResponse:
    def __init__(self, name: bytes) -> None:
        self.name = name
        self.parts: list[Buffer] | None = None
        self.is_abandoned = False

    def abandoned(self) -> None:
        self.is_abandoned = True


class Server:
    """Delays every request; the test answers them."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = VirtualClock(loop)
        self.soon: Callable[[Callable[[], None]], object] = loop.call_soon
        self.delayed: dict[bytes, DelayedResponse] = {}
        self.refusals: list[str] = []
        self.is_closed = False
        self.received_bytes, self.sent_bytes = Counter(), Counter()
        self.responses = ResponseMemory(2**30)
        self.at_once: Callable[[bytes], bool] = lambda name: False
        self.hold: Callable[[bytes], bool] = lambda name: False

    def opened(self, connection: Connection) -> bool:
        return True

    def closed(self, connection: Connection) -> None:
        self.is_closed = True

    def request(self, connection: Connection, frame: memoryview) -> None:
        name = bytes(frame)
        if name == b"bad":
            raise DecodeError("bad")
        self.delayed[name] = DelayedResponse(name)
        if self.at_once(name):
            connection.reply([name])
        else:
            connection.begin(self.delayed[name], hold=self.hold(name))

    def answer(self, connection: Connection, name: bytes, answer: bytes | None = None) -> None:
        delayed = self.delayed[name]
        delayed.parts = [name if answer is None else answer]
        connection.answered(delayed)

    def refused(self, connection: Connection, reason: object) -> None:
        self.refusals.append(str(reason))


class Bench:
    def __init__(self, *, arriving_bytes_max: int = 2**30, leaving_bytes_max: int = 2**30) -> None:
        self.loop = VirtualLoop()
        self.server = Server(self.loop)
        self.server.responses = ResponseMemory(leaving_bytes_max)
        self.memory = RequestMemory(arriving_bytes_max)
        inbox = ReceiveBuffer(memoryview(bytearray(4096)), 10_000_000, self.memory)
        self.connection = Connection(self.server, inbox, self.loop)
        self.transport = Transport(self.connection)
        self.connection.connection_made(self.transport)

    def send(self, *names: bytes) -> None:
        self.transport.deliver(b"".join(struct.pack(">i", len(name)) + name for name in names))

    def answer(self, name: bytes, answer: bytes | None = None) -> None:
        self.server.answer(self.connection, name, answer)

    def turn(self) -> None:
        """Let the loop run what is ready."""
        self.loop.run_until_complete(asyncio.sleep(0.001))

    def wait(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    @property
    def sent(self) -> bytes:
        return b"".join(self.transport.written)
