"""A ``MetadataStore`` in ZooKeeper: see docs/design/zookeeper-store.md for why each step is what it is.

The law: the tree in memory is the state of ZooKeeper at one number of ``/sequence``, and moves only from one such state
to a later one. Every commit is written over that number, so a commit that was decided on an old tree is refused.
The tree, and which writes make a commit of it, are in ``znode_tree.py``.
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
"""ZooKeeper closes the connection over a request of more than 1 MB, by its default."""

# Every refusal means that another commit got through; this many in a row means that something is wrong.
_ATTEMPTS_MAX: Final = 100
# How many reads are under way at a time when everything is read.
_READS_AT_ONCE: Final = 200
# After a lost connection, before the next attempt: the state that says so may be on its way.
_PAUSE_S: Final = 0.05


class ZooKeeperStore:
    """``ephemeral_folders`` are the paths right below which ephemeral values are.

    ``author`` names the broker, ``incarnation`` this process of it: no other process ever has the same.
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
        """Read everything, or begin with nothing. Raises StorageError if ZooKeeper does not answer in time."""
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
                await store._patiently(store._found)
                await store._patiently(store._take_over)
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
        """Let go of the session as it is, as a process that dies would: it expires some time later."""
        self._let_go()
        self._session.abandon()

    def _let_go(self) -> None:
        self._is_closed = True
        self._connected.set()  # What waits for a connection learns that the store is closed.
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
        """Whether they are. If not they never will be, and the tree is as new as what came first."""
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
        try:
            zxid = await self._session.write(writes)
        except Refused:
            await self._refresh()
            return False
        except ConnectionLost:
            return await self._resolved(number, mark)
        self._move_on(self._tree.after(operations, writes, zxid, session_id), number + 1, history)
        return True

    async def _resolved(self, number: int, mark: str) -> bool:
        """After a lost connection: whether the commit counts. If it did not come to pass, it is kept from it."""
        seal = SetData(SEQUENCE, self._history.with_commit(number + 1, ()).encode(), number)
        while True:
            await self._connected.wait()
            self._check_is_open()
            try:
                await self._session.write([seal])
            except ConnectionLost:
                await asyncio.sleep(_PAUSE_S)
                continue
            except Refused:
                pass  # By this commit, by an earlier seal of it, or by a commit of another author.
            await self._refresh()
            known = await self._patiently(lambda: self._session.get(self._author_path))
            last = "" if known is None else known.data.decode()
            if last.partition("/")[0] not in ("", self._incarnation):
                raise StorageError(
                    f"another process commits as {self._author_path}; whether this change was kept is not known"
                )
            return last == mark

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
            # A watch that goes off from here on is for something that this look may miss.
            self._following = None
            if not self._is_closed:
                # After a lost connection the next one begins with a look.
                with contextlib.suppress(ConnectionLost):
                    await self._catch_up()

    async def _refresh(self) -> None:
        """Catch up with everything that was written before this call."""

        async def sync_and_catch_up() -> None:
            await self._session.sync()
            await self._catch_up()

        await self._patiently(sync_and_catch_up)

    async def _catch_up(self) -> None:
        """Raises ConnectionLost, and then nothing has moved."""
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
        """Make what every commit writes. There is nothing to compare with yet; what is there already stays."""
        for path, data in ((SEQUENCE, History().encode()), (AUTHORS, b""), (self._author_path, b"")):
            with contextlib.suppress(Refused):
                await self._session.create(path, data)

    async def _take_over(self) -> None:
        """Begin with the newest state, as the only process of this author.

        A commit of an earlier one may still be on its way, and would be taken for an answer about a commit of this one.
        The number that it would be written over is taken here.
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

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again after a lost connection: for what can be asked twice."""
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
