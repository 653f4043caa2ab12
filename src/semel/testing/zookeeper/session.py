"""A session with the model of ZooKeeper. It reconnects when its connection is lost; an expired session is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, cast

from semel.metadata.zookeeper.session import ConnectionLost, Create, Node, Refused, SessionState, Write
from semel.net.network import Network
from semel.testing.zookeeper.framing import ReceivedMessages, framed
from semel.testing.zookeeper.server import PORT


class ModelSession:
    """A ``ZooKeeperSession`` with the model. It tries the ``servers`` in turn."""

    def __init__(self, network: Network, servers: Sequence[str], *, timeout_s: float = 6.0) -> None:
        self._network = network
        self._servers = itertools.cycle(servers)
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._watches: dict[int, Callable[[], None]] = {}
        self._state_watches: list[Callable[[SessionState], None]] = []
        self._connection: _ClientConnection | None = None
        self._is_ready = False
        self._lost = asyncio.Event()
        self._seen_zxid = 0
        self._keeping: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] = self._loop.create_future()
        self._is_closed = False
        self.session_id = 0

    async def start(self) -> None:
        """Connect to a server. Returns when the session is open."""
        self._keeping = self._loop.create_task(self._keep())
        await self._first

    async def get(self, path: str, watch: Callable[[], None] | None = None) -> Node | None:
        node: Node | None = await self._ask("get", path, watch is not None, watch=watch)
        return node

    async def children(self, path: str, watch: Callable[[], None] | None = None) -> list[str]:
        names: list[str] = await self._ask("children", path, watch is not None, watch=watch)
        return names

    async def create(self, path: str, data: bytes) -> None:
        await self._ask("write", [Create(path, data)])

    async def write(self, writes: Sequence[Write]) -> int:
        zxid: int = await self._ask("write", list(writes))
        return zxid

    async def sync(self) -> None:
        await self._ask("sync")

    def on_state(self, changed: Callable[[SessionState], None]) -> None:
        self._state_watches.append(changed)

    async def close(self) -> None:
        self._is_closed = True
        if self._is_ready:
            with contextlib.suppress(ConnectionLost):  # Without an answer the session expires later.
                await self._ask("close")
        self.abandon()

    def abandon(self) -> None:
        """Close the connection without closing the session, as when a process dies: the session expires later."""
        self._is_closed = True
        if self._keeping is not None:
            self._keeping.cancel()
        if self._connection is not None:
            self._connection.abort()

    # Private

    async def _ask(self, call: str, *arguments: Any, watch: Callable[[], None] | None = None) -> Any:
        if not self._is_ready:
            raise ConnectionLost("there is no connection to ZooKeeper")
        number = next(self._numbers)
        if watch is not None:
            self._watches[number] = watch
        result, zxid = await self._sent(number, call, arguments)
        self._seen_zxid = max(self._seen_zxid, zxid)
        return result

    async def _sent(self, number: int, call: str, arguments: tuple[Any, ...]) -> Any:
        assert self._connection is not None
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._pending[number] = answer
        self._connection.send((number, call, arguments))
        try:
            return await answer
        finally:
            self._pending.pop(number, None)

    async def _keep(self) -> None:
        while True:
            try:
                await self._connect()
                while await self._is_still_connected():
                    async with asyncio.timeout(self._timeout_s / 3):
                        is_alive = await self._ask("ping")
                    if not is_alive:
                        break
            except (ConnectionLost, OSError, TimeoutError):
                pass
            self._disconnected("there is no connection to ZooKeeper")
            await asyncio.sleep(0.05)

    async def _is_still_connected(self) -> bool:
        """Wait until the next ping is due or the connection is lost. Return whether it is still connected."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeout_s / 3):
                await self._lost.wait()
        return self._is_ready

    async def _connect(self) -> None:
        async with asyncio.timeout(self._timeout_s):
            _, protocol = await self._network.connect(next(self._servers), PORT, lambda: _ClientConnection(self))
            self._connection = cast(_ClientConnection, protocol)
            asked = (self.session_id, self._timeout_s, self._seen_zxid)
            session_id, _ = await self._sent(next(self._numbers), "connect", asked)
            if session_id == 0:
                self.session_id = 0
                self._tell(SessionState.LOST)
                asked = (0, self._timeout_s, self._seen_zxid)
                session_id, _ = await self._sent(next(self._numbers), "connect", asked)
        self.session_id = session_id
        self._is_ready = True
        self._lost.clear()
        if not self._first.done():
            self._first.set_result(None)
        self._tell(SessionState.CONNECTED)

    def received(self, message: tuple[int, str, Any]) -> None:
        number, kind, result = message
        if kind == "watch":
            watch = self._watches.pop(number, None)
            if watch is not None:
                watch()
            return
        answer = self._pending.get(number)
        if answer is not None and not answer.done():
            if kind == "refused":
                answer.set_exception(Refused(result))
            else:
                answer.set_result(result)

    def lost(self, connection: _ClientConnection) -> None:
        if connection is self._connection:
            self._disconnected("the connection to ZooKeeper was lost")

    def _disconnected(self, reason: str) -> None:
        was_ready, self._is_ready = self._is_ready, False
        self._lost.set()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        self._watches.clear()
        for answer in list(self._pending.values()):
            if not answer.done():
                answer.set_exception(ConnectionLost(reason))
        if was_ready and not self._is_closed:
            self._tell(SessionState.SUSPENDED)

    def _tell(self, state: SessionState) -> None:
        for changed in self._state_watches:
            changed(state)


class _ClientConnection(asyncio.Protocol):
    def __init__(self, session: ModelSession) -> None:
        self._session = session
        self._received = ReceivedMessages()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._session.lost(self)

    def data_received(self, data: bytes) -> None:
        for message in self._received.feed(data):
            self._session.received(message)

    def send(self, message: object) -> None:
        if self._transport is not None:
            self._transport.write(framed(message))

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
