"""The records that a read_committed consumer sees, read directly from the broker's log, without a client."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from semel.broker.node import Node
from semel.client.machine.consumer.fetched import FetchedRecords
from semel.client.values import ConsumerRecord
from semel.log.partition_log import Isolation, PartitionLog
from semel.wire.messages.fetch import AbortedTransaction

_READ_BYTES: Final = 8 * 1024 * 1024


def committed_records(node: Node, topic: str, partition: int | None = None) -> list[ConsumerRecord]:
    """By partition and offset. Raises ``KeyError`` for a topic, or a partition, that does not exist."""
    partitions = _partitions(node, topic)
    if partition is not None and partition not in partitions:
        raise KeyError(f"topic {topic!r} has no partition {partition}; it has {len(partitions)}")
    wanted = partitions if partition is None else (partition,)
    return [record for index in wanted for record in _of(node.led_partition(topic, index).log)]


def has_open_transaction(node: Node, topic: str) -> bool:
    """Whether read_committed readers wait for a transaction to end. Raises ``KeyError`` for no such topic."""
    logs = (node.led_partition(topic, index).log for index in _partitions(node, topic))
    return any(log.last_stable_offset < log.high_watermark for log in logs)


def _partitions(node: Node, topic: str) -> range:
    described = node.image.topics.get(topic)
    if described is None:
        raise KeyError(f"there is no topic {topic!r}; there are {sorted(node.image.topics)}")
    return range(len(described.partitions))


def _of(log: PartitionLog) -> Iterator[ConsumerRecord]:
    offset = log.log_start_offset
    while offset < log.last_stable_offset:
        read = log.read(offset, _READ_BYTES, isolation=Isolation.READ_COMMITTED)
        aborted = [AbortedTransaction(one.producer_id, one.first_offset) for one in read.aborted or ()]
        fetched = FetchedRecords(
            log.topic_partition, 0, read.records, fetch_offset=offset, aborted=aborted, check_crcs=True
        )
        yield from fetched.take(sys.maxsize)
        if fetched.error is not None:
            raise fetched.error
        if fetched.next_offset == offset:
            return  # Compaction has left nothing up to the last stable offset.
        offset = fetched.next_offset
