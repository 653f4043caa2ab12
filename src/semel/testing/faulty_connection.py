"""The wire between a test's broker and one client, where faults happen.

It is between asyncio's transport and the broker's connection; neither notices it. It reads the first fields of each
request, and passes the request on, holds it, drops it or answers it in the broker's place; bytes from the broker are
split into responses. The law: a client receives responses in the order of its requests, also when some of them are not
the broker's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, cast

from semel.net.network import Listener, Network, ProtocolFactory
from semel.net.tls_server import TlsProtocolFactory
from semel.testing.faults import DELAY, DROP_NEXT, DROP_REQUEST, DROP_RESPONSE, FAIL, HOLD, Fault, Faults
from semel.testing.refusals import refusal
from semel.testing.virtual.frames import FrameSplitter
from semel.wire.codec import request_decoder
from semel.wire.framing import SIZE_PREFIX_BYTES, decode_request_header, encode_response

# Size, API key, version, correlation id.
_HEAD_BYTES: Final = 12
_FRAME_BYTES_MAX: Final = 256 * 1024 * 1024


class FaultyNetwork:
    """A network whose listeners put a ``FaultyConnection`` before each connection that they accept, inside of TLS."""

    def __init__(self, network: Network, faults: Faults) -> None:
        self._network = network
        self._faults = faults

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        inner = factory.factory if isinstance(factory, TlsProtocolFactory) else factory

        def faulty() -> FaultyConnection:
            return FaultyConnection(inner, self._faults)

        outer = replace(factory, factory=faulty) if isinstance(factory, TlsProtocolFactory) else faulty
        return await self._network.listen(host, port, outer)

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        return await self._network.connect(host, port, factory)


class _Place:
    """The place of one request in the order of responses."""

    __slots__ = ("answer", "correlation_id", "fault")

    def __init__(self, correlation_id: int, *, fault: Fault | None = None, answer: bytes | None = None) -> None:
        self.correlation_id = correlation_id
        self.fault = fault
        """A DROP_RESPONSE fault, for the response of this request, or a DROP_NEXT fault, for the request after it."""
        self.answer = answer
        """A response that is sent in the broker's place."""


