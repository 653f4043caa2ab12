"""One server of the model: it applies agreed transactions a little later, and answers reads from its own state.

Requests of one connection are served in order, and a write is answered once this server has applied it, so that a
session reads its own writes. A server that is cut off from the others answers reads from its old state, and all other
requests wait; meanwhile the leader receives nothing from its sessions.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from random import Random
from typing import Any, Final, cast

from semel.metadata.zookeeper.session import Refused, Write
from semel.net.network import Listener
from semel.testing.virtual.network import VirtualNetwork
from semel.testing.zookeeper.ensemble import Ensemble, Transaction, Tree
from semel.testing.zookeeper.framing import ReceivedMessages, framed

PORT: Final = 2181


class ModelServer:
    def __init__(self, name: str, network: VirtualNetwork, ensemble: Ensemble, random: Random, *, lag_s: float) -> None:
        self.name = name
        self._network = network.host(name)
        self._ensemble = ensemble
        self._random = random
        self._lag_s = lag_s
        self._loop = asyncio.get_running_loop()
        self._listener: Listener | None = None
        self._behind: deque[Transaction] = deque()
        self._is_cut_off = False
        self._reached: asyncio.Future[None] = self._loop.create_future()
        self.connections: dict[ServedConnection, None] = {}
        self.tree = Tree()
        ensemble.agreed.append(self._agreed)

    async def start(self) -> None:
        self._listener = await self._network.listen(self.name, PORT, lambda: ServedConnection(self, self._ensemble))

    async def serve(self, connection: socket.socket) -> ServedConnection:
        """Serve the session of another process, which has the other end of this connected socket."""
        loop = asyncio.get_running_loop()
        _, served = await loop.connect_accepted_socket(lambda: ServedConnection(self, self._ensemble), connection)
        return served

    def stop(self) -> None:
        """Stop this server; the ensemble continues without it."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in list(self.connections):
            connection.abort()

    def expire(self, session_id: int) -> None:
        """End a session and close its connection, as a server does when the session has timed out."""
        self._ensemble.expire(session_id)
        for connection in list(self.connections):
            if connection.session_id == session_id:
                connection.abort()

    def cut_off(self) -> None:
        """Receive nothing from the other servers until ``rejoin``."""
        self._is_cut_off = True

    def rejoin(self) -> None:
        self._is_cut_off = False
        self._move()

    async def in_touch(self, zxid: int = 0) -> None:
        """Wait until this server is connected to the others and has applied all transactions up to ``zxid``."""
        while self._is_cut_off or self.tree.zxid < zxid:
            await asyncio.shield(self._reached)

    def _agreed(self, transaction: Transaction) -> None:
        self._behind.append(transaction)
        self._loop.call_later(self._random.random() * self._lag_s, self._move)

    def _move(self) -> None:
        """Apply the next transaction, and schedule the one after it. Does nothing while the server is cut off."""
        if self._is_cut_off:
            return
        if self._behind:
            transaction = self._behind.popleft()
            children_before = {path: path in self.tree.nodes for path, _ in transaction.changes}
            self.tree.carry_out(transaction)
            for connection in list(self.connections):
                connection.changed(transaction, children_before)
        if self._behind:
            self._loop.call_soon(self._move)
        reached, self._reached = self._reached, self._loop.create_future()
        reached.set_result(None)


class ServedConnection(asyncio.Protocol):
    """One session's connection, as the server has it."""

    def __init__(self, server: ModelServer, ensemble: Ensemble) -> None:
        self._server = server
        self._ensemble = ensemble
        self._received = ReceivedMessages()
        self._requests: asyncio.Queue[tuple[int, str, tuple[Any, ...]]] = asyncio.Queue()
        self._transport: asyncio.Transport | None = None
        self._serving: asyncio.Task[None] | None = None
        self.session_id = 0
        self._data_watches: dict[str, set[int]] = {}
        self._child_watches: dict[str, set[int]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.connections[self] = None
        self._serving = asyncio.get_running_loop().create_task(self._serve())

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connections.pop(self, None)
        if self._serving is not None:
            self._serving.cancel()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        for message in self._received.feed(data):
            self._requests.put_nowait(message)

    def changed(self, transaction: Transaction, existed: dict[str, bool]) -> None:
        """Send the watch events of a transaction, before the results of any later read."""
        for path, node in transaction.changes:
            fired = self._data_watches.pop(path, set())
            if existed[path] != (node is not None):
                fired |= self._child_watches.pop(path.rpartition("/")[0] or "/", set())
            for watch in sorted(fired):
                self._send((watch, "watch", None))

    async def _serve(self) -> None:
        while True:
            number, call, arguments = await self._requests.get()
            try:
                result: Any = await self._answer(number, call, arguments)
            except Refused as error:
                self._send((number, "refused", str(error)))
            else:
                self._send((number, "ok", result))

    async def _answer(self, number: int, call: str, arguments: tuple[Any, ...]) -> Any:
        server, ensemble = self._server, self._ensemble
        match call:
            case "connect":
                session_id, timeout_s, seen_zxid = arguments
                if server.tree.zxid < seen_zxid:
                    self.abort()  # This server's state is older than the state that the session has seen.
                    return None
                await server.in_touch()
                self.session_id = session_id if ensemble.is_alive(session_id) else 0
                if session_id == 0:
                    self.session_id = ensemble.open_session(timeout_s)
                ensemble.heard_from(self.session_id)
                return self.session_id, server.tree.zxid
            case "ping":
                await server.in_touch()
                ensemble.heard_from(self.session_id)
                return ensemble.is_alive(self.session_id), server.tree.zxid
            case "get":
                path, is_watched = arguments
                if is_watched:
                    self._data_watches.setdefault(path, set()).add(number)
                return server.tree.nodes.get(path), server.tree.zxid
            case "children":
                path, is_watched = arguments
                if is_watched:
                    self._child_watches.setdefault(path, set()).add(number)
                return server.tree.children(path), server.tree.zxid
            case "write":
                # The write may be applied after its connection is lost, and after its session reads at another server.
                written = await asyncio.shield(self._written(arguments[0]))
                if isinstance(written, Refused):
                    raise written
                return written
            case "sync":
                await server.in_touch(ensemble.zxid)
                return None, server.tree.zxid
            case "close":
                ensemble.expire(self.session_id)
                return None, server.tree.zxid
        raise AssertionError(f"no such call: {call}")

    async def _written(self, writes: list[Write]) -> tuple[int, int] | Refused:
        await self._server.in_touch()
        try:
            zxid = self._ensemble.write(self.session_id, writes)
        except Refused as refused:
            return refused
        await self._server.in_touch(zxid)
        return zxid, self._server.tree.zxid

    def _send(self, message: object) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(framed(message))
