"""The values that a client takes and returns: records, offsets, and where records were written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from semel.types import TopicPartition
from semel.wire.records import Headers

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar  # Defaults come with Python 3.13.

    K = TypeVar("K")
    V = TypeVar("V")


class RecordMetadata(NamedTuple):
    """Where a record was written.

    ``offset`` is ``None`` if the broker did not say: with acks=0, or for a record whose first acknowledgement was lost
    so long ago that the broker remembers only that it was written.
    """

    topic: str
    partition: int
    offset: int | None
    timestamp: int


class WrittenRange(NamedTuple):
    """Where records that were sent together were written in one partition. Other producers' records may be between."""

    first_offset: int | None
    last_offset: int | None
    record_count: int


class BulkMetadata(NamedTuple):
    """Where the records of a ``send_many`` or ``send_arrow`` were written, by partition."""

    topic: str
    record_count: int
    partitions: Mapping[int, WrittenRange]


class ProducerRecord(NamedTuple):
    """A record that is about to be sent, as ``on_send`` sees it: before its key and value are serialized."""

    topic: str
    value: Any
    key: Any = None
    partition: int | None = None
    headers: Headers = ()
    timestamp: int | None = None


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """A record that was read. A key or value of ``None`` is Kafka's null, not an empty one.

    Keys and values are bytes, or what a deserializer of the consumer has returned. ``ConsumerRecord[str, Order]`` is
    the type with deserializers that return these; ``ConsumerRecord`` alone is the type without deserializers.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: K | None
    value: V | None
    headers: Headers


class ProducerIdentity(NamedTuple):
    """What a producer needs to write within another one's transaction: see ``Producer.attach``."""

    producer_id: int
    producer_epoch: int
    transaction_version: int


class PartitionProgress(NamedTuple):
    """The progress of a producer in one partition: the sequences that it has used, and those known to be written."""

    next_sequence: int
    """The sequence of the next record that gets one."""
    acknowledged_sequence: int
    """The sequence of the first record that is not acknowledged yet."""
    on_wire: int
    """The number of batches that were sent and not answered yet."""
    waiting: int
    """The number of batches that wait to be sent, or to be sent again."""


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """A producer at one moment, as ``Producer.state`` gives it."""

    state: str
    """``open``, ``failed`` or ``closed``; with a transactional id its transaction's state, as ``in transaction``."""
    transactional_id: str | None
    producer_id: int | None
    """``None`` before the producer has one."""
    producer_epoch: int | None
    error: str | None
    """The error for which the transaction has to be aborted, or the producer closed."""
    partitions: Mapping[TopicPartition, PartitionProgress]


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A group's committed offset in a partition: the offset of the next record to read, and a text beside it."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A consumer group and the member that commits: with these, a member of an old generation is refused."""

    group_id: str
    generation_id: int | None = None
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndTimestamp(NamedTuple):
    """An offset found by time; ``timestamp`` is ``None`` if the offset is an end of the log, not a record's."""

    offset: int
    timestamp: int | None