class FaultyConnection(asyncio.Protocol):
    """The protocol that asyncio calls in place of the broker's connection.

    Bytes are passed on as they arrive, whether or not a frame is complete. Only a request that is refused here is
    collected until it is complete.
    """

    def __init__(self, factory: ProtocolFactory, faults: Faults) -> None:
        self._inner = cast(asyncio.BufferedProtocol, factory())
        self._faults = faults
        self._transport: asyncio.Transport | None = None
        self._head = bytearray()
        """The first bytes of a request, up to its correlation id."""
        self._head_passed = 0
        self._left = 0
        """The number of bytes of the current request that have not arrived yet."""
        self._refused: tuple[Fault, bytearray] | None = None
        self._is_framed = True
        self._held = bytearray()
        self._is_holding = False
        self._holding_timer: asyncio.TimerHandle | None = None
        self._unread = bytearray()
        """Bytes that arrived although the broker has paused reading, because asyncio had already received them."""
        self._paused = False
        self._places: deque[_Place] = deque()
        self._number = next(faults.connections)
        self._observer = faults.observer
        self._requests = FrameSplitter()
        """Splits the received bytes for the observer, which receives complete requests."""

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._observer is not None:
            self._observer.opened(self._number, _peer_of(self._transport))
        self._inner.connection_made(_BrokerTransport(self._transport, self))

    def connection_lost(self, error: Exception | None) -> None:
        if self._holding_timer is not None:
            self._holding_timer.cancel()
        self._transport = None
        if self._observer is not None:
            self._observer.closed(self._number)
        self._inner.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        if self._observer is not None:
            for frame in self._requests.feed(data):
                self._observer.requested(self._number, frame)
        if self._is_holding:
            self._held += data
        else:
            self._read(memoryview(data))

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    # Requests.

    def _read(self, data: memoryview) -> None:
        while data:
            if self._is_holding:
                self._held += data
                return
            if not self._is_framed:
                self._pass_on(data)
                return
            data = self._read_body(data) if self._left else self._read_head(data)

    def _read_body(self, data: memoryview) -> memoryview:
        part, rest = data[: self._left], data[self._left :]
        self._left -= len(part)
        if self._refused is None:
            self._pass_on(part)
            return rest
        fault, frame = self._refused
        frame += part
        if not self._left:
            self._refuse(fault, frame)
        return rest

    def _read_head(self, data: memoryview) -> memoryview:
        missing = _HEAD_BYTES - len(self._head)
        self._head += data[:missing]
        if len(self._head) >= SIZE_PREFIX_BYTES:
            size = int.from_bytes(self._head[:SIZE_PREFIX_BYTES], "big", signed=True)
            if not _HEAD_BYTES - SIZE_PREFIX_BYTES <= size <= _FRAME_BYTES_MAX:
                self._is_framed = False  # The broker decides what to do with an impossible size.
                self._pass_head_on()
                return data[missing:]
        if len(self._head) == _HEAD_BYTES:
            self._left = size + SIZE_PREFIX_BYTES - _HEAD_BYTES
            self._begin()
        elif not self._faults.armed:
            self._pass_head_on()
        return data[missing:]

    def _begin(self) -> None:
        """Decide, when the head of a request is complete, whether to pass the request on or to apply a fault to it."""
        head, correlation_id = self._head, int.from_bytes(self._head[8:12], "big", signed=True)
        key = int.from_bytes(head[4:6], "big", signed=True)
        if self._faults.watcher is not None:
            self._faults.watcher(key)
        # A request is not faulted if the broker has received its first bytes already.
        fault = None if self._head_passed else self._faults.take(key)
        if fault is not None and (fault.kind == DROP_REQUEST or (fault.kind == DROP_NEXT and fault.hits)):
            if self._observer is not None:
                self._observer.request_lost(self._number, correlation_id)
            self._call_then(fault)
            self._cut()
        elif fault is not None and fault.kind == FAIL:
            self._refused, self._head = (fault, head), bytearray()
            if not self._left:
                self._refuse(fault, head)
        elif fault is not None and fault.kind == DELAY:
            self._hold(correlation_id)
            self._holding_timer = asyncio.get_running_loop().call_later(fault.seconds, self._held_long_enough)
        elif fault is not None and fault.kind == HOLD:
            self._hold(correlation_id)
            self._call_then(fault)
            loop = asyncio.get_running_loop()
            fault.held(lambda: loop.call_soon_threadsafe(self._held_long_enough))
        else:
            self._places.append(_Place(correlation_id, fault=fault))
            self._pass_head_on()
            self._head, self._head_passed = bytearray(), 0

    def _call_then(self, fault: Fault) -> None:
        if fault.then is not None:
            fault.then()

    def _hold(self, correlation_id: int) -> None:
        self._is_holding = True
        if self._observer is not None:
            self._observer.request_held(self._number, correlation_id)

    def _held_long_enough(self) -> None:
        self._is_holding, self._holding_timer = False, None
        correlation_id = int.from_bytes(self._head[8:12], "big", signed=True)
        if self._observer is not None and self._transport is not None:
            self._observer.request_released(self._number, correlation_id)
        self._places.append(_Place(correlation_id))
        self._pass_head_on()
        self._head, self._head_passed = bytearray(), 0
        held, self._held = self._held, bytearray()
        self._read(memoryview(held))

    def _refuse(self, fault: Fault, frame: bytearray) -> None:
        self._refused = None
        self._places.append(_Place(0, answer=_refusal_of(frame, fault)))
        self._send_ready()

    def _pass_head_on(self) -> None:
        new = memoryview(bytes(self._head))[self._head_passed :]
        self._head_passed = len(self._head)
        self._pass_on(new)

    def _pass_on(self, data: memoryview) -> None:
        while data and self._transport is not None and not self._transport.is_closing():
            if self._paused:
                self._unread += data
                return
            buffer = memoryview(cast(Any, self._inner.get_buffer(len(data))))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            self._inner.buffer_updated(size)
            data = data[size:]

    def pause_reading(self) -> None:
        self._paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        unread, self._unread = self._unread, bytearray()
        self._pass_on(memoryview(unread))
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # Answers.

    def answer(self, frame: bytes) -> None:
        """Handle a response that the broker has written. Responses come in the order of the requests."""
        correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        self._send_ready()
        while self._places and self._places[0].correlation_id != correlation_id:
            self._places.popleft()  # The request has no response (acks=0).
            self._send_ready()
        fault = self._places.popleft().fault if self._places else None
        if fault is not None and fault.kind == DROP_RESPONSE:
            if self._observer is not None:
                self._observer.answer_lost(self._number, frame)
            self._call_then(fault)
            self._cut()
            return
        self._write(frame)
        if fault is not None:
            self._faults.follow(fault)
        self._send_ready()

    def _send_ready(self) -> None:
        """Send the responses that are given in the broker's place, as far as all earlier ones have been sent."""
        while self._places and (answer := self._places[0].answer) is not None:
            self._places.popleft()
            self._write(answer)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            if self._observer is not None:
                self._observer.answered(self._number, data)
            self._transport.write(data)

    def _cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _BrokerTransport(asyncio.Transport):
    """The transport as the broker sees it."""

    def __init__(self, transport: asyncio.Transport, wire: FaultyConnection) -> None:
        super().__init__()
        self._transport = transport
        self._wire = wire
        self._answers = FrameSplitter()

    def write(self, data: Any) -> None:
        for frame in self._answers.feed(bytes(data)):
            self._wire.answer(frame)

    def writelines(self, parts: Iterable[Any]) -> None:
        self.write(b"".join(parts))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def pause_reading(self) -> None:
        self._wire.pause_reading()

    def resume_reading(self) -> None:
        self._wire.resume_reading()

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)


def _peer_of(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "?"


def _refusal_of(frame: bytearray, fault: Fault) -> bytes:
    body = memoryview(bytes(frame))[SIZE_PREFIX_BYTES:]
    header, position = decode_request_header(body)
    decode: Callable[..., object] = request_decoder(fault.api.request_class, header.api_version)
    response = refusal(fault.api, header.api_version, decode(body, position), fault.code)
    return bytes(encode_response(header.correlation_id, fault.api, header.api_version, response))
