"""What an index file lacks, as bytes that another thread can write.

An index lives on the event loop and its file is written by a worker. So the loop takes the missing end of the file as a
value, the worker writes it, and the loop is told. The law: writing a tail twice leaves the same file as writing it
once, so one that failed anywhere is simply taken and written again; and an index believes that something is in its file
only after a tail that held it was written.
"""

from __future__ import annotations

from typing import NamedTuple

from semel.log.disk import File


class IndexTail(NamedTuple):
    """The file holds ``data`` from ``position`` on, and nothing behind it."""

    position: int
    data: bytes
    cuts: int  # how often the index had been cut when this was taken

    @property
    def end(self) -> int:
        return self.position + len(self.data)

    def write(self, file: File) -> None:
        """To sync the file is the caller's."""
        if file.size() > self.position:
            file.truncate(self.position)
        if self.data:
            file.write(self.position, self.data)
