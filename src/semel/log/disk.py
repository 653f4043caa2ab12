"""The disk: the only way to files for the log, the journal and the metadata store.

A ``Disk`` is passed in. ``SystemDisk`` is the real one. The disk in ``semel.testing`` loses what was not synced, writes
the last bytes in part and fails on demand: recovery is tested with it.

The contract of both:

- ``write`` hands bytes to the operating system. They survive the death of the process, not of the machine.
- ``sync`` returns once they survive a power cut. If it raises, nothing is known about any byte since the last sync that
  returned. A second sync proves nothing: the kernel may have dropped the dirty pages.
- A created, renamed or removed name survives a power cut only after ``sync_directory`` of its folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from semel.errors import StorageError
from semel.types import Buffer


class File(Protocol):
    """An open file. Positions are explicit, and nothing is buffered in the process."""

    def size(self) -> int: ...

    def read(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``position``; fewer only at the end of the file."""

    def write(self, position: int, data: Buffer) -> None:
        """Write all of ``data`` at ``position`` or raise ``OSError``; a failed write may leave a prefix behind."""

    def write_many(self, position: int, data: Sequence[Buffer], *, sync: bool = False) -> None:
        """Write the buffers one after the other, in as few system calls as the platform allows.

        With ``sync`` these bytes survive a power cut when this returns. Nothing is promised for other writes.
        """

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Block until everything written so far would survive a power cut."""

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    """A file system below one root. Paths are absolute strings."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. Without ``create`` a missing file is ``FileNotFoundError``."""

    def exists(self, path: str) -> bool: ...

    def list(self, folder: str) -> list[str]:
        """The names in a folder, sorted."""

    def make_folder(self, folder: str) -> None:
        """Create a folder and its parents; existing ones are fine."""

    def remove(self, path: str) -> None:
        """Remove a file; a missing one is fine."""

    def remove_folder(self, folder: str) -> None:
        """Remove a folder and all below it; a missing one is fine."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file or folder, replacing a file that has the new name."""

    def sync_directory(self, folder: str) -> None: ...

    def sync_all(self, folder: str) -> None:
        """Like ``sync`` for every file and ``sync_directory`` for every folder of the file system, in one call.

        An error does not say which file could not be written.
        """

    def free_bytes(self, folder: str) -> int: ...

    def lock(self, path: str) -> Lock:
        """Take the lock file or raise ``StorageError`` naming the process that holds it."""

    def boot_id(self) -> str | None:
        """An id that changes when the machine boots. While it is the same, unsynced writes are still there. ``None`` if
        unknown."""


# The errors of a full disk. A write that failed with one was not begun or can be undone; there may be room later.
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# The errors of a file that could not be opened because no descriptors are left. There may be some later.
NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
# The errors of a file that could not be opened: no descriptors are left, or its folder is missing. It may be possible
# later.
NOT_OPENED: Final = NO_DESCRIPTORS | {errno.ENOENT}


def read_file(disk: Disk, path: str) -> bytes:
    with contextlib.closing(disk.open(path)) as file:
        return file.read(0, file.size())


def write_file(disk: Disk, path: str, data: bytes, *, sync: bool = False) -> None:
    """Write the file at ``path``, replacing its content. A crash may leave any content, unless the data is synced."""
    with contextlib.closing(disk.open(path, create=True)) as file:
        file.truncate(0)
        file.write(0, data)
        if sync:
            file.sync()


def replace_file(disk: Disk, path: str, data: bytes) -> None:
    """Write the file at ``path`` such that a crash leaves the old content or the new, never a mixture."""
    beside = path + ".tmp"
    write_file(disk, beside, data, sync=True)
    disk.rename(beside, path)
    disk.sync_directory(os.path.dirname(path))


_WRITEV_MAX = min(1024, os.sysconf("SC_IOV_MAX") if hasattr(os, "sysconf") else 1024)
_RWF_DSYNC: int = getattr(os, "RWF_DSYNC", 0)  # Linux, on most file systems
_NOT_IN_ONE_CALL = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class SystemFile:
    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        remaining = size - len(data)
        while remaining:
            data = os.pread(self._descriptor, remaining, position + size - remaining)
            if not data:
                break
            parts.append(data)
            remaining -= len(data)
        return b"".join(parts)

    def write(self, position: int, data: Buffer) -> None:
        written = os.pwrite(self._descriptor, data, position)
        if written == len(data):
            return
        rest = memoryview(data)
        while written < len(rest):
            written += os.pwrite(self._descriptor, rest[written:], position + written)

    def write_many(self, position: int, data: Sequence[Buffer], *, sync: bool = False) -> None:
        if sync and _RWF_DSYNC and len(data) <= _WRITEV_MAX:
            try:
                # One call writes and syncs: between two calls this thread would have to wait for the interpreter lock.
                if os.pwritev(self._descriptor, data, position, _RWF_DSYNC) == sum(map(len, data)):
                    return
            except OSError as error:
                if error.errno not in _NOT_IN_ONE_CALL:
                    raise
        for first in range(0, len(data), _WRITEV_MAX):
            group = data[first : first + _WRITEV_MAX]
            expected = sum(map(len, group))
            written = os.pwritev(self._descriptor, group, position)
            if written < expected:
                self.write(position + written, b"".join(group)[written:])
            position += expected
        if sync:
            self.sync()

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        # Another thread may still be syncing the file of a removed segment: the last reference closes it.
        self.close()


def _syncfs(descriptor: int) -> None:
    """Call syncfs(2), which the standard library lacks. On a platform without it, sync all file systems."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):
        os.sync()
        return
    if libc.syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class SystemLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class SystemDisk:
    """The ``Disk`` of the operating system."""

    def open(self, path: str, *, create: bool = False) -> SystemFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return SystemFile(path, os.open(path, flags, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, folder: str) -> list[str]:
        return sorted(os.listdir(folder))

    def make_folder(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)

    def remove(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)

    def remove_folder(self, folder: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def sync_directory(self, folder: str) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_all(self, folder: str) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _syncfs(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self, folder: str) -> int:
        return shutil.disk_usage(folder).free

    def boot_id(self) -> str | None:
        try:
            return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip() or None
        except OSError:
            return None  # Linux only.

    def lock(self, path: str) -> SystemLock:
        import fcntl

        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 100, 0).decode("utf-8", "replace").strip()
            os.close(descriptor)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise StorageError(
                f"{os.path.dirname(path)} is in use by another broker ({holder or 'pid unknown'})"
            ) from None
        os.ftruncate(descriptor, 0)
        try:
            os.pwrite(descriptor, f"semel pid {os.getpid()}\n".encode(), 0)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            # The lock is held all the same; the file just does not name its holder.
        return SystemLock(descriptor)
