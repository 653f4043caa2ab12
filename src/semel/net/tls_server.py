"""TLS on the server's side: a transport that encrypts and decrypts, between the TCP transport and a protocol.

    accepted --> handshake --(a first byte that is not TLS, a bad certificate, too slow)--> closed, and logged
                     |
                     +--> open: bytes in, bytes out --> closing: remaining data, close_notify --> closed

asyncio has its own TLS transport. This one exists because a client that is not authenticated must not cost more with
TLS than without. Here the protocol gets its connection as soon as it is accepted, so that the connection counts in all
limits, and receives no byte before the handshake is complete. Handshakes are computed one after the other, in turns of
the loop that are shared with other work (``soon``). At most ``HANDSHAKES_MAX`` are in progress: with one more, the
oldest one of the address that has most is ended.

The law about memory: data to send is kept as plaintext, as the protocol wrote it, and is encrypted only while the TCP
transport accepts more. So it is never held twice, and ``get_write_buffer_size`` counts all of it. While the protocol
has paused reading, nothing is decrypted, and nothing more is read from the client.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, cast

from semel.net.network import ProtocolFactory
from semel.types import Buffer

HANDSHAKES_MAX: Final = 200
HANDSHAKE_SECONDS_MAX: Final = 10.0

_HANDSHAKE_RECORD: Final = 0x16
_NO_CERTIFICATE: Final = "PEER_DID_NOT_RETURN_A_CERTIFICATE"
_RECEIVED_BYTES_MAX: Final = 128 * 1024
# As much as OpenSSL encrypts in one call.
_RECORD_BYTES: Final = 16 * 1024
# The encrypted bytes that are passed to the TCP transport in one call, if there are so many.
_SENT_BYTES: Final = 128 * 1024
# Parts of a ``writelines`` that have at most this size together are joined: each would become a TLS record of its own.
_JOINED_BYTES_MAX: Final = 64 * 1024

NOT_TLS: Final = "this listener takes TLS, and the client sends something else"


@dataclass(frozen=True, slots=True)
class TlsProtocolFactory:
    """Makes the TLS transports of a listener. ``factory`` makes the protocols that exchange data inside of TLS.

    ``context`` is called for each connection. ``refused`` is called with the address and the reason when TLS fails,
    before the connection is closed.
    """

    factory: ProtocolFactory
    context: Callable[[], ssl.SSLContext]
    loop: asyncio.AbstractEventLoop
    soon: Callable[[Callable[[], None]], object]
    refused: Callable[[str, str], None]
    certificate_refused: Callable[[str, str], None]
    """Called with the host and the reason, after ``refused``, when TLS fails because of the client's certificate."""
    handshakes: dict[TlsServerTransport, None] = field(default_factory=dict)
    """The handshakes in progress, the oldest first."""
    scratch: memoryview = field(default_factory=lambda: memoryview(bytearray(_RECEIVED_BYTES_MAX)))
    """The buffer that all connections receive into. Its bytes are copied out before the next connection receives."""

    def __call__(self) -> TlsServerTransport:
        return TlsServerTransport(self.factory(), self)

    def excess_handshake(self) -> TlsServerTransport:
        """Return the handshake to end: the oldest of the address that has most, so that a flood ends only its own."""
        counts = Counter(transport.host for transport in self.handshakes)
        ((host, _),) = counts.most_common(1)
        return next(transport for transport in self.handshakes if transport.host == host)


class _State(IntEnum):
    HANDSHAKE = 0
    OPEN = 1
    CLOSING = 2
    CLOSED = 3


class TlsServerTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """One TLS connection: the protocol of the TCP transport, and the transport of the protocol inside of TLS."""

    __slots__ = (
        "_has_begun",
        "_incoming",
        "_is_reading",
        "_outer",
        "_outer_is_full",
        "_outgoing",
        "_protocol",
        "_server",
        "_state",
        "_timer",
        "_tls",
        "_waiting",
        "_waiting_bytes",
        "host",
    )

    def __init__(self, protocol: asyncio.BaseProtocol, server: TlsProtocolFactory) -> None:
        super().__init__()
        self._protocol: Any = protocol
        self._server = server
        self._state = _State.HANDSHAKE
        self._has_begun = False
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._outer: asyncio.Transport | None = None
        self._outer_is_full = False
        self._is_reading = True
        self._waiting: deque[memoryview] = deque()  # Not encrypted yet.
        self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self.host = "?"

    # Called by the TCP transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._outer = cast(asyncio.Transport, transport)
        self.host = self._peer().rpartition(":")[0]
        self._protocol.connection_made(self)
        if self._state is not _State.HANDSHAKE:
            return  # The protocol has closed the connection.
        server = self._server
        try:
            self._tls = server.context().wrap_bio(self._incoming, self._outgoing, server_side=True)
        except ssl.SSLError as error:
            self._refuse(f"TLS cannot begin: {error.reason or error}")
            return
        self._timer = server.loop.call_later(HANDSHAKE_SECONDS_MAX, self._took_too_long)
        server.handshakes[self] = None
        if len(server.handshakes) > HANDSHAKES_MAX:
            server.excess_handshake().give_up(f"more than {HANDSHAKES_MAX} TLS handshakes are under way")

    def connection_lost(self, error: Exception | None) -> None:
        self._end_handshake()
        self._state = _State.CLOSED
        self._outer = None
        self._drop_waiting()
        self._protocol.connection_lost(error)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._server.scratch

    def buffer_updated(self, nbytes: int) -> None:
        received = self._server.scratch[:nbytes]
        if self._state is _State.OPEN:
            self._incoming.write(received)
            self._decrypt()
        elif self._state is _State.HANDSHAKE and self._outer is not None:
            if not self._has_begun and received[0] != _HANDSHAKE_RECORD:
                self._refuse(NOT_TLS)
                return
            self._has_begun = True
            self._incoming.write(received)
            self._outer.pause_reading()
            self._server.soon(self._shake_hands)

    def eof_received(self) -> bool:
        """The client sends no more. Returns whether to keep the connection open to send the data that waits."""
        if self._state is _State.OPEN:
            self._protocol.eof_received()
            self.close()
        return bool(self._waiting)

    def pause_writing(self) -> None:
        self._outer_is_full = True

    def resume_writing(self) -> None:
        self._outer_is_full = False
        self._encrypt()
        if self._outer_is_full or self._state is _State.CLOSED:
            return
        if self._state is _State.CLOSING:
            self._send_close_notify()
        else:
            self._protocol.resume_writing()

    # The handshake

    def _shake_hands(self) -> None:
        if self._state is not _State.HANDSHAKE or self._outer is None or self._tls is None:
            return
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            self._outer.resume_reading()
            return
        except ssl.SSLError as error:
            self._send()  # The TLS alert, which tells the client the reason.
            self._refuse(f"the TLS handshake failed: {_reason(error)}")
            if isinstance(error, ssl.SSLCertVerificationError) or error.reason == _NO_CERTIFICATE:
                self._server.certificate_refused(self.host, _reason(error))
            return
        self._end_handshake()
        self._state = _State.OPEN
        self._encrypt()
        self._read_on()

    def _took_too_long(self) -> None:
        self._timer = None
        self.give_up(f"no TLS handshake within {HANDSHAKE_SECONDS_MAX:g} s")

    def give_up(self, reason: str) -> None:
        """End a handshake that is in progress."""
        self._server.refused(self._peer(), reason)
        self.abort()

    def _end_handshake(self) -> None:
        self._server.handshakes.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, reason: str) -> None:
        self._server.refused(self._peer(), reason)
        self._end_handshake()
        self._state = _State.CLOSING
        self._drop_waiting()
        if self._outer is not None:
            self._outer.close()

    def _peer(self) -> str:
        name = self.get_extra_info("peername")
        return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "?"

    # Receiving

    def _decrypt(self) -> None:
        tls, incoming = self._tls, self._incoming
        assert tls is not None
        is_over = False
        while (incoming.pending or tls.pending()) and self._is_reading and self._state is _State.OPEN and not is_over:
            try:
                is_over = self._decrypt_once(tls)
            except ssl.SSLError as error:
                self._send()
                self._refuse(f"what it sends is not the TLS that was agreed on: {_reason(error)}")
                return
        if self._outgoing.pending:  # A response of the TLS layer itself.
            self._send()
        if is_over and self._state is _State.OPEN:
            self._protocol.eof_received()
            self.close()

    def _decrypt_once(self, tls: ssl.SSLObject) -> bool:
        """Decrypt as much as fits into the protocol's buffer. Returns whether the client has sent close_notify."""
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            try:
                data = tls.read(_RECORD_BYTES)
            except ssl.SSLWantReadError:
                return False
            if data:
                protocol.data_received(data)
            return not data
        buffer = memoryview(cast(Any, protocol.get_buffer(-1)))
        room = len(buffer)
        if not room:
            raise RuntimeError("get_buffer() returned an empty buffer")
        # Each read returns one TLS record, and some clients send a record for every few hundred bytes.
        read: Callable[[int, memoryview], int] = cast(Any, tls.read)
        count, size = 0, 1
        try:
            while size and count < room:
                size = read(room - count, buffer[count:])
                count += size
        except ssl.SSLWantReadError:
            pass
        if count:
            protocol.buffer_updated(count)
        return not size

    # Sending

    def _encrypt(self) -> None:
        """Encrypt and send the data that waits, as far as the TCP transport accepts it."""
        tls, waiting = self._tls, self._waiting
        if self._state not in (_State.OPEN, _State.CLOSING) or tls is None:
            return
        try:
            while waiting and not self._outer_is_full:
                part = waiting.popleft()
                size = tls.write(part[:_RECORD_BYTES])
                self._waiting_bytes -= size
                if size < len(part):
                    waiting.appendleft(part[size:])
                if self._outgoing.pending >= _SENT_BYTES:
                    self._send()
        except ssl.SSLError as error:
            self._refuse(f"TLS cannot go on: {_reason(error)}")
            return
        self._send()

    def _send(self) -> None:
        if self._outgoing.pending and self._outer is not None:
            self._outer.write(self._outgoing.read())

    def _send_close_notify(self) -> None:
        """Send close_notify and close the connection, after all data was sent."""
        if self._tls is not None:
            with contextlib.suppress(ssl.SSLError):  # The client's close_notify is not waited for.
                self._tls.unwrap()
            self._send()
        if self._outer is not None:
            self._outer.close()

    def _drop_waiting(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0

    # Called by the protocol inside of TLS

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._tls
        return default if self._outer is None else self._outer.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self._protocol)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._state in (_State.CLOSING, _State.CLOSED)

    def close(self) -> None:
        if self.is_closing():
            return
        was_open = self._state is _State.OPEN
        self._state = _State.CLOSING
        if was_open and not self._waiting:
            self._send_close_notify()
        elif not was_open and self._outer is not None:
            self._outer.close()

    def abort(self) -> None:
        self._end_handshake()
        self._drop_waiting()
        if self._state is not _State.CLOSED:
            self._state = _State.CLOSING
        if self._outer is not None:
            self._outer.abort()

    def is_reading(self) -> bool:
        return self._is_reading and not self.is_closing()

    def pause_reading(self) -> None:
        self._is_reading = False
        if self._outer is not None and not self._outer.is_closing():
            self._outer.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._server.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if self._is_reading and self._state is _State.OPEN:
            self._decrypt()
            if self._is_reading and self._outer is not None and not self._outer.is_closing():
                self._outer.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes + (0 if self._outer is None else self._outer.get_write_buffer_size())

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return (0, 0) if self._outer is None else self._outer.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._outer is not None:
            self._outer.set_write_buffer_limits(high, low)

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: Buffer) -> None:
        if self.is_closing() or not data:
            return
        self._hold(data)
        self._write_on()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        parts = list(list_of_data)
        if self.is_closing():
            return
        if sum(map(len, parts)) <= _JOINED_BYTES_MAX:
            self.write(b"".join(parts))
            return
        for part in parts:
            if part:
                self._hold(part)
        self._write_on()

    def _hold(self, data: Buffer) -> None:
        self._waiting.append(memoryview(data).cast("B"))
        self._waiting_bytes += len(data)

    def _write_on(self) -> None:
        was_full = self._outer_is_full
        self._encrypt()
        if self._outer_is_full and not was_full and not self.is_closing():
            self._protocol.pause_writing()


def _reason(error: ssl.SSLError) -> str:
    """Return OpenSSL's error text without the position in its source code."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()
