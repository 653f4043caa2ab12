"""Checks the records of a log against the records that were sent and acknowledged.

Several producers send numbered records to each partition. Whatever faults the broker had meanwhile, the log that is
read afterwards is judged by these rules (the names are those of Jepsen's analyses of Kafka):

    lost-write            acknowledged, and not in the log
    inconsistent-offset   acknowledged at one offset, found at another
    duplicate             found at more than one offset
    nonmonotonic          found after a record that the same producer sent later to the same partition
    unsent                found, and no producer sent it
    unresolved            neither acknowledged nor refused, although the broker was healthy for long enough at the end

A record whose send failed or was never answered may be there or not: both are correct.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Sent(NamedTuple):
    """The identity of a record: the ``sequence``-th that this producer sent to this partition."""

    partition: int
    producer: int
    sequence: int

    def to_value(self, size_bytes: int) -> bytes:
        return f"{self.partition}/{self.producer}/{self.sequence}/".encode().ljust(size_bytes, b".")

    @classmethod
    def from_value(cls, value: bytes) -> Sent:
        partition, producer, sequence, _ = value.split(b"/", 3)
        return cls(int(partition), int(producer), int(sequence))


class Found(NamedTuple):
    """One record as a consumer read it."""

    partition: int
    offset: int
    sent: Sent


@dataclass(slots=True)
class History:
    """The records that producers sent, and their outcomes. It is written during the test and checked afterwards."""

    sent: set[Sent] = field(default_factory=set)
    acknowledged: dict[Sent, int] = field(default_factory=dict)
    refused: dict[Sent, str] = field(default_factory=dict)

    def resolved(self) -> int:
        return len(self.acknowledged) + len(self.refused)


@dataclass(frozen=True, slots=True)
class Anomaly:
    kind: str
    partition: int
    message: str

    def __str__(self) -> str:
        return f"{self.kind} on partition {self.partition}: {self.message}"


def anomalies(history: History, log: Iterable[Found]) -> list[Anomaly]:
    """Return all contradictions between the log and the history; none means "exactly once, in order"."""
    found = sorted(log)
    offsets: dict[Sent, list[int]] = {}
    for record in found:
        offsets.setdefault(record.sent, []).append(record.offset)
    return [
        *_lost(history, offsets),
        *_misplaced(history, offsets),
        *_duplicated(offsets),
        *_out_of_order(found),
        *(Anomaly("unsent", sent.partition, f"{sent}") for sent in offsets if sent not in history.sent),
        *_unresolved(history),
    ]


def kinds(found: Iterable[Anomaly]) -> Mapping[str, int]:
    return Counter(anomaly.kind for anomaly in found)


def _lost(history: History, offsets: Mapping[Sent, list[int]]) -> Iterable[Anomaly]:
    for sent, offset in history.acknowledged.items():
        if sent not in offsets:
            yield Anomaly("lost-write", sent.partition, f"{sent} was acknowledged at offset {offset}")


def _misplaced(history: History, offsets: Mapping[Sent, list[int]]) -> Iterable[Anomaly]:
    for sent, offset in history.acknowledged.items():
        if sent in offsets and offset not in offsets[sent]:
            message = f"{sent} was acknowledged at offset {offset} and found at {offsets[sent]}"
            yield Anomaly("inconsistent-offset", sent.partition, message)


def _duplicated(offsets: Mapping[Sent, list[int]]) -> Iterable[Anomaly]:
    for sent, places in offsets.items():
        if len(places) > 1:
            yield Anomaly("duplicate", sent.partition, f"{sent} at offsets {places}")


def _out_of_order(found: list[Found]) -> Iterable[Anomaly]:
    latest: dict[tuple[int, int], Found] = {}
    for record in found:
        key = (record.partition, record.sent.producer)
        before = latest.setdefault(key, record)
        if record.sent.sequence < before.sent.sequence:
            message = f"{record.sent} at offset {record.offset} stands after {before.sent} at {before.offset}"
            yield Anomaly("nonmonotonic", record.partition, message)
        else:
            latest[key] = record


def _unresolved(history: History) -> Iterable[Anomaly]:
    for sent in history.sent - history.acknowledged.keys() - history.refused.keys():
        yield Anomaly("unresolved", sent.partition, f"{sent} was never answered")
