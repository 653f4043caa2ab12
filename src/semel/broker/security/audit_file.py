"""The files of the audit log, the newest first: ``audit.log``, ``audit.log.1``, ``audit.log.2``, ..."""

from __future__ import annotations

from collections.abc import Sequence

from semel.log.disk import Disk, File


class AuditFile:
    """The audit log's files, used by one worker.

    The lines of one call are written to one file, so a file may exceed its limit. A write that fails may leave some of
    its bytes; the next write overwrites them.
    """

    def __init__(self, disk: Disk, path: str, *, size_bytes_max: int, files_max: int) -> None:
        self._disk = disk
        self._path = path
        self._size_bytes_max = size_bytes_max
        self._files_max = files_max
        self._file: File | None = None
        self._position = 0

    def open(self) -> None:
        """Open the newest file, or create it. Raises OSError."""
        self._file = self._disk.open(self._path, create=True)
        self._position = self._file.size()
        if self._position and self._file.read(self._position - 1, 1) != b"\n":
            self._file.write(self._position, b"\n")  # The machine died within a line.
            self._position += 1

    def append(self, lines: Sequence[bytes]) -> None:
        """Append the lines, after a rotation if they do not fit. Raises OSError; then none counts as written."""
        data = b"".join(lines)
        if self._file is not None and self._position and self._position + len(data) > self._size_bytes_max:
            self._rotate()
        if self._file is None:
            self.open()
        assert self._file is not None
        self._file.write(self._position, data)
        self._position += len(data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _rotate(self) -> None:
        self.close()
        for number in range(self._files_max - 1, 0, -1):
            older = self._path if number == 1 else f"{self._path}.{number - 1}"
            if self._disk.exists(older):
                self._disk.rename(older, f"{self._path}.{number}")
        if self._files_max == 1:
            self._disk.remove(self._path)
