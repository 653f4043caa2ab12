"""Hanging transactions: open ones that no coordinator will end.

A transaction hangs if a partition has had it open for longer than any transaction may last, and the coordinator does
not know that the partition belongs to a transaction: no marker will ever be written, and read_committed consumers wait
at it for ever. These are the rules of Kafka's own tool, ``kafka-transactions.sh find-hanging`` (KIP-664).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from semel.client.admin.partitions import ProducerState
from semel.types import TopicPartition


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """An open transaction that no coordinator will end.

    ``transactional_id`` is ``None`` if no coordinator knows the producer. ``admin.transactions.abort(found.partition,
    start_offset=found.start_offset)`` ends it.
    """

    partition: TopicPartition
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    last_timestamp: int | None
    transactional_id: str | None


def candidates(
    producers: Mapping[TopicPartition, Iterable[ProducerState]], *, now_ms: int, max_transaction_timeout_ms: int
) -> list[tuple[TopicPartition, ProducerState]]:
    """Return the open transactions in which nothing was written for longer than any transaction may last."""
    return [
        (partition, state)
        for partition, states in producers.items()
        for state in states
        if state.transaction_start_offset is not None
        and (state.last_timestamp is None or now_ms - state.last_timestamp > max_transaction_timeout_ms)
    ]


def hanging(
    open_transactions: Iterable[tuple[TopicPartition, ProducerState]],
    transactional_ids: Mapping[int, str],
    known_partitions: Mapping[str, Iterable[TopicPartition]],
) -> tuple[HangingTransaction, ...]:
    """Return the transactions whose partition is, for the coordinators, in no transaction of this producer.

    ``transactional_ids`` has the producers that coordinators know, ``known_partitions`` the partitions of each
    transactional id; an id that was forgotten meanwhile has none.
    """
    found = []
    for partition, state in open_transactions:
        transactional_id = transactional_ids.get(state.producer_id)
        if transactional_id is not None and partition in known_partitions.get(transactional_id, ()):
            continue
        assert state.transaction_start_offset is not None, "a candidate has an open transaction"
        found.append(
            HangingTransaction(
                partition,
                state.transaction_start_offset,
                state.producer_id,
                state.producer_epoch,
                state.coordinator_epoch,
                state.last_timestamp,
                transactional_id,
            )
        )
    return tuple(sorted(found, key=lambda transaction: (transaction.partition, transaction.start_offset)))
