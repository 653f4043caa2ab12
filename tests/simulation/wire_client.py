"""A client that is as small as a client can be: one connection, requests in a row, futures for the answers.

It decides nothing. What to do about a lost connection or a late answer is up to the workload that uses it.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from semel.errors import ErrorCode
from semel.net.network import Network
from semel.wire.apis import APIS, ApiKey
from semel.wire.codec import decode
from semel.wire.framing import decode_response_header, encode_request
from semel.wire.messages.find_coordinator import FindCoordinatorRequest


class WireClient:
    def __init__(
        self, network: Network, host: str, port: int, *, timeout_s: float = 2.0, client_id: str = "simulated"
    ) -> None:
        self._network = network
        self._host = host
        self._port = port
        self._timeout_s = timeout_s
        self._client_id = client_id
        self._connection: _Connection | None = None
        self._others: dict[tuple[str, int], WireClient] = {}

    def to(self, host: str, port: int) -> WireClient:
        """The client of that broker: this one, if it is the broker that it asks, or one that is closed with it."""
        if (host, port) == (self._host, self._port):
            return self
        if (host, port) not in self._others:
            self._others[host, port] = WireClient(self._network, host, port, timeout_s=self._timeout_s)
        return self._others[host, port]

    async def call(self, key: ApiKey, version: int, message: object) -> Any:
        """Send a request and return the answer. Raises ConnectionError or TimeoutError; the connection is gone then."""
        answer = await self.send(key, version, message)
        return await self.answer(answer)

    async def send(self, key: ApiKey, version: int, message: object) -> asyncio.Future[Any]:
        """Put a request on the wire. Those sent before the first answer arrive in this order."""
        if self._connection is None or self._connection.lost:
            _, protocol = await self._network.connect(self._host, self._port, lambda: _Connection(self._client_id))
            self._connection = cast(_Connection, protocol)
        return self._connection.send(key, version, message)

    async def answer(self, future: asyncio.Future[Any]) -> Any:
        try:
            return await asyncio.wait_for(future, self._timeout_s)
        except TimeoutError:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        for other in self._others.values():
            other.close()


class _Connection(asyncio.Protocol):
    def __init__(self, client_id: str) -> None:
        self.lost = False
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiting: dict[int, tuple[ApiKey, int, asyncio.Future[Any]]] = {}
        self._correlation_id = 0

    def send(self, key: ApiKey, version: int, message: object) -> asyncio.Future[Any]:
        self._correlation_id += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[self._correlation_id] = key, version, future
        assert self._transport is not None
        self._transport.write(
            encode_request(self._correlation_id, APIS[key], version, message, client_id=self._client_id)
        )
        return future

    def close(self) -> None:
        self.connection_lost(None)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        waiting, self._waiting = self._waiting, {}
        for _, _, future in waiting.values():
            if not future.done():
                future.set_exception(ConnectionError("the connection was lost"))
                future.exception()  # It may be that nobody waits for it any more.

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            size = int.from_bytes(self._received[:4], "big")
            if len(self._received) < 4 + size:
                return
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            self._answered(frame)

    def _answered(self, frame: bytes) -> None:
        entry = self._waiting.pop(int.from_bytes(frame[:4], "big"), None)
        if entry is None:
            return  # A repeated answer.
        key, version, future = entry
        _, position = decode_response_header(frame, APIS[key], version)
        if not future.done():
            future.set_result(decode(APIS[key].response_class, frame, version, position))


async def find_group_coordinator(client: WireClient, group: str) -> WireClient:
    """A client of the group's coordinator, as any broker names it. The first to ask for it has its topic made."""
    found = await client.call(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=group, key_type=0))
    return client.to(found.host, found.port) if found.error_code == ErrorCode.NONE else client
