"""A disk in memory that can lose data that was not synced, write only a part of the last write, and fail on demand.

It keeps the contract of ``semel.log.disk`` and promises no more than it: written data survives ``kill``, only synced
data is sure to survive ``crash``, and a file's name is sure to survive ``crash`` only after ``sync_directory``. Without
faults and crashes it is a fast disk for tests.

When the process dies, by ``kill``, ``crash`` or within an operation (``crash_after``), the files that it had open
cannot be used any more: every operation on them raises ``SimulatedCrash``.
"""

from __future__ import annotations

import builtins
import errno
import functools
import os
import threading
from collections.abc import Callable, Sequence
from random import Random
from typing import Concatenate, ParamSpec, TypeVar

from semel.errors import StorageError
from semel.testing.virtual.crash import SimulatedCrash
from semel.testing.virtual.disk_faults import DiskFault, DiskFaults, DiskStatistics, Operation
from semel.testing.virtual.folders import Entry, Folder, Folders, Node
from semel.testing.virtual.page_cache import CachedFile, Change, Unsynced
from semel.testing.virtual.trace import Trace
from semel.types import Buffer

P = ParamSpec("P")
T = TypeVar("T")


def _one_at_a_time(method: Callable[Concatenate[VirtualDisk, P], T]) -> Callable[Concatenate[VirtualDisk, P], T]:
    """Run the method under the disk's lock: a broker with real threads writes in one and syncs in another."""

    @functools.wraps(method)
    def alone(disk: VirtualDisk, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with disk._lock:
            return method(disk, *args, **kwargs)

    return alone


class VirtualFile:
    """An open file. It cannot be used after the process that opened it has died."""

    __slots__ = ("_disk", "_file", "_life", "path")

    def __init__(self, disk: VirtualDisk, path: str, file: CachedFile) -> None:
        self.path = path
        self._disk = disk
        self._file: CachedFile | None = file
        self._life = disk._life
        statistics = disk.statistics
        statistics.open_files += 1
        statistics.open_files_max = max(statistics.open_files_max, statistics.open_files)

    def size(self) -> int:
        return len(self._opened().content)

    def read(self, position: int, size: int) -> bytes:
        return self._disk._read(self._opened(), self.path, position, size)

    def write(self, position: int, data: Buffer) -> None:
        self._disk._write(self._opened(), self.path, position, bytes(data))

    def write_many(self, position: int, data: Sequence[Buffer], *, sync: bool = False) -> None:
        self._disk._write(self._opened(), self.path, position, b"".join(data))
        if sync:
            self.sync()

    def truncate(self, size: int) -> None:
        self._disk._truncate(self._opened(), self.path, size)

    def sync(self) -> None:
        self._disk._sync(self._opened(), self.path)

    def close(self) -> None:
        if self._file is not None and self._life is self._disk._life:
            self._disk.statistics.open_files -= 1
        self._file = None

    def __del__(self) -> None:
        self.close()

    def _opened(self) -> CachedFile:
        if self._life is not self._disk._life:
            raise SimulatedCrash(f"{self.path} was opened by a process that is dead")
        if self._file is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        return self._file


class VirtualLock:
    def __init__(self, disk: VirtualDisk, file: Node) -> None:
        self._disk = disk
        self._file = file

    def release(self) -> None:
        if self._disk._locks.get(id(self._file)) is self:
            del self._disk._locks[id(self._file)]


class VirtualDisk:
    """A file system in memory. The same random seed gives the same disk after a crash."""

    def __init__(
        self,
        random: Random | None = None,
        *,
        capacity_bytes: int | None = None,
        trace: Trace | None = None,
        name: str = "disk",
    ) -> None:
        self.capacity_bytes = capacity_bytes
        """The size of the disk; ``None`` is no limit. May be changed at any time. A write that does not fit writes the
        part that fits, and fails."""
        self.descriptors_max: int | None = None
        """How many files can be open at once; ``None`` is no limit. May be changed at any time."""
        self.statistics = DiskStatistics()
        self._name = name
        self._random = random or Random(0)
        self._trace = trace
        self._folders = Folders()
        self._faults = DiskFaults()
        self._locks: dict[int, VirtualLock] = {}
        self._life = object()
        self._boots = 1
        self._halted = False
        self._lock = threading.RLock()

    # -- Disk ---------------------------------------------------------------------------------------------------------

    @_one_at_a_time
    def open(self, path: str, *, create: bool = False) -> VirtualFile:
        self._opening(path)
        node = self._folders.find(path)
        if isinstance(node, Folder):
            raise _error(errno.EISDIR, path)
        if node is None:
            if not create:
                raise _error(errno.ENOENT, path)
            folder, name = self._folders.place(path)
            self._changing(Operation.CREATE, path)
            node = CachedFile()
            self._folders.set(Entry(folder, name, node))
        return VirtualFile(self, path, node)

    @_one_at_a_time
    def exists(self, path: str) -> bool:
        self._alive(path)
        try:
            return self._folders.find(path) is not None
        except NotADirectoryError:
            return False

    @_one_at_a_time
    def list(self, folder: str) -> builtins.list[str]:
        self._reading(folder)
        return sorted(self._folders.folder(folder).names)

    @_one_at_a_time
    def make_folder(self, folder: str) -> None:
        self._alive(folder)
        node = self._folders.find(folder)
        if isinstance(node, Folder):
            return
        if node is not None:
            raise _error(errno.EEXIST, folder)
        parent = os.path.dirname(os.path.normpath(folder))
        self.make_folder(parent)
        self._changing(Operation.MAKE_FOLDER, folder)
        self._folders.set(Entry(*self._folders.place(folder), Folder()))

    @_one_at_a_time
    def remove(self, path: str) -> None:
        self._alive(path)
        node = self._folders.find(path)
        if isinstance(node, Folder):
            raise _error(errno.EISDIR, path)
        if node is not None:
            self._remove(path, node)

    @_one_at_a_time
    def remove_folder(self, folder: str) -> None:
        self._alive(folder)
        node = self._folders.find(folder)
        if node is None:
            return
        if not isinstance(node, Folder):
            raise _error(errno.ENOTDIR, folder)
        for name, below in sorted(node.names.items()):
            path = os.path.join(folder, name)
            if isinstance(below, Folder):
                self.remove_folder(path)
            else:
                self._remove(path, below)
        self._remove(folder, node)

    @_one_at_a_time
    def rename(self, old: str, new: str) -> None:
        self._alive(old)
        old_folder, old_name = self._folders.place(old)
        new_folder, new_name = self._folders.place(new)
        node = old_folder.names.get(old_name)
        replaced = new_folder.names.get(new_name)
        if node is None:
            raise _error(errno.ENOENT, old)
        if node is replaced:
            return
        if _above(old, new):
            raise _error(errno.EINVAL, new)
        if _above(new, old):
            raise _error(errno.ENOTEMPTY, new)
        if isinstance(replaced, Folder) and not isinstance(node, Folder):
            raise _error(errno.EISDIR, new)
        if isinstance(node, Folder) and isinstance(replaced, CachedFile):
            raise _error(errno.ENOTDIR, new)
        if isinstance(replaced, Folder) and replaced.names:
            raise _error(errno.ENOTEMPTY, new)
        self._changing(Operation.RENAME, old, f" to {new}")
        self._folders.set(Entry(old_folder, old_name, None), Entry(new_folder, new_name, node))

    @_one_at_a_time
    def sync_all(self, folder: str) -> None:
        self._opening(folder)
        self.statistics.syncs += 1
        try:
            self._changing(Operation.SYNC_ALL, folder)
        except OSError:
            for file in self._folders.files():
                file.fail_to_sync(self._random)
            self._folders.fail_to_sync(self._random)
            raise
        for file in self._folders.files():
            file.sync()
        self._folders.sync_all()

    @_one_at_a_time
    def sync_directory(self, folder: str) -> None:
        self._opening(folder)
        node = self._folders.folder(folder)
        self.statistics.directory_syncs += 1
        try:
            self._changing(Operation.SYNC_DIRECTORY, folder)
        except OSError:
            self._folders.fail_to_sync(self._random)
            raise
        self._folders.sync(node)

    @_one_at_a_time
    def free_bytes(self, folder: str) -> int:
        self._alive(folder)
        self._folders.folder(folder)
        return 1 << 40 if self.capacity_bytes is None else max(0, self.capacity_bytes - self.used_bytes())

    def boot_id(self) -> str | None:
        return f"boot-{self._boots}"

    def used_bytes(self) -> int:
        return sum(len(file.content) for file in self._folders.files())

    @_one_at_a_time
    def lock(self, path: str) -> VirtualLock:
        file = self.open(path, create=True)
        node = file._opened()
        if id(node) in self._locks:
            holder = bytes(node.content).decode().strip()
            raise StorageError(f"{os.path.dirname(path)} is in use by another broker ({holder})")
        file.truncate(0)
        file.write(0, b"semel pid 1\n")  # A real process id would differ from run to run.
        lock = self._locks[id(node)] = VirtualLock(self, node)
        return lock

    # -- crashes ------------------------------------------------------------------------------------------------------

    @_one_at_a_time
    def kill(self) -> None:
        """Simulate ``kill -9`` of the process: its writes are kept, its files are closed and its locks released."""
        self._record("kill")
        self._begin_new_life()

    @_one_at_a_time
    def crash(self, unsynced: Unsynced = Unsynced.ANY) -> None:
        """Simulate a power cut and a reboot: synced data is kept; of unsynced data, what ``unsynced`` says is kept."""
        self._record("crash")
        self._folders.power_cut(self._random, unsynced)
        self._boots += 1
        self._begin_new_life()

    def crash_after(self, changes: int, then: Callable[[], None] | None = None) -> None:
        """Let the process die in its n-th changing operation from now; 1 is the next one.

        That operation is done in part or not at all, calls ``then``, and raises ``SimulatedCrash``. So do all later
        operations, until ``kill`` or ``crash`` is called, which decides what the disk has kept.
        """
        self._faults.crash_after(changes, then)

    def halt(self) -> None:
        """Let every operation raise ``SimulatedCrash`` from now on, until ``kill`` or ``crash`` is called."""
        self._halted = True

    @_one_at_a_time
    def copy(self, random: Random | None = None) -> VirtualDisk:
        """Return another disk in the same state, with the same unsynced changes, no open files and no armed faults."""
        other = VirtualDisk(random, capacity_bytes=self.capacity_bytes, trace=self._trace, name=self._name)
        other._folders = self._folders.copy()
        other._boots = self._boots
        if random is None:
            other._random.setstate(self._random.getstate())
        return other

    # -- faults -------------------------------------------------------------------------------------------------------

    def fail(self, fault: DiskFault) -> None:
        """Let matching operations fail from now on. A failed write may leave a prefix; a failed sync loses data."""
        self._faults.faults.append(fault)

    def repair(self) -> None:
        """Remove all faults. Data that they have destroyed is not restored."""
        self._faults = DiskFaults()

    # -- private ------------------------------------------------------------------------------------------------------

    @_one_at_a_time
    def _read(self, file: CachedFile, path: str, position: int, size: int) -> bytes:
        self._reading(path)
        return bytes(file.content[position : position + size])

    @_one_at_a_time
    def _truncate(self, file: CachedFile, path: str, size: int) -> None:
        self._changing(Operation.TRUNCATE, path)
        file.change(Change(size, None))

    @_one_at_a_time
    def _write(self, file: CachedFile, path: str, position: int, data: bytes) -> None:
        fits = len(data)
        if self.capacity_bytes is not None and position + len(data) > len(file.content):
            grows = position + len(data) - len(file.content)
            fits -= min(fits, max(0, grows - self.free_bytes("/")))

        def write_some() -> None:
            self._put(file, position, data[: self._random.randint(0, fits)])

        self._changing(Operation.WRITE, path, on_failure=write_some)
        self._put(file, position, data[:fits])
        if fits < len(data):
            raise _error(errno.ENOSPC, path)

    def _put(self, file: CachedFile, position: int, data: bytes) -> None:
        self.statistics.writes += 1
        self.statistics.bytes_written += len(data)
        if data:
            file.change(Change(position, data))

    @_one_at_a_time
    def _sync(self, file: CachedFile, path: str) -> None:
        self.statistics.syncs += 1
        try:
            self._changing(Operation.SYNC, path)
        except OSError:
            file.fail_to_sync(self._random)
            raise
        file.sync()

    def _remove(self, path: str, node: Node) -> None:
        folder, name = self._folders.place(path)
        self._changing(Operation.REMOVE, path)
        self._folders.set(Entry(folder, name, None))

    def _opening(self, path: str) -> None:
        self._alive(path)
        if self.descriptors_max is not None and self.statistics.open_files >= self.descriptors_max:
            raise _error(errno.EMFILE, path)
        if self._faults.faults and (fault := self._faults.fault_for(Operation.OPEN, path)) is not None:
            raise fault.exception(path)

    def _reading(self, path: str) -> None:
        self._alive(path)
        self.statistics.reads += 1
        if self._faults.faults and (fault := self._faults.fault_for(Operation.READ, path)) is not None:
            raise fault.exception(path)

    def _changing(
        self, operation: Operation, path: str, more: str = "", on_failure: Callable[[], None] | None = None
    ) -> None:
        """Count and record an operation before it changes the disk, and raise the fault or crash that is due, if any.

        ``on_failure`` is called before a fault or crash is raised, to do a part of the operation.
        """
        self._alive(path)
        self.statistics.changes += 1
        if self._trace is not None:
            self._record(f"{operation.value} {path}{more}")
        dies = self._faults.dies_now()
        fault = self._faults.fault_for(operation, path) if self._faults.faults and not dies else None
        if not dies and fault is None:
            return
        if on_failure is not None:
            on_failure()
        if fault is not None:
            raise fault.exception(path)
        self._halted = True
        raise self._faults.die(operation, path)

    def _alive(self, path: str) -> None:
        if self._halted:
            raise SimulatedCrash(f"the process that asks for {path} is dead")

    def _record(self, text: str) -> None:
        if self._trace is not None:
            self._trace.record(f"{self._name}: {text}")

    def _begin_new_life(self) -> None:
        self._life = object()
        self.statistics.open_files = 0
        self._locks.clear()
        self._halted = False


def _above(folder: str, path: str) -> bool:
    return os.path.normpath(path).startswith(os.path.normpath(folder) + "/")


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
