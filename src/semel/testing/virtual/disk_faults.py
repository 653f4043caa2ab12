"""The faults of a virtual disk: which operations fail, and when.

A test arms a fault: an error for the operations and paths that match, or the death of the process in the n-th changing
operation from now. This module decides which operation fails; ``disk`` decides the effect on the files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase

from semel.testing.virtual.crash import SimulatedCrash


class Operation(Enum):
    OPEN = "open"  # Opening a file or a folder for any purpose: it fails when no descriptors are left.
    READ = "read"
    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    CREATE = "create"
    MAKE_FOLDER = "make folder"
    REMOVE = "remove"
    RENAME = "rename"
    SYNC_DIRECTORY = "sync directory"
    SYNC_ALL = "sync all"


@dataclass(slots=True)
class DiskFault:
    """An error for matching operations: after ``skip`` of them the next ``times``, or all with ``times=None``."""

    operation: Operation
    path: str = "*"
    """A shell pattern that the whole path must match: ``*.log``."""
    error: int = errno.EIO
    times: int | None = 1
    skip: int = 0

    def applies_to(self, operation: Operation, path: str) -> bool:
        """Count this operation if it matches. Return whether it fails."""
        if operation is not self.operation or self.times == 0 or not fnmatchcase(path, self.path):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True

    def exception(self, path: str) -> OSError:
        return OSError(self.error, os.strerror(self.error), path)


@dataclass(slots=True)
class DiskStatistics:
    """Counts of the disk's operations so far. A group of buffers written together is one write."""

    reads: int = 0
    writes: int = 0
    bytes_written: int = 0
    syncs: int = 0
    directory_syncs: int = 0
    open_files: int = 0
    open_files_max: int = 0
    changes: int = 0
    """The number of operations that change the disk: those in which ``crash_after`` can let the process die."""


@dataclass(slots=True)
class DiskFaults:
    """The armed faults of one disk."""

    faults: list[DiskFault] = field(default_factory=list)
    _changes_left: int | None = None
    _then: Callable[[], None] | None = None

    def crash_after(self, changes: int, then: Callable[[], None] | None) -> None:
        self._changes_left = changes
        self._then = then

    def dies_now(self) -> bool:
        """Count one changing operation. Return whether the process dies in it."""
        if self._changes_left is None:
            return False
        self._changes_left -= 1
        return self._changes_left <= 0

    def die(self, operation: Operation, path: str) -> SimulatedCrash:
        self._changes_left = None
        then, self._then = self._then, None
        if then is not None:
            then()
        return SimulatedCrash(f"the process died in {operation.value} of {path}")

    def fault_for(self, operation: Operation, path: str) -> DiskFault | None:
        return next((fault for fault in self.faults if fault.applies_to(operation, path)), None)
