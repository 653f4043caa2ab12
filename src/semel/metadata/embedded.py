"""The metadata store of a cluster of one node: all values in memory, and every change written to two files first.

The law: a change is applied and reported only after its record is synced in the first file and then in the second, so
that damage to one file loses nothing (see ``copies``). One commit is written at a time, so the next one is checked
against its result.

If the disk is full, what was written is removed again: the change is refused, and the next one is tried. If a write
fails for another reason, or a sync fails, the end of the file is unknown, and the store accepts no more changes: its
values can be read, and a restart reads what is on the disk.

Ephemeral values are never written. Their session is this process, so they end when it does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, assert_never

from semel.errors import StorageError
from semel.log.disk import Disk
from semel.log.worker import Worker
from semel.metadata import change_file
from semel.metadata.change_file import Contents, Entry, Record
from semel.metadata.store import Check, Delete, Operation, Put, VersionConflict, Versioned
from semel.metadata.store_files import NoRoom, StoreFile, append_to_both, open_files

# A file is rewritten when it has this size and more than half of it is outdated.
REWRITE_SIZE_BYTES_MIN = 64 * 1024

_Answer = asyncio.Future[list[int | None]]


class EmbeddedStore:
    """A ``MetadataStore`` in two files on a ``Disk``. The caller of ``open`` has locked their folder."""

    commit_bytes_max: int | None = None

    def __init__(
        self,
        disk: Disk,
        path: str,
        files: tuple[StoreFile, StoreFile],
        contents: Contents,
        worker: Worker,
        rewrite_size_bytes_min: int,
        release_reserve: Callable[[], bool],
    ) -> None:
        self._disk = disk
        self._path = path
        self._files = files
        self._worker = worker
        self._values = contents.values
        self._ephemeral: dict[str, Versioned] = {}
        self._sequence = contents.sequence
        self._rewrite_size_bytes_min = rewrite_size_bytes_min
        self._rewrite_at_bytes = rewrite_size_bytes_min
        self._release_reserve = release_reserve
        self._queue: deque[tuple[tuple[Operation, ...], _Answer]] = deque()
        self._writing = False
        self._failure: str | None = None
        self._watches: dict[object, tuple[str, Callable[[str], None]]] = {}
        self._idle: asyncio.Future[None] | None = None

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        worker: Worker,
        *,
        rewrite_size_bytes_min: int = REWRITE_SIZE_BYTES_MIN,
        release_reserve: Callable[[], bool] = lambda: False,
    ) -> EmbeddedStore:
        """Load the files, making the one that is behind or damaged equal to the other, or begin empty ones.

        ``release_reserve`` is called when the disk is full, and returns whether to try once more: deleting a topic must
        be possible then. Blocks; raises ``StorageError`` if acknowledged changes may be lost.
        """
        files, contents = open_files(disk, path)
        return cls(disk, path, files, contents, worker, rewrite_size_bytes_min, release_reserve)

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

    async def refresh(self) -> None:
        """Do nothing: no other process commits here."""

    def watch(self, prefix: str, changed: Callable[[str], None]) -> Callable[[], None]:
        key = object()
        self._watches[key] = (prefix.rstrip("/"), changed)
        return partial(_forget, self._watches, key)

    async def close(self) -> None:
        if self._writing:
            self._idle = self._idle or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)
        self.abandon()

    def abandon(self) -> None:
        """Close the files as they are, as when a process dies. Their worker must have ended or be idle."""
        self._failure = self._failure or "the metadata store is closed"
        self._ephemeral.clear()
        for file in self._files:
            file.file.close()

    def _proceed(self) -> None:
        """Begin the queued commits, until one has to wait for the disk."""
        while self._queue and not self._writing:
            operations, answer = self._queue.popleft()
            if answer.cancelled():
                continue  # Its caller was cancelled, and it had not begun.
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
        first, second = self._files

        def write(done: Callable[[BaseException | None], None]) -> None:
            self._worker.run(lambda: append_to_both(first, second, data), done)

        def written_at_first(result: BaseException | None) -> None:
            if isinstance(result, NoRoom) and self._release_reserve():
                write(written)
            else:
                written(result)

        def written(result: BaseException | None) -> None:
            self._writing = False
            if isinstance(result, NoRoom):
                if not answer.done():
                    answer.set_exception(StorageError(f"{result}; nothing was changed, and it may work later"))
            elif isinstance(result, BaseException):
                self._fail(result)
                if not answer.done():
                    answer.set_exception(StorageError(f"{self._failure}; whether this change was kept is not known"))
            else:
                first.size_bytes += len(data)
                second.size_bytes += len(data)
                self._apply(operations, sequence, answer)
                self._rewrite_if_mostly_garbage()
            self._proceed()

        self._writing = True
        write(written_at_first)

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
        # The caller of ``commit`` continues in a later turn of the event loop, so the watches are called before it.
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
        size_bytes = max(file.size_bytes for file in self._files)
        if size_bytes < self._rewrite_at_bytes:
            return
        data = change_file.snapshot(self._values, self._sequence)
        if len(data) * 2 > size_bytes:
            self._rewrite_at_bytes = size_bytes * 2
            return
        disk, files = self._disk, self._files

        def rewritten(result: bool | BaseException) -> None:
            self._writing = False
            if isinstance(result, BaseException):
                self._fail(result)
            else:
                self._rewrite_at_bytes = self._rewrite_size_bytes_min if result else size_bytes * 2
            self._proceed()

        self._writing = True
        self._worker.run(lambda: all(file.replace(disk, data) for file in files), rewritten)


def _forget(watches: dict[object, Any], key: object) -> None:
    watches.pop(key, None)
