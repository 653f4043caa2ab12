"""The choice of a partition for records that do not name one.

A record with a key goes where Kafka's Java client would send it. Records without a key stay with a partition until a
batch's worth of bytes has gone there, then move to another one, chosen at random: so batches become full, and
partitions get equal shares.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from semel.client.config.producer import ProducerConfig
from semel.client.machine.connection.cluster_view import TopicView
from semel.client.machine.producer.murmur2 import positive_murmur2

Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, int], int]
"""Returns the partition for (topic, key, value, partition count)."""


class Partitioning:
    """Chooses partitions for the records of a producer, for all its topics."""

    def __init__(self, config: ProducerConfig, random: Random, partitioner: Partitioner | None) -> None:
        self._partitioner = partitioner
        self.hashes_keys = partitioner is None and not config.partitioner_ignore_keys
        self.asks_for_each = partitioner is not None
        self._random = random
        self._batch_size = config.batch_size
        self._sticky: dict[str, StickyPartition] = {}

    def choose(self, topic: TopicView, key: bytes | None, value: bytes | None, size_bytes: int) -> int:
        if key is not None and self.hashes_keys:
            return positive_murmur2(key) % len(topic.partitions)
        if self._partitioner is not None:
            return self._asked(self._partitioner, topic, key, value)
        sticky = self.sticky(topic)
        chosen = sticky.choose(topic)
        sticky.sent(size_bytes)
        return chosen

    def sticky(self, topic: TopicView) -> StickyPartition:
        sticky = self._sticky.get(topic.name)
        if sticky is None:
            sticky = self._sticky[topic.name] = StickyPartition(self._random, self._batch_size)
        return sticky

    def staying(self, topic: str) -> StickyPartition | None:
        """Return the sticky partition of a topic, if the next record without a key goes there."""
        sticky = self._sticky.get(topic)
        return None if sticky is None or sticky.room_bytes <= 0 else sticky

    def _asked(self, partitioner: Partitioner, topic: TopicView, key: bytes | None, value: bytes | None) -> int:
        count = len(topic.partitions)
        chosen = partitioner(topic.name, key, value, count)
        if not 0 <= chosen < count:
            raise ValueError(
                f"the partitioner chose {chosen} for a record of {topic.name}, which has {count} partitions"
            )
        return chosen


class StickyPartition:
    """The partition of one topic that records without a key go to for now."""

    __slots__ = ("_random", "_size_bytes_max", "partition", "room_bytes")

    def __init__(self, random: Random, size_bytes_max: int) -> None:
        self._random = random
        self._size_bytes_max = size_bytes_max
        self.partition: int | None = None
        self.room_bytes = 0
        """How many more bytes go to the chosen partition before another one is chosen."""

    def choose(self, topic: TopicView) -> int:
        partition = self.partition
        if partition is None or self.room_bytes <= 0 or partition >= len(topic.partitions):
            partition = self.partition = self._random.choice(topic.available)
            self.room_bytes = self._size_bytes_max
        return partition

    def sent(self, size_bytes: int) -> None:
        """Count a record of this size that went to the chosen partition."""
        self.room_bytes -= size_bytes
