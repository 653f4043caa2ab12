"""Records as they are in the log, and for each whether it is data, aborted, in an open transaction, or control."""

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
"""It is in no open transaction, and stands behind one: read_committed readers do not get it yet."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One record and what it is."""

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
            "headers": [list(header) for header in record.headers],  # A name may stand there twice.
            "kind": self.kind,
        }
        if self.marker is not None:
            fields |= {"key": None, "value": None, "marker": self.marker}
        meaning = decoded(self.topic, record.key, record.value) if self.marker is None else None
        if meaning is not None:
            fields |= meaning
        return fields


def marked(
    partition: TopicPartition,
    records: Buffer,
    aborted: tuple[tuple[int, int], ...],
    last_stable_offset: int,
    open_since: Mapping[int, int] | None = None,
) -> Iterator[tuple[Seen | None, int]]:
    """Every record with what it is, and the end of its batch; ``None`` for a batch that compaction has emptied.

    ``open_since`` has the first offset of each producer's open transaction, where it is known. Without it, everything
    transactional from the last stable offset on counts as open; with it, what has ended there is waiting.
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
            yield Seen(*partition, record, kind, marker), header.next_offset
        if is_empty:
            yield None, header.next_offset


def _unstable(header: BatchHeader, open_since: Mapping[int, int] | None) -> str:
    """Of a batch that read_committed readers do not get yet."""
    if open_since is None:
        return OPEN if header.is_transactional else DATA
    first = open_since.get(header.producer_id) if header.is_transactional else None
    return WAITING if first is None or header.base_offset < first else OPEN
