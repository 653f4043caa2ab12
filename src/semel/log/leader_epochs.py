"""The leader epochs of one partition's log: the first offset that each leader wrote (Kafka's LeaderEpochFileCache).

Followers and consumers ask where an epoch ended, to find the offset up to which two logs are the same. The law: epochs
and start offsets both ascend. An epoch that conflicts with older entries replaces them: the log was truncated.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class EpochEndOffset(NamedTuple):
    leader_epoch: int
    end_offset: int


class LeaderEpochs:
    __slots__ = ("_epochs", "_start_offsets")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """``(epoch, start offset)``, oldest first."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    @property
    def latest(self) -> int | None:
        return self._epochs[-1] if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that ``epoch`` begins at ``start_offset``. Entries that conflict with this are removed."""
        epochs, start_offsets = self._epochs, self._start_offsets
        if epochs and epochs[-1] == epoch and start_offsets[-1] <= start_offset:
            return
        assert epoch >= 0, f"leader epoch {epoch} at offset {start_offset}"
        keep = min(bisect_left(epochs, epoch), bisect_left(start_offsets, start_offset))
        epochs[keep:] = [epoch]
        start_offsets[keep:] = [start_offset]

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset | None:
        """The largest known epoch at or below ``epoch``, and where it ended: Kafka's OffsetForLeaderEpoch.

        The latest epoch ends at the log end. An epoch older than all known ones ended where the oldest known one
        begins. ``None`` for an epoch newer than all known ones.
        """
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return None
        if epoch == self._epochs[-1]:
            return EpochEndOffset(epoch, log_end_offset)
        following = bisect_right(self._epochs, epoch)
        found = self._epochs[following - 1] if following else epoch
        return EpochEndOffset(found, self._start_offsets[following])

    def epoch_for(self, offset: int) -> int | None:
        """The epoch that the record at ``offset`` was written in."""
        slot = bisect_right(self._start_offsets, offset) - 1
        return None if slot < 0 else self._epochs[slot]

    def truncate_from_end(self, offset: int) -> None:
        """The log now ends at ``offset``: the epochs that began at it or later are dropped."""
        keep = bisect_left(self._start_offsets, offset)
        del self._epochs[keep:], self._start_offsets[keep:]

    def truncate_from_start(self, offset: int) -> None:
        """The log now begins at ``offset``, and so does the epoch that covers it."""
        covering = bisect_right(self._start_offsets, offset) - 1
        if covering >= 0:
            del self._epochs[:covering], self._start_offsets[:covering]
            self._start_offsets[0] = offset
