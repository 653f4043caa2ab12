"""The metadata of a cluster of one node: everything in memory, every change in a file first.

The law: a change is applied and reported only after its record is synced. One commit is on its way to the disk at a
time, so the next is decided on what the last one left. If a write or a sync fails, nothing is known about the end of
the file, and the store takes no more changes: what it holds can be read, and a restart reads what the disk kept.

Ephemeral values are never written. Their session is this process, so they end when it does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, assert_never

from semel.errors import StorageError
from semel.log.disk import Disk, File, read_file, replace_file
from semel.log.worker import Worker
from semel.metadata import change_file
from semel.metadata.change_file import Entry, Record
from semel.metadata.store import Check, Delete, Operation, Put, SessionState, VersionConflict, Versioned

# A file is rewritten when it has this size and more than half of it says what is no longer true.
REWRITE_SIZE_BYTES_MIN = 64 * 1024

_Answer = asyncio.Future[list[int | None]]


class EmbeddedStore:
    """A ``MetadataStore`` in one file on a ``Disk``. Whoever opens it has locked its folder."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        file: File,
        contents: change_file.Contents,
        worker: Worker,
        rewrite_size_bytes_min: int,
    ) -> None:
        self._disk = disk
        self._path = path
        self._file = file
        self._worker = worker
        self._values = contents.values
        self._ephemeral: dict[str, Versioned] = {}
        self._sequence = contents.sequence
        self._size_bytes = contents.size_bytes
        self._rewrite_size_bytes_min = rewrite_size_bytes_min
        self._rewrite_at_bytes = rewrite_size_bytes_min
        self._queue: deque[tuple[tuple[Operation, ...], _Answer]] = deque()
        self._writing = False
        self._failure: str | None = None
        self._watches: dict[object, tuple[str, Callable[[str], None]]] = {}
        self._session_watches: dict[object, Callable[[SessionState], None]] = {}
        self._session = SessionState.CONNECTED
        self._idle: asyncio.Future[None] | None = None

    @classmethod
    def open(
        cls, disk: Disk, path: str, worker: Worker, *, rewrite_size_bytes_min: int = REWRITE_SIZE_BYTES_MIN
    ) -> EmbeddedStore:
        """Load the file, cutting off a torn end, or begin an empty one. Blocks; raises ``StorageError`` on damage."""
        disk.remove(_beside(path))
        if not disk.exists(path):
            replace_file(disk, path, change_file.HEADER)
        data = read_file(disk, path)
        contents = change_file.read(data, path)
        file = disk.open(path)
        if contents.size_bytes < len(data):
            file.truncate(contents.size_bytes)
        # A process that died between write and sync left bytes that are read here but would not survive a power cut;
        # the same goes for the name of a file that was just rewritten.
        file.sync()
        disk.sync_directory(os.path.dirname(path))
        return cls(disk, path, file, contents, worker, rewrite_size_bytes_min)

    @property
    def session(self) -> SessionState:
        return self._session

    async def get(self, path: str) -> Versioned | None:
        return self._values.get(path) or self._ephemeral.get(path)

    async def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        start = len(prefix)
        below = (
            known[start:] for table in (self._values, self._ephemeral) for known in table if known.startswith(prefix)
        )
        return sorted({name.partition("/")[0] for name in below})

    async def commit(self, operations: Sequence[Operation]) -> list[int | None]:
        assert len({operation.path for operation in operations}) == len(operations), f"a path twice in {operations}"
        answer: _Answer = asyncio.get_running_loop().create_future()
        self._queue.append((tuple(operations), answer))
        self._proceed()
        return await answer

    async def compare_and_set(self, path: str, value: bytes, expected_version: int | None) -> int:
        (version,) = await self.commit([Put(path, value, expected_version)])
        assert version is not None
        return version

    async def delete(self, path: str, expected_version: int) -> None:
        await self.commit([Delete(path, expected_version)])

    def watch(self, prefix: str, changed: Callable[[str], None]) -> Callable[[], None]:
        key = object()
        self._watches[key] = (prefix.rstrip("/"), changed)
        return partial(_forget, self._watches, key)

    def watch_session(self, changed: Callable[[SessionState], None]) -> Callable[[], None]:
        key = object()
        self._session_watches[key] = changed
        return partial(_forget, self._session_watches, key)

    async def close(self) -> None:
        if self._writing:
            self._idle = self._idle or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)
        self.abandon()

    def abandon(self) -> None:
        """Let go of the file as it is, as a process that dies would. Its worker must have ended or be idle."""
        self._failure = self._failure or "the metadata store is closed"
        self._ephemeral.clear()
        self._file.close()
        if self._session is not SessionState.LOST:
            self._session = SessionState.LOST
            for changed in list(self._session_watches.values()):
                changed(self._session)

    def _proceed(self) -> None:
        """Begin what waits, until something has to wait for the disk."""
        while self._queue and not self._writing:
            operations, answer = self._queue.popleft()
            if answer.cancelled():
                continue  # Nobody waits for it, and nothing was begun.
            if self._failure is not None:
                answer.set_exception(StorageError(self._failure))
                continue
            try:
                for operation in operations:
                    self._check(operation)
            except VersionConflict as conflict:
                answer.set_exception(conflict)
                continue
            self._begin(operations, answer)
        if not self._writing and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None

    def _check(self, operation: Operation) -> None:
        present = self._values.get(operation.path) or self._ephemeral.get(operation.path)
        version = present.version if present else None
        if version != operation.expected_version:
            raise VersionConflict(operation.path, expected_version=operation.expected_version, version=version)

    def _begin(self, operations: tuple[Operation, ...], answer: _Answer) -> None:
        sequence = self._sequence + 1
        entries = tuple(
            Entry(operation.path, Versioned(operation.value, sequence) if isinstance(operation, Put) else None)
            for operation in operations
            if self._is_persistent(operation)
        )
        if not entries:
            self._apply(operations, sequence, answer)
            return
        data = change_file.encode(Record(sequence, entries))
        file, position = self._file, self._size_bytes

        def write() -> None:
            file.write(position, data)
            file.sync()

        def written(result: BaseException | None) -> None:
            self._writing = False
            if isinstance(result, BaseException):
                self._fail(result)
                if not answer.done():
                    answer.set_exception(StorageError(f"{self._failure}; whether this change was kept is not known"))
            else:
                self._size_bytes += len(data)
                self._apply(operations, sequence, answer)
                self._rewrite_if_mostly_garbage()
            self._proceed()

        self._writing = True
        self._worker.run(write, written)

    def _is_persistent(self, operation: Operation) -> bool:
        match operation:
            case Put():
                return not operation.ephemeral
            case Delete():
                return operation.path in self._values
            case Check():
                return False
            case _:
                assert_never(operation)

    def _apply(self, operations: tuple[Operation, ...], sequence: int, answer: _Answer) -> None:
        self._sequence = sequence
        versions: list[int | None] = []
        for operation in operations:
            match operation:
                case Put(path, value):
                    table, other = self._values, self._ephemeral
                    if operation.ephemeral:
                        table, other = other, table
                    assert path not in other, f"{path} is ephemeral for all its life or never"
                    table[path] = Versioned(value, sequence)
                    versions.append(sequence)
                case Delete(path):
                    self._values.pop(path, None)
                    self._ephemeral.pop(path, None)
                    versions.append(None)
                case Check():
                    versions.append(None)
                case _:
                    assert_never(operation)
        if not answer.done():
            answer.set_result(versions)
        # The author runs only when the loop comes round to it: after these.
        changed_paths = [operation.path for operation in operations if not isinstance(operation, Check)]
        for prefix, changed in list(self._watches.values()):
            for path in changed_paths:
                if path == prefix or path.startswith(prefix + "/"):
                    changed(path)

    def _fail(self, error: BaseException) -> None:
        self._failure = (
            f"{self._path} could not be written ({error}); no change of metadata is accepted until a restart"
        )

    def _rewrite_if_mostly_garbage(self) -> None:
        if self._size_bytes < self._rewrite_at_bytes:
            return
        data = change_file.snapshot(self._values, self._sequence)
        if len(data) * 2 > self._size_bytes:
            self._rewrite_at_bytes = self._size_bytes * 2
            return

        def rewritten(result: File | BaseException | None) -> None:
            self._writing = False
            if isinstance(result, BaseException):
                self._fail(result)
            elif result is None:
                self._rewrite_at_bytes = self._size_bytes * 2
            else:
                self._file, self._size_bytes = result, len(data)
                self._rewrite_at_bytes = self._rewrite_size_bytes_min
            self._proceed()

        self._writing = True
        self._worker.run(lambda: _replace(self._disk, self._path, data, self._file), rewritten)


def _replace(disk: Disk, path: str, data: bytes, old: File) -> File | None:
    """Put a new file in the place of ``old``. ``None``: there was no room for it, and the old one is still whole."""
    beside = _beside(path)
    try:
        with contextlib.closing(disk.open(beside, create=True)) as file:
            file.truncate(0)
            file.write(0, data)
            file.sync()
    except OSError:
        with contextlib.suppress(OSError):
            disk.remove(beside)
        return None
    # From here on a failure is final: after a power cut either file could be the one that is found.
    disk.rename(beside, path)
    disk.sync_directory(os.path.dirname(path))
    new = disk.open(path)
    old.close()
    return new


def _forget(watches: dict[object, Any], key: object) -> None:
    watches.pop(key, None)


def _beside(path: str) -> str:
    return path + ".tmp"
