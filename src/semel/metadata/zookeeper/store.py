"""A ``MetadataStore`` in ZooKeeper. docs/design/zookeeper-store.md has the reasons for each step.

The law: the tree in memory is the state of ZooKeeper at one number of ``/sequence``, and moves only from one such state
to a later one. Every commit expects that number, so a commit that was decided with an old tree is refused. The tree,
and the writes of a commit, are in ``znode_tree.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from semel.errors import StorageError
from semel.metadata.store import Check, Operation, Put, Versioned
from semel.metadata.zookeeper.sequence import History
from semel.metadata.zookeeper.session import (
    ConnectionLost,
    Refused,
    SessionState,
    SetData,
    Write,
    ZooKeeperSession,
)
from semel.metadata.zookeeper.znode_tree import AUTHORS, NOT_METADATA, SEQUENCE, ZnodeTree, write_size_bytes

logger = logging.getLogger("semel.metadata")

T = TypeVar("T")

COMMIT_TIMEOUT_S: Final = 30.0
REQUEST_BYTES_MAX: Final = 1_000_000
"""The limit of a request. By default ZooKeeper closes the connection if a request has more than 1 MB."""

# Every refusal means that another commit succeeded; this many in a row mean that something is wrong.
_ATTEMPTS_MAX: Final = 100
# How many reads are in progress at a time when everything is read.
_READS_AT_ONCE: Final = 200
# The pause before the next attempt after a lost connection: the report of the session's state may come later.
_PAUSE_S: Final = 0.05
# The pause after a read that ZooKeeper has refused.
_REFUSED_PAUSE_S: Final = 1.0


class ZooKeeperStore:
    """A ``MetadataStore`` in ZooKeeper. ``ephemeral_folders`` are the folders of the ephemeral values.

    ``author`` is the name of the broker, ``incarnation`` that of this process: no other process ever has the same.
    """

    commit_bytes_max: int | None = REQUEST_BYTES_MAX // 2

    def __init__(
        self,
        session: ZooKeeperSession,
        *,
        author: str,
        incarnation: str,
        ephemeral_folders: Sequence[str],
        commit_timeout_s: float = COMMIT_TIMEOUT_S,
    ) -> None:
        self._session = session
        self._author_path = f"{AUTHORS}/{author}"
        self._incarnation = incarnation
        self._ephemeral_folders = tuple(ephemeral_folders)
        self._commit_timeout_s = commit_timeout_s
        self._marks = itertools.count(1)
        self._tree = ZnodeTree()
        self._number = -1
        self._history = History()
        self._unknown: int | None = None
        """The number over which the last commit was sent whose outcome is not known; ``None`` if it is known."""
        self._turn = asyncio.Lock()
        self._connected = asyncio.Event()
        self._connected.set()
        self._following: asyncio.Task[None] | None = None
        self._watches: dict[object, tuple[str, Callable[[str], None]]] = {}
        self._state_watches: list[Callable[[SessionState], None]] = []
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        session: ZooKeeperSession,
        *,
        author: str,
        incarnation: str,
        ephemeral_folders: Sequence[str],
        commit_timeout_s: float = COMMIT_TIMEOUT_S,
    ) -> ZooKeeperStore:
        """Read everything, or begin an empty store. Raises StorageError if ZooKeeper does not answer in time."""
        store = cls(
            session,
            author=author,
            incarnation=incarnation,
            ephemeral_folders=ephemeral_folders,
            commit_timeout_s=commit_timeout_s,
        )
        session.on_state(store._session_changed)
        try:
            async with asyncio.timeout(commit_timeout_s), store._turn:
                await store._retry_on_connection_loss(store._found)
                await store._retry_on_connection_loss(store._take_over)
        except TimeoutError:
            raise StorageError(f"ZooKeeper did not answer within {commit_timeout_s:g} s") from None
        return store

    # Reading

    async def get(self, path: str) -> Versioned | None:
        return self._tree.get(path)

    async def children(self, path: str) -> list[str]:
        return self._tree.children(path)

    async def refresh(self) -> None:
        try:
            async with asyncio.timeout(self._commit_timeout_s), self._turn:
                self._check_is_open()
                await self._refresh()
                await self._retry_on_connection_loss(self._use_up_unknown)
        except TimeoutError:
            raise StorageError(f"ZooKeeper did not answer within {self._commit_timeout_s:g} s") from None

    def watch(self, prefix: str, changed: Callable[[str], None]) -> Callable[[], None]:
        key = object()
        self._watches[key] = (prefix.rstrip("/"), changed)

        def stop() -> None:
            self._watches.pop(key, None)

        return stop

    def watch_session(self, changed: Callable[[SessionState], None]) -> None:
        """Call ``changed`` with every state of the session. Ephemeral values have to be put again after LOST."""
        self._state_watches.append(changed)

    # Writing

    async def commit(self, operations: Sequence[Operation]) -> list[int | None]:
        assert len({operation.path for operation in operations}) == len(operations), f"a path twice in {operations}"
        has_begun = False
        try:
            async with asyncio.timeout(self._commit_timeout_s), self._turn:
                self._check_is_open()
                has_begun = True
                return await self._commit(operations)
        except TimeoutError:
            outcome = "whether this change was kept is not known" if has_begun else "nothing was changed"
            raise StorageError(f"ZooKeeper did not answer within {self._commit_timeout_s:g} s; {outcome}") from None

    async def close(self) -> None:
        async with self._turn:
            self._let_go()
            await self._session.close()

    def abandon(self) -> None:
        """Stop without ending the session, as a process that dies does: it expires some time later."""
        self._let_go()
        self._session.abandon()

    def _let_go(self) -> None:
        self._is_closed = True
        self._connected.set()  # Calls that wait for a connection continue, and find that the store is closed.
        if self._following is not None:
            self._following.cancel()

    # A commit

    async def _commit(self, operations: Sequence[Operation]) -> list[int | None]:
        is_fresh = False
        for _ in range(_ATTEMPTS_MAX):
            conflict = self._tree.conflict(operations)
            only_checks = all(isinstance(operation, Check) for operation in operations)
            if (conflict is not None or only_checks) and not is_fresh:
                await self._refresh()
                is_fresh = True
                continue
            if conflict is not None:
                raise conflict
            if only_checks:
                return [None] * len(operations)
            if await self._is_written(operations):
                return [
                    self._tree.version_of(operation) if isinstance(operation, Put) else None for operation in operations
                ]
            is_fresh = True
        raise StorageError(f"{_ATTEMPTS_MAX} commits of others came first; nothing was changed")

    async def _is_written(self, operations: Sequence[Operation]) -> bool:
        """Write the operations, and return whether they were written.

        If not, they never will be, and the tree has the commit that came first.
        """
        number, mark = self._number, f"{self._incarnation}/{next(self._marks)}"
        paths = tuple(operation.path for operation in operations if not isinstance(operation, Check))
        history = self._history.with_commit(number + 1, paths)
        marked = SetData(self._author_path, mark.encode())
        writes: list[Write] = [SetData(SEQUENCE, history.encode(), number), marked, *self._tree.writes(operations)]
        size_bytes = sum(map(write_size_bytes, writes))
        if size_bytes > REQUEST_BYTES_MAX:
            raise StorageError(
                f"a change of {size_bytes} bytes; ZooKeeper takes {REQUEST_BYTES_MAX} at once. Nothing was changed"
            )
        session_id = self._session.session_id
        unknown_before, self._unknown = self._unknown, number
        try:
            zxid = await self._session.write(writes)
        except Refused:
            # Perhaps because of the end of a session, which uses up no number: an earlier commit may still have it.
            self._unknown = unknown_before
            await self._refresh()
            return False
        except ConnectionLost:
            return await self._resolved(number, mark)
        self._unknown = None
        self._move_on(self._tree.after(operations, writes, zxid, session_id), number + 1, history)
        return True

    async def _resolved(self, number: int, mark: str) -> bool:
        """Find out after a lost connection whether the commit was written. If not, make sure that it never will be."""
        seal = self._seal(number)
        while True:
            await self._connected.wait()
            self._check_is_open()
            try:
                await self._session.write([seal])
            except ConnectionLost:
                await asyncio.sleep(_PAUSE_S)
                continue
            except Refused:
                pass  # The number was used by this commit, by an earlier seal, or by a commit of another author.
            self._unknown = None
            await self._refresh()
            known = await self._retry_on_connection_loss(lambda: self._session.get(self._author_path))
            last = "" if known is None else known.data.decode()
            if last.partition("/")[0] not in ("", self._incarnation):
                raise StorageError(
                    f"another process commits as {self._author_path}; whether this change was kept is not known"
                )
            return last == mark

    def _seal(self, number: int) -> SetData:
        """Return the write that uses up the number over which a commit was sent, and changes nothing else."""
        return SetData(SEQUENCE, self._history.with_commit(number + 1, ()).encode(), number)

    async def _use_up_unknown(self) -> None:
        """Make sure that a commit whose outcome was not found out in time is in the tree, or is never carried out."""
        number = self._unknown
        if number == self._number:
            with contextlib.suppress(Refused):  # Then it, or a commit of another author, was carried out meanwhile.
                await self._session.write([self._seal(number)])
            await self._session.sync()
            await self._catch_up()
        self._unknown = None

    # Following

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._connected.set()
            self._follow_soon()  # Watches may have been lost with the connection.
        else:
            self._connected.clear()
        for changed in self._state_watches:
            changed(state)

    def _follow_soon(self) -> None:
        if self._is_closed or (self._following is not None and not self._following.done()):
            return
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self) -> None:
        await self._connected.wait()
        async with self._turn:
            # A watch that is called from here on may report a change that this read misses: it starts another read.
            self._following = None
            if not self._is_closed:
                try:
                    await self._catch_up()
                except ConnectionLost:
                    pass  # The next connection begins with a read.
                except StorageError as error:
                    logger.error("the metadata are as of an earlier change: %s", error)
                    asyncio.get_running_loop().call_later(_REFUSED_PAUSE_S, self._follow_soon)

    async def _refresh(self) -> None:
        """Bring the tree to a state that has everything that was written before this call."""

        async def sync_and_catch_up() -> None:
            await self._session.sync()
            await self._catch_up()

        await self._retry_on_connection_loss(sync_and_catch_up)

    async def _catch_up(self) -> None:
        """Bring the tree to the present state. Raises ConnectionLost, and then the tree is not changed."""
        while True:
            number, history = await self._read_sequence(self._follow_soon)
            paths = history.changed_between(self._number, number) if self._number >= 0 else None
            if paths is None:
                tree = await self._read_everything()
            else:
                tree = self._tree.copy()
                changed = sorted(paths)
                for path, node in zip(changed, await self._each(self._session.get, changed), strict=True):
                    tree.note(path, node)
            for folder in self._ephemeral_folders:
                tree.keep_ephemeral(folder, await self._session.children(folder, self._follow_soon))
            if (await self._read_sequence(None))[0] == number:
                self._move_on(tree, number, history)
                return

    async def _read_sequence(self, watch: Callable[[], None] | None) -> tuple[int, History]:
        node = await self._session.get(SEQUENCE, watch)
        if node is None:
            raise StorageError(f"{SEQUENCE} is gone from ZooKeeper, which nothing but a person could have done")
        return node.version, History.decode(node.data)

    async def _found(self) -> None:
        """Create the nodes that every commit writes, unless they exist."""
        for path, data in ((SEQUENCE, History().encode()), (AUTHORS, b""), (self._author_path, b"")):
            with contextlib.suppress(Refused):
                await self._session.create(path, data)

    async def _take_over(self) -> None:
        """Begin with the newest state, as the only process of this author.

        A commit of an earlier process may still arrive at ZooKeeper, and its mark would then be mistaken for the
        outcome of a commit of this process. So this writes a commit first, which uses up the number that the other one
        expects.
        """
        while True:
            await self._session.sync()
            await self._catch_up()
            number, history = self._number + 1, self._history.with_commit(self._number + 1, ())
            mark = SetData(self._author_path, f"{self._incarnation}/{next(self._marks)}".encode())
            writes: list[Write] = [SetData(SEQUENCE, history.encode(), self._number), mark]
            with contextlib.suppress(Refused):
                zxid = await self._session.write(writes)
                self._move_on(self._tree.after((), writes, zxid, self._session.session_id), number, history)
                return

    async def _read_everything(self) -> ZnodeTree:
        tree = ZnodeTree()
        level = ["/"]
        while level:
            below: list[str] = []
            for names, folder in zip(await self._each(self._session.children, level), level, strict=True):
                below += (f"{folder.rstrip('/')}/{name}" for name in names)
            level = [path for path in below if path not in NOT_METADATA]
            for path, node in zip(level, await self._each(self._session.get, level), strict=True):
                tree.note(path, node)
        return tree

    async def _each(self, read: Callable[[str], Awaitable[T]], paths: Sequence[str]) -> list[T]:
        found: list[T] = []
        for first in range(0, len(paths), _READS_AT_ONCE):
            some = paths[first : first + _READS_AT_ONCE]
            found += await asyncio.gather(*(read(path) for path in some))
        return found

    async def _retry_on_connection_loss(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request after a lost connection, until there is a response. It must be safe to send it twice."""
        while True:
            await self._connected.wait()
            self._check_is_open()
            try:
                return await ask()
            except ConnectionLost:
                await asyncio.sleep(_PAUSE_S)

    def _move_on(self, tree: ZnodeTree, number: int, history: History) -> None:
        before, self._tree, self._number, self._history = self._tree, tree, number, history
        changed_paths = tree.changed_since(before)
        for prefix, changed in list(self._watches.values()):
            for path in changed_paths:
                if path == prefix or path.startswith(prefix + "/"):
                    changed(path)

    def _check_is_open(self) -> None:
        if self._is_closed:
            raise StorageError("the metadata store is closed")
