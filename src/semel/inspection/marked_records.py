"""Records as they are in the log, each marked as data, aborted, in an open transaction, or control."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from semel.client.machine.consumer.fetched import visible_batches
from semel.inspection.internal_records import decoded
from semel.inspection.times import time_text
from semel.types import Buffer, TopicPartition
from semel.wire.control import parse_marker
from semel.wire.messages.fetch import AbortedTransaction
from semel.wire.records import BatchHeader, Record, iterate_headers, iterate_records

DATA: Final = "data"
ABORTED: Final = "aborted"
OPEN: Final = "open"
CONTROL: Final = "control"
WAITING: Final = "waiting"
"""The kind of a record in no open transaction, but after the start of one: read_committed consumers do not get it
yet."""


@dataclass(frozen=True, slots=True)
class MarkedRecord:
    """One record of a partition, with its kind, and for a control record its type of marker."""

    topic: str
    partition: int
    record: Record
    kind: str = DATA
    marker: str | None = None

    def as_dict(self) -> dict[str, Any]:
        record = self.record
        fields: dict[str, Any] = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "time": time_text(record.timestamp),
            "key": record.key,
            "value": record.value,
            "headers": [list(header) for header in record.headers],  # A header name may occur twice.
            "kind": self.kind,
        }
        if self.marker is not None:
            fields |= {"key": None, "value": None, "marker": self.marker}
        meaning = decoded(self.topic, record.key, record.value) if self.marker is None else None
        if meaning is not None:
            fields |= meaning
        return fields


def mark_records(
    partition: TopicPartition,
    records: Buffer,
    aborted: tuple[tuple[int, int], ...],
    last_stable_offset: int,
    open_since: Mapping[int, int] | None = None,
) -> Iterator[tuple[MarkedRecord | None, int]]:
    """Yield every record with its kind, and the next offset after its batch. A batch that compaction has emptied yields
    ``None`` with that offset.

    ``open_since`` has the first offset of the open transaction of each producer, if that is known. Without it, every
    transactional record from the last stable offset on counts as open. With it, those that belong to no open
    transaction count as waiting.
    """
    headers = list(iterate_headers(records, allow_partial_tail=True))
    transactions = [AbortedTransaction(*one) for one in aborted]
    visible = {position for position, _ in visible_batches(records, headers, transactions)}
    for position, header in headers:
        kind, marker = DATA, None
        if header.is_control:
            found = parse_marker(records, position)
            kind, marker = CONTROL, "control" if found is None else "commit" if found.committed else "abort"
        elif position not in visible:
            kind = ABORTED
        elif header.base_offset >= last_stable_offset:
            kind = _unstable(header, open_since)
        is_empty = True
        for record in iterate_records(records, position):
            is_empty = False
            yield MarkedRecord(*partition, record, kind, marker), header.next_offset
        if is_empty:
            yield None, header.next_offset


def _unstable(header: BatchHeader, open_since: Mapping[int, int] | None) -> str:
    """Return the kind of a batch at or after the last stable offset, which read_committed consumers do not get yet."""
    if open_since is None:
        return OPEN if header.is_transactional else DATA
    first = open_since.get(header.producer_id) if header.is_transactional else None
    return WAITING if first is None or header.base_offset < first else OPEN
