"""Many records of one topic, sent with one call: encoded piece by piece as the buffer has room for them.

The machine decides when and how much; how columns become batches is the bulk's own business (``client.arrow.bulk``).
The law: its batches are those that its records would have made one by one, beginning with an empty batch in each
partition, and they enter the partitions' queues in the order of the records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from semel.client.machine.connection.cluster_view import TopicView
from semel.client.machine.producer.batch import Delivery, Flush
from semel.client.machine.producer.partitioner import Partitioning


class Piece(NamedTuple):
    """One batch of a bulk, for one partition."""

    partition: int
    records: bytes
    record_count: int


class Bulk(Protocol):
    topic: str
    record_count: int
    size_bytes: int
    """About what its records take."""

    def largest(self) -> tuple[int, int]:
        """The row of the largest record, and what it takes as ``add`` would count it."""

    def spread(self, topic: TopicView, partitioning: Partitioning) -> int | None:
        """Choose the partition of every record. Returns a partition that one names and the topic has not, if any."""

    def take(self, size_bytes: int) -> list[Piece]:
        """The next batches, of about so many bytes before compression; none when it is over."""


@dataclass(slots=True, eq=False)
class WaitingBulk:
    """A bulk in the waiting room: it leaves when its last piece has."""

    topic: str
    bulk: Bulk
    delivery: Delivery
    size_bytes: int
    deadline_ms: float
    records_left: int
    known_by: int
    """The update of the metadata that shows every partition that there was when it was sent."""
    flushes: list[Flush] = field(default_factory=list)
    is_spread: bool = False
