"""What goes into a client and comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from semel.wire.records import Headers


class RecordMetadata(NamedTuple):
    """Where a record was written. ``offset`` is ``None`` if the broker did not say: with acks=0, or for a record whose
    first acknowledgement was lost so long ago that only its existence is remembered."""

    topic: str
    partition: int
    offset: int | None
    timestamp: int


class ConsumerRecord(NamedTuple):
    """A record that was read. A key or value of ``None`` is Kafka's null, not an empty one."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class ProducerIdentity(NamedTuple):
    """What a producer needs to write within another one's transaction: see ``Producer.attach``."""

    producer_id: int
    producer_epoch: int
    transaction_version: int


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """How far a group has read a partition: the offset of the next record to read, and a note beside it."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A consumer group, and which member of it commits: with these, a member of an old generation is refused."""

    group_id: str
    generation_id: int | None = None
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndTimestamp(NamedTuple):
    """A record found by its time."""

    offset: int
    timestamp: int
