"""The records that a read_committed consumer sees, read directly from the broker's log, without a client."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.client.machine.consumer.fetched import FetchedRecords
from semel.client.values import ConsumerRecord
from semel.log.outcomes import Isolation
from semel.log.partition_log import PartitionLog
from semel.types import TRANSACTION_STATE_TOPIC
from semel.wire.messages.fetch import AbortedTransaction

_READ_BYTES: Final = 8 * 1024 * 1024


def committed_records(nodes: Sequence[Node], topic: str, partition: int | None = None) -> list[ConsumerRecord]:
    """Return the committed records of the topic, by partition and offset, from those of the nodes that lead it.

    Raises ``KeyError`` for a topic or partition that does not exist.
    """
    partitions = _partitions(nodes, topic)
    if partition is not None and partition not in partitions:
        raise KeyError(f"topic {topic!r} has no partition {partition}; it has {len(partitions)}")
    wanted = partitions if partition is None else (partition,)
    return [record for index in wanted for record in _of(_led(nodes, topic, index).log)]


def has_open_transaction(nodes: Sequence[Node], topic: str) -> bool:
    """Whether read_committed consumers of the topic wait for a transaction to end.

    Raises ``KeyError`` for a topic that does not exist.
    """
    logs = (_led(nodes, topic, index).log for index in _partitions(nodes, topic))
    return any(log.last_stable_offset < log.high_watermark for log in logs)


def is_settling(nodes: Sequence[Node], topic: str) -> bool:
    """Whether the result of a decided transaction is not visible yet in a partition that a node leads or will lead.

    EndTxn is answered when the transaction is decided; the markers reach the partitions on other brokers a moment
    later, and are visible once they are synced. When a broker has died, other brokers become leaders and coordinators
    in its place a moment later.
    """
    if any(_is_between_leaders(nodes, topic, index) for index in _partitions(nodes, topic)):
        return True
    logs = [
        partition.log for node in nodes for partition in node.partitions if partition.topic_partition.topic == topic
    ]
    if any(log.high_watermark < log.log_end_offset for log in logs):
        return True
    if not any(log.producers.open_transactions for log in logs):
        return False
    if any(_is_without_coordinator(nodes, index) for index in _partitions(nodes, TRANSACTION_STATE_TOPIC)):
        return True
    owed = {
        (partition, marker.producer_id)
        for node in nodes
        if node.active_coordinators is not None
        for runtime in node.active_coordinators.transactions
        for marker in runtime.shard.pending_markers()
        for partition in marker.partitions
    }
    return any(
        (log.topic_partition, opened.producer_id) in owed for log in logs for opened in log.producers.open_transactions
    )


def _is_between_leaders(nodes: Sequence[Node], topic: str, index: int) -> bool:
    """Whether none of the nodes leads the partition now, and one of them will, because it is an in-sync replica."""
    if any(node.partitions.get(topic, index) is not None for node in nodes):
        return False
    known = (node.image.partition(topic, index) for node in nodes)
    in_sync = {node_id for state in known if state is not None for node_id in state.isr}
    return any(node.config.node_id in in_sync and (topic, index) not in node.partitions.unavailable for node in nodes)


def _is_without_coordinator(nodes: Sequence[Node], index: int) -> bool:
    """Whether this partition of ``__transaction_state`` has no loaded coordinator now, and will have one."""
    for node in nodes:
        if node.partitions.get(TRANSACTION_STATE_TOPIC, index) is not None:
            coordinators = node.active_coordinators
            runtime = None if coordinators is None else coordinators.transactions.runtime(index)
            return runtime is None or (runtime.refusal is not None and runtime.failure is None)
    return _is_between_leaders(nodes, TRANSACTION_STATE_TOPIC, index)


def _partitions(nodes: Sequence[Node], topic: str) -> range:
    described = next((node.image.topics[topic] for node in nodes if topic in node.image.topics), None)
    if described is None:
        known = sorted({name for node in nodes for name in node.image.topics})
        raise KeyError(f"there is no topic {topic!r}; there are {known}")
    return range(len(described.partitions))


def _led(nodes: Sequence[Node], topic: str, index: int) -> Partition:
    for node in nodes:
        partition = node.partitions.get(topic, index)
        if partition is not None:
            return partition
    return nodes[0].led_partition(topic, index)  # Raises the error that says why it is not led.


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
