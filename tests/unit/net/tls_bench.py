"""One TLS connection between an operating system, a client and a protocol that a test plays."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trustme

from semel.net.tls_server import TlsProtocolFactory, TlsServerTransport
from semel.testing.virtual.loop import VirtualLoop

HIGH_WATER_BYTES = 64 * 1024
HOST = "broker.example.org"


class Authority:
    """Makes contexts of both sides."""

    def __init__(self) -> None:
        self._authority = trustme.CA()
        self._server = self._authority.issue_cert(HOST)
        self._client = self._authority.issue_cert("client@example.org")

    def server_context(self, verify: ssl.VerifyMode = ssl.CERT_NONE) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION
        self._server.configure_cert(context)
        self._authority.configure_trust(context)
        context.verify_mode = verify
        return context

    def client_context(self, *, identity: bool = False, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._authority.configure_trust(context)
        if version is not None:
            context.minimum_version = context.maximum_version = version
        if identity:
            self._client.configure_cert(context)
        return context

    def write_identity(self, file: Path) -> None:
        file.write_bytes(
            b"".join(blob.bytes() for blob in (self._server.private_key_pem, *self._server.cert_chain_pems))
        )


class Wire(asyncio.Transport):
    """The operating system: it takes ``room_bytes`` of what is written, and keeps the rest."""

    def __init__(self, host: str = "10.0.0.1") -> None:
        super().__init__({"peername": (host, 5000)})
        self.protocol: Any = None
        self.sent = bytearray()
        self.kept = bytearray()
        self.room_bytes: int | None = None
        """None for a client that reads everything."""
        self.reading = True
        self.closing = False
        self.aborted = False
        self.is_full = False

    def write(self, data: Any) -> None:
        assert not self.closing
        self.kept += data
        self._pass_on()
        if len(self.kept) > HIGH_WATER_BYTES and not self.is_full:
            self.is_full = True
            self.protocol.pause_writing()

    def make_room(self, size: int) -> None:
        assert self.room_bytes is not None
        self.room_bytes += size
        self._pass_on()
        while self.is_full and len(self.kept) <= HIGH_WATER_BYTES // 4:
            self.is_full = False
            self.protocol.resume_writing()

    def _pass_on(self) -> None:
        size = len(self.kept) if self.room_bytes is None else min(self.room_bytes, len(self.kept))
        self.sent += self.kept[:size]
        del self.kept[:size]
        if self.room_bytes is not None:
            self.room_bytes -= size

    def get_write_buffer_size(self) -> int:
        return len(self.kept)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True


class Inner(asyncio.BufferedProtocol):
    """What speaks inside of TLS; it counts how it is told to stop writing."""

    def __init__(self, buffer_bytes: int = 64 * 1024) -> None:
        self.buffer = bytearray(buffer_bytes)
        self.transport: Any = None
        self.received = bytearray()
        self.reads: list[int] = []
        self.events: list[str] = []
        self.then: Callable[[], None] = lambda: None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.events.append("made")

    def connection_lost(self, error: Exception | None) -> None:
        self.events.append("lost")

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]
        self.reads.append(nbytes)
        self.then()

    def eof_received(self) -> None:
        self.events.append("eof")

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


class Bench:
    def __init__(self, server_context: ssl.SSLContext, inner: Any = None) -> None:
        self.loop = VirtualLoop()
        self.slices: list[Callable[[], None]] = []
        self.refused: list[tuple[str, str]] = []
        self.certificates_refused: list[tuple[str, str]] = []
        self.inner = inner or Inner()
        self.factory = TlsProtocolFactory(
            lambda: self.inner,
            lambda: server_context,
            self.loop,
            self.slices.append,
            lambda peer, reason: self.refused.append((peer, reason)),
            lambda host, reason: self.certificates_refused.append((host, reason)),
        )
        self.wire = Wire()
        self.server: TlsServerTransport = self.factory()
        self.wire.protocol = self.server
        self.server.connection_made(self.wire)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client: ssl.SSLObject | None = None
        self.plaintext = bytearray()
        self.client_error: ssl.SSLError | None = None
        self.is_over = False
        """Whether the client was told goodbye."""

    def turn(self) -> None:
        """The work that waits for a turn of the loop, and what it has put on it."""
        slices, self.slices[:] = list(self.slices), []
        for work in slices:
            work()
        self.loop.run_until_complete(asyncio.sleep(0))

    def deliver(self, data: bytes) -> None:
        """From the client's operating system, as far as the server reads."""
        while data:
            assert self.wire.reading, "bytes were delivered to a connection that asked for none"
            buffer = self.server.get_buffer(-1)
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            data = data[size:]
            self.server.buffer_updated(size)

    def connect(self, context: ssl.SSLContext) -> None:
        """Shake hands, until both sides are done or one has given up."""
        self.client = context.wrap_bio(self._incoming, self._outgoing, server_hostname=HOST)
        for _ in range(6):
            self._client_step(self.client.do_handshake)
            if self.wire.reading and not self.wire.closing:
                self.deliver(self._outgoing.read())
            self.turn()

    def say(self, data: bytes) -> bytes:
        """What the client's TLS makes of this."""
        assert self.client is not None
        for start in range(0, len(data), 16_384):
            self.client.write(data[start : start + 16_384])
        return self._outgoing.read()

    def read(self) -> bytes:
        """All that has reached the client."""
        self._incoming.write(bytes(self.wire.sent))
        self.wire.sent.clear()
        assert self.client is not None

        def step() -> None:
            while self._incoming.pending or (self.client and self.client.pending()):
                data = self.client.read(65_536) if self.client else b""
                self.is_over = self.is_over or not data
                self.plaintext += data
                if not data:
                    return

        self._client_step(step)
        return bytes(self.plaintext)

    def _client_step(self, step: Callable[[], object]) -> None:
        self._incoming.write(bytes(self.wire.sent))
        self.wire.sent.clear()
        try:
            step()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.client_error = error
