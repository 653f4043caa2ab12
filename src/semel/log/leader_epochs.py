"""Which leader wrote what: the first offset of every leader epoch in one partition's log.

Followers and consumers ask where an epoch ended, to find the point up to which two logs are the same. The law: epochs
and start offsets both ascend. An epoch that conflicts with older entries replaces them: the log was cut, and they are
no longer true.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from semel.log.durability import checkpoints


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

    @classmethod
    def from_text(cls, data: bytes) -> LeaderEpochs:
        """From the content of ``leader-epoch-checkpoint``. Raises ``DecodeError``."""
        return cls(checkpoints.decode_leader_epochs(data))

    def to_text(self) -> bytes:
        return checkpoints.encode_leader_epochs(self.entries)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """``(epoch, start offset)``, oldest first."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    @property
    def latest(self) -> int | None:
        return self._epochs[-1] if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """A batch of this epoch begins at this offset. Returns whether that is news, and the checkpoint outdated."""
        epochs, start_offsets = self._epochs, self._start_offsets
        if epochs and epochs[-1] == epoch and start_offsets[-1] <= start_offset:
            return False
        assert epoch >= 0, f"leader epoch {epoch} at offset {start_offset}"
        keep = min(bisect_left(epochs, epoch), bisect_left(start_offsets, start_offset))
        epochs[keep:] = [epoch]
        start_offsets[keep:] = [start_offset]
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset | None:
        """The largest known epoch at or below ``epoch``, and where it ended: Kafka's OffsetForLeaderEpoch.

        The latest epoch ends where the log does. Of an epoch older than all that are known only this much can be said:
        it ended where the oldest begins. Of one that is newer than all nothing is known.
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

    def truncate_from_end(self, offset: int) -> bool:
        """The log now ends at ``offset``. Returns whether an epoch went with what was cut."""
        keep = bisect_left(self._start_offsets, offset)
        changed = keep < len(self._epochs)
        del self._epochs[keep:], self._start_offsets[keep:]
        return changed

    def truncate_from_start(self, offset: int) -> bool:
        """The log now begins at ``offset``, and so does the epoch that covers it. Returns whether that is news."""
        covering = bisect_right(self._start_offsets, offset) - 1
        if covering < 0 or (covering == 0 and self._start_offsets[0] == offset):
            return False
        del self._epochs[:covering], self._start_offsets[:covering]
        self._start_offsets[0] = offset
        return True
