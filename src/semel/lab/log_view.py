"""One partition's log as the lab shows it: every record with its offset and what it is, markers, and the offsets.

It is read with ordinary requests of a client, so the broker may be in any process.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from semel.client.machine.consumer.fetched import visible_batches
from semel.types import TopicPartition
from semel.wire.control import parse_marker
from semel.wire.messages.fetch import AbortedTransaction
from semel.wire.records import NO_PRODUCER_ID, iterate_headers, iterate_records

if TYPE_CHECKING:
    from semel.blocking import Admin


class Kind(Enum):
    DATA = "data"
    OPEN = "open"
    """A record of a transaction that is not decided, or whose marker has not been written yet."""
    ABORTED = "aborted"
    COMMIT = "commit"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A record, or a marker."""

    offset: int
    kind: Kind
    value: str
    producer_id: int | None
    epoch: int | None
    sequence: int | None


@dataclass(frozen=True, slots=True)
class LogView:
    name: str
    """Topic and partition, as ``orders:0``."""
    entries: tuple[LogEntry, ...]
    last_stable_offset: int
    high_watermark: int

    def values(self, *kinds: Kind) -> list[str]:
        """The values of the records of these kinds; of all records if no kind is named."""
        wanted = kinds or (Kind.DATA, Kind.OPEN, Kind.ABORTED)
        return [entry.value for entry in self.entries if entry.kind in wanted]

    @property
    def markers(self) -> list[Kind]:
        return [entry.kind for entry in self.entries if entry.kind in (Kind.COMMIT, Kind.ABORT)]


def read_log(admin: Admin, partition: TopicPartition) -> LogView:
    """Read the whole log of a partition; in a scene it is small."""
    raw = admin.partitions.read_batches(partition, 0)
    aborted = admin.partitions.read_batches(partition, 0, stable_only=True).aborted
    headers = list(iterate_headers(raw.records, allow_partial_tail=True))
    visible = {
        position for position, _ in visible_batches(raw.records, headers, [AbortedTransaction(*one) for one in aborted])
    }
    entries: list[LogEntry] = []
    for position, header in headers:
        numbered = header.producer_id != NO_PRODUCER_ID
        producer_id, epoch = (header.producer_id, header.producer_epoch) if numbered else (None, None)
        if header.is_control:
            marker = parse_marker(raw.records, position)
            kind = Kind.COMMIT if marker is not None and marker.committed else Kind.ABORT
            entries.append(LogEntry(header.base_offset, kind, kind.name, producer_id, epoch, None))
            continue
        kind = Kind.DATA if position in visible else Kind.ABORTED
        if kind is Kind.DATA and header.is_transactional and header.base_offset >= raw.last_stable_offset:
            kind = Kind.OPEN
        for number, record in enumerate(iterate_records(raw.records, position)):
            value = (record.value or b"").decode("utf-8", "backslashreplace")
            sequence = header.base_sequence + number if numbered else None
            entries.append(LogEntry(record.offset, kind, value, producer_id, epoch, sequence))
    name = f"{partition.topic}:{partition.partition}"
    return LogView(name, tuple(entries), raw.last_stable_offset, raw.high_watermark)
