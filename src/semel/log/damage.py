"""The errors of a damaged partition: what was lost, and what an operator can do."""

from __future__ import annotations

from typing import Final

from semel.errors import StorageError

REMEDY: Final = (
    "put the file back from a copy, or stop the broker and give up what is lost with `semel log repair DIRECTORY "
    "--accept-loss TOPIC-PARTITION`; until then its files stay as they are"
)


class LostRecords(StorageError):
    """Records that were synced are not on the disk any more, and the journal does not hold them either."""

    def __init__(self, where: str, first: int, end: int) -> None:
        super().__init__(f"{where}: records {first} to {end - 1} were synced and are gone from the disk; {REMEDY}")
        self.first = first
        self.end = end
