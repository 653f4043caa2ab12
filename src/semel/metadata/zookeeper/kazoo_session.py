"""A session with a real ZooKeeper, through kazoo: its threads talk to the servers, and results go to the event loop.

kazoo keeps the session alive, connects again, and begins a new session when one has expired. It does not repeat
requests: a request on a connection that is lost raises ``ConnectionLost``.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, assert_never

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError

from semel.errors import StorageError
from semel.metadata.zookeeper.session import (
    ConnectionLost,
    Create,
    Exists,
    Node,
    Refused,
    Remove,
    SessionState,
    SetData,
    Write,
)

_LOST: Final = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, OperationTimeoutError, KazooTimeoutError)
_REFUSED: Final = (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError)
_STATES: Final = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}
_ANY_VERSION: Final = -1
# By default kazoo's pauses double up to an hour: after a long outage of ZooKeeper the brokers would stay disconnected
# for as long again.
_RECONNECT: Final = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 2.0}


class KazooSession:
    """A ``ZooKeeperSession``. ``connect`` is ``zookeeper.connect``: ``host:port,host:port/chroot``."""

    def __init__(self, connect: str, *, timeout_s: float) -> None:
        self._connect = connect
        self._client = KazooClient(connect, timeout=timeout_s, connection_retry=_RECONNECT)
        self._loop = asyncio.get_running_loop()
        self._state_watches: list[Callable[[SessionState], None]] = []
        # One object for each callback. kazoo keeps the watches of a path in a set until they go off, and those on the
        # brokers may not go off for weeks: with an object for each read, they would be as many as there were reads.
        self._watches: dict[Callable[[], None], Callable[[object], None]] = {}
        self._client.add_listener(self._state_changed)

    @property
    def session_id(self) -> int:
        known = self._client.client_id
        return 0 if known is None else int(known[0])

    async def start(self, *, timeout_s: float) -> None:
        """Return when there is a session. Raises StorageError if there is none in time."""

        def begin() -> None:
            if not self._client.start_async().wait(timeout_s):
                raise KazooTimeoutError(f"no connection within {timeout_s:g} s")
            self._client.ensure_path("/")  # The chroot.

        try:
            await asyncio.to_thread(begin)
        except (KazooException, KazooTimeoutError, OSError) as error:
            await self.close()
            raise StorageError(f"zookeeper.connect={self._connect}: no ZooKeeper answers there: {error}") from None

    async def get(self, path: str, watch: Callable[[], None] | None = None) -> Node | None:
        while True:
            try:
                data, stat = await self._told(self._client.get_async(path, self._on_loop(watch)))
                return Node(data, stat.version, stat.mzxid, stat.ephemeralOwner)
            except NoNodeError:
                if watch is None:
                    return None
            # Reading a node that does not exist sets no watch.
            if await self._told(self._client.exists_async(path, self._on_loop(watch))) is None:
                return None

    async def children(self, path: str, watch: Callable[[], None] | None = None) -> list[str]:
        try:
            names: list[str] = await self._told(self._client.get_children_async(path, self._on_loop(watch)))
        except NoNodeError:
            return []
        return sorted(names)

    async def create(self, path: str, data: bytes) -> None:
        try:
            await self._told(self._client.create_async(path, data))
        except _REFUSED as error:
            raise Refused(f"{path}: {type(error).__name__}") from None

    async def write(self, writes: Sequence[Write]) -> int:
        transaction = self._client.transaction()
        for write in writes:
            match write:
                case Create(path, data, ephemeral):
                    transaction.create(path, data, ephemeral=ephemeral)
                case SetData(path, data, version):
                    transaction.set_data(path, data, _ANY_VERSION if version is None else version)
                case Remove(path, version):
                    transaction.delete(path, _ANY_VERSION if version is None else version)
                case Exists(path):
                    transaction.check(path, _ANY_VERSION)
                case _:
                    assert_never(write)
        results = await self._told(transaction.commit_async())
        for write, result in zip(writes, results, strict=True):
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise Refused(f"{write.path}: {type(result).__name__}")
        first = results[0]
        return int(first.mzxid)

    async def sync(self) -> None:
        await self._told(self._client.sync_async("/"))

    def on_state(self, changed: Callable[[SessionState], None]) -> None:
        self._state_watches.append(changed)

    async def close(self) -> None:
        def end() -> None:
            self._client.stop()
            self._client.close()

        await asyncio.to_thread(end)

    def abandon(self) -> None:
        threading.Thread(target=self._client.stop, name="semel-zookeeper-stop", daemon=True).start()

    # Inside

    async def _told(self, asked: Any) -> Any:
        """Return the result of kazoo's future ``asked``.

        Errors of the connection are raised as ConnectionLost, those that the methods above handle as they are, and
        others as StorageError.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()

        def settled(result: Any) -> None:  # Called in a thread of kazoo.
            with contextlib.suppress(RuntimeError):  # The loop is closed: nothing waits for it.
                self._loop.call_soon_threadsafe(settle, result)

        def settle(result: Any) -> None:
            if answer.done():
                return
            if result.exception is None:
                answer.set_result(result.value)
            else:
                answer.set_exception(result.exception)

        asked.rawlink(settled)
        try:
            return await answer
        except _LOST as error:
            raise ConnectionLost(f"{self._connect}: {type(error).__name__}") from None
        except _REFUSED:
            raise
        except KazooException as error:
            raise StorageError(f"ZooKeeper at {self._connect} refused a request: {type(error).__name__}") from None

    def _on_loop(self, watch: Callable[[], None] | None) -> Callable[[object], None] | None:
        if watch is None:
            return None

        def went_off(event: object) -> None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(watch)

        return self._watches.setdefault(watch, went_off)

    def _state_changed(self, state: str) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell, _STATES[state])

    def _tell(self, state: SessionState) -> None:
        for changed in self._state_watches:
            changed(state)
