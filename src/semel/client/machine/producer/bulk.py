"""Many records of one topic, sent with one call: encoded piece by piece as the buffer has room for them.

The machine decides when a piece is encoded and how large it is; ``client.arrow.bulk`` encodes the columns. The law: a
bulk's batches are those that its records would have made one by one, beginning with an empty batch in each partition,
and they enter the partitions' queues in the order of the records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from semel.client.machine.connection.cluster_view import TopicView
from semel.client.machine.producer.batch import Delivery, Flush
from semel.client.machine.producer.partitioner import Partitioning


class BulkBatch(NamedTuple):
    """One batch of a bulk, for one partition."""

    partition: int
    records: bytes
    record_count: int


class Bulk(Protocol):
    topic: str
    record_count: int
    size_bytes: int
    """The approximate size of its records."""

    def largest(self) -> tuple[int, int]:
        """Return the row of the largest record, and its size as ``Admission.add`` would count it."""

    def spread(self, topic: TopicView, partitioning: Partitioning) -> int | None:
        """Choose the partition of every record. Returns one that a record names and the topic lacks, if any."""

    def take(self, size_bytes: int) -> list[BulkBatch]:
        """Return the next batches, of about this size before compression; none at the end."""


@dataclass(slots=True, eq=False)
class WaitingBulk:
    """A bulk in the buffer queue, which it leaves with its last piece."""

    topic: str
    bulk: Bulk
    delivery: Delivery
    size_bytes: int
    deadline_ms: float
    records_left: int
    known_by: int
    """The number of the metadata update that has every partition that existed when this bulk was sent."""
    flushes: list[Flush] = field(default_factory=list)
    is_spread: bool = False
