"""Journal replay: after a crash, append the batches that are in the journal and not in the partitions' own files.

The entries of a partition are in the order they were written. A VOID entry cancels what earlier entries hold at or
above its offset. An entry that begins below the log end is in the log already. An entry that begins above the log end
follows a hole, which a sound disk cannot have made: nothing is appended, and the partition stays offline until it is
repaired.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from semel.errors import DecodeError, StorageError
from semel.log.damage import LostRecords
from semel.log.durability.journal import Entry, Kind
from semel.log.partition_log import PartitionLog
from semel.types import INT64_MAX
from semel.wire.records import BatchHeader, iterate_headers

logger = logging.getLogger(__name__)


class JournalContent:
    """The journal entries that a start found, by partition."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries: dict[tuple[UUID, int], list[Entry]] = {}
        for entry in entries:
            self._entries.setdefault((entry.topic_id, entry.partition), []).append(entry)

    def of(self, topic_id: UUID, partition: int) -> Sequence[Entry]:
        return self._entries.get((topic_id, partition), ())

    def forget(self, topic_id: UUID, partition: int) -> None:
        """Drop the entries of this partition: none of them is replayed."""
        self._entries.pop((topic_id, partition), None)

    def end_after(self, topic_id: UUID, partition: int, offset: int) -> int:
        """The offset that a log which ends at ``offset`` would reach with the journal's entries."""
        try:
            for _, header, follows in _batches(self.of(topic_id, partition)):
                if follows > offset:
                    break
                if header.base_offset >= offset:
                    offset = header.next_offset
        except DecodeError:
            pass  # ``replay`` will raise this error.
        return offset

    def replay(self, log: PartitionLog, *, now_ms: int) -> None:
        """Append the batches that the log lacks. Raises ``LostRecords`` at a hole, ``StorageError`` at an unsound
        entry."""
        before = log.log_end_offset
        try:
            self._replay(log, now_ms)
        except DecodeError as error:
            raise StorageError(f"the journal's entries for {log.folder} cannot be replayed: {error}") from error
        if log.log_end_offset > before:
            logger.info("%s: offsets %d to %d come from the journal", log, before, log.log_end_offset)

    def _replay(self, log: PartitionLog, now_ms: int) -> None:
        for batch, header, follows in _batches(self.of(log.topic_id, log.partition)):
            if header.base_offset < log.log_end_offset:
                continue
            if header.partition_leader_epoch < (log.epochs.latest or 0):
                continue  # The batch is of a history that was truncated: leader epochs of a log never decrease.
            if follows > log.log_end_offset:
                where = (
                    f"{log.folder}: the journal continues at offset {header.base_offset}, "
                    f"the log ends at {log.log_end_offset}"
                )
                raise LostRecords(where, log.log_end_offset, header.base_offset)
            log.append_copied(batch, now_ms=now_ms)


def _batches(entries: Sequence[Entry]) -> Iterator[tuple[memoryview, BatchHeader, int]]:
    """Each batch, and the offset at which the log ended before it.

    The batch may begin later: a follower copies the holes that compaction has left in the leader's log.
    """
    for entry, limit in _with_limits(entries):
        payload = memoryview(entry.payload)
        follows = entry.base_offset
        for position, header in iterate_headers(payload):
            if header.base_offset >= limit:
                break
            yield payload[position : position + header.size_bytes], header, follows
            follows = header.next_offset


def _with_limits(entries: Sequence[Entry]) -> list[tuple[Entry, int]]:
    """Each data entry with the offset from which a later VOID cancels it."""
    limited: list[tuple[Entry, int]] = []
    limit = INT64_MAX
    for entry in reversed(entries):
        if entry.kind is Kind.VOID:
            limit = min(limit, entry.base_offset)
        else:
            limited.append((entry, limit))
    limited.reverse()
    return limited
