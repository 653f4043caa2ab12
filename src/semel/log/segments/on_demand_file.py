"""The file of a closed segment: it is opened for each read and closed again.

A broker can have many more closed segments than open files. Nothing is appended to a closed segment and all of it is
synced, so no descriptor is needed for a later sync.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from semel.log.disk import Disk, File
from semel.types import Buffer


class OnDemandFile:
    """A ``File`` that is opened for each call; every call may also raise what ``Disk.open`` raises.

    ``path`` is called each time, because compaction gives a new segment its final name only at the end.
    """

    __slots__ = ("_disk", "_path")

    def __init__(self, disk: Disk, path: Callable[[], str]) -> None:
        self._disk = disk
        self._path = path

    def size(self) -> int:
        with self._opened() as file:
            return file.size()

    def read(self, position: int, size: int) -> bytes:
        with self._opened() as file:
            return file.read(position, size)

    def write(self, position: int, data: Buffer) -> None:
        with self._opened() as file:
            file.write(position, data)

    def write_many(self, position: int, data: Sequence[Buffer], *, sync: bool = False) -> None:
        with self._opened() as file:
            file.write_many(position, data, sync=sync)

    def truncate(self, size: int) -> None:
        with self._opened() as file:
            file.truncate(size)

    def sync(self) -> None:
        with self._opened() as file:
            file.sync()

    def close(self) -> None:
        """Does nothing: no file is open."""

    def _opened(self) -> contextlib.closing[File]:
        return contextlib.closing(self._disk.open(self._path()))
