"""The ``.snapshot`` files of one partition: which producer state is written to which file, and when.

A snapshot belongs to the offset in its name: the base offset of a segment, or the recovery point. A start loads the
latest one at or below the recovery point and replays the batches after it. It needs none of the others, so a snapshot
that is missing or torn costs time and loses nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final, TypeAlias

from semel.log.disk import Disk, write_file
from semel.log.producers.producer_state import FrozenProducers, ProducerStates
from semel.log.segments.segment import file_name

# The number of producers whose state is encoded while a client waits: a few milliseconds.
SNAPSHOT_AT_ONCE_MAX: Final = 2000

Snapshot: TypeAlias = tuple[str, FrozenProducers]
"""The path of a snapshot file, and the producer state to be written there. The worker that writes it encodes it."""


class SnapshotFiles:
    __slots__ = ("_deferred", "_disk", "_folder")

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._deferred: Snapshot | None = None  # left to the next checkpoint

    def write_at_roll(self, log_end_offset: int, producers: ProducerStates) -> None:
        """Write the producer state that the next segment begins with. It is not synced, and errors are ignored.

        To encode the state of very many producers would block the loop: the next checkpoint writes it, on the worker.
        """
        path, frozen = self._snapshot(log_end_offset, producers)
        if len(frozen) > SNAPSHOT_AT_ONCE_MAX:
            self._deferred = (path, frozen)
            return
        with contextlib.suppress(OSError):
            write_file(self._disk, path, frozen.encode())

    def for_checkpoint(self, log_end_offset: int, producers: ProducerStates) -> list[Snapshot]:
        """The snapshots that a checkpoint at the log end has to write."""
        snapshot = self._snapshot(log_end_offset, producers)
        return [snapshot] if self._deferred is None else [snapshot, self._deferred]

    def written(self, snapshots: Sequence[Snapshot]) -> None:
        """Note that a checkpoint has written these snapshots."""
        if self._deferred in snapshots:
            self._deferred = None

    def remove(self, offset: int) -> None:
        """Remove the snapshot at ``offset``, if there is one. Raises ``OSError``."""
        self._disk.remove(self._path(offset))

    def _snapshot(self, offset: int, producers: ProducerStates) -> Snapshot:
        return self._path(offset), producers.freeze()

    def _path(self, offset: int) -> str:
        return f"{self._folder}/{file_name(offset, '.snapshot')}"
