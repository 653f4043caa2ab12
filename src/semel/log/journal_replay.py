"""After a crash: append what the journal holds and the partitions' own files have lost.

Per partition the entries are in the order written. A VOID takes back what earlier entries hold at or above its offset.
An entry that begins below the log end is already there; one that begins above it follows a hole, which a sound disk
cannot have made: then nothing is guessed, and the partition stays offline until somebody has looked.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from uuid import UUID

from semel.errors import KafkaError
from semel.log.journal import Entry, Kind
from semel.log.partition_log import PartitionLog
from semel.types import INT64_MAX
from semel.wire.records import iterate_headers

logger = logging.getLogger(__name__)


def replay_journal(entries: Sequence[Entry], logs: Iterable[PartitionLog], *, now_ms: int) -> None:
    by_key: dict[tuple[UUID, int], list[Entry]] = {}
    for entry in entries:
        by_key.setdefault((entry.topic_id, entry.partition), []).append(entry)
    for log in logs:
        found = by_key.get((log.topic_id, log.partition))
        if found:
            end_offset = log.log_end_offset
            _replay(found, log, now_ms)
            if log.log_end_offset > end_offset:
                logger.info("%s: offsets %d to %d come from the journal", log, end_offset, log.log_end_offset)


def _replay(entries: list[Entry], log: PartitionLog, now_ms: int) -> None:
    for entry, limit in _with_limits(entries):
        for position, header in iterate_headers(entry.payload):
            if header.base_offset < log.log_end_offset:
                continue
            if header.base_offset >= limit:
                break
            if header.base_offset > log.log_end_offset:
                log.go_offline(
                    f"the journal continues at offset {header.base_offset}, the log ends at {log.log_end_offset}: "
                    "records between them were synced and are gone from the disk"
                )
                return
            batch = memoryview(entry.payload)[position : position + header.size_bytes]
            try:
                log.append_copied(batch, now_ms=now_ms)
            except KafkaError as error:
                log.go_offline(f"what the journal holds could not be written: {error}")
                return


def _with_limits(entries: list[Entry]) -> list[tuple[Entry, int]]:
    """Each data entry with the offset from which on a later VOID took it back."""
    limited: list[tuple[Entry, int]] = []
    limit = INT64_MAX
    for entry in reversed(entries):
        if entry.kind is Kind.VOID:
            limit = min(limit, entry.base_offset)
        else:
            limited.append((entry, limit))
    limited.reverse()
    return limited
