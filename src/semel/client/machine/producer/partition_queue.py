"""The batches of one partition, oldest first: those that were drained and are unsettled, then those that wait.

    drained    numbered and sent at least once; on the wire, or waiting to be sent again
    returned   drained once, known to be in no log, to get new numbers before anything that waits
    waiting    never drained; the last one may still take records

The law: batches leave in order. One that is sent again waits until those before it are settled, and nothing new is
drained while one waits to be sent again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from semel.client.machine.producer.batch import ProducerBatch
from semel.client.machine.producer.sequences import PartitionSequences
from semel.client.values import PartitionProgress
from semel.types import TopicPartition


class PartitionQueue:
    __slots__ = ("drained", "open", "returned", "sequences", "topic_partition", "waiting")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.waiting: deque[ProducerBatch] = deque()
        self.returned: deque[ProducerBatch] = deque()
        self.drained: list[ProducerBatch] = []
        self.sequences = PartitionSequences()
        self.open: ProducerBatch | None = None
        """The last waiting batch, if it takes more records."""

    @property
    def is_empty(self) -> bool:
        return not (self.waiting or self.drained or self.returned)

    def batches(self) -> Iterator[ProducerBatch]:
        yield from self.drained
        yield from self.returned
        yield from self.waiting

    @property
    def progress(self) -> PartitionProgress:
        on_wire = sum(batch.on_wire for batch in self.drained)
        waiting = len(self.drained) - on_wire + len(self.returned) + len(self.waiting)
        return PartitionProgress(self.sequences.next_sequence, self.sequences.acknowledged_end, on_wire, waiting)

    @property
    def oldest(self) -> ProducerBatch:
        return next(self.batches())

    def due_for_retry(self) -> ProducerBatch | None:
        """Return the batch that must be sent again before anything else, now or after its backoff."""
        if self.drained and not self.drained[0].on_wire:
            return self.drained[0]
        return None

    def may_drain_more(self, in_flight_max: int) -> bool:
        """Whether a batch that was never sent, or was returned, may be sent behind those on the wire."""
        return len(self.drained) < in_flight_max and all(batch.on_wire for batch in self.drained)

    def next_new(self) -> ProducerBatch | None:
        """Return the first batch without sequence numbers."""
        if self.returned:
            return self.returned[0]
        return self.waiting[0] if self.waiting else None

    def take_new(self) -> ProducerBatch:
        """Move ``next_new`` to the drained batches."""
        batch = self.returned.popleft() if self.returned else self.waiting.popleft()
        if batch is self.open:
            self.open = None
        self.drained.append(batch)
        return batch

    def give_back(self, batch: ProducerBatch) -> None:
        """Move a drained batch to the returned ones, without its numbers.

        The batch must be in no log and not on the wire. The batches that were drained after it follow in order.
        """
        self.drained.remove(batch)
        batch.numbers = None
        self.returned.append(batch)

    def remove(self, batch: ProducerBatch) -> None:
        if batch is self.open:
            self.open = None
        for batches in (self.drained, self.returned, self.waiting):
            if batch in batches:
                batches.remove(batch)
                return

    def replace(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Put the parts of a drained batch in its place."""
        position = self.drained.index(batch)
        self.drained[position : position + 1] = parts
