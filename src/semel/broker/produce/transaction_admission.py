"""Admission of a transactional batch, before it is appended: its coordinator adds the partitions to the transaction, or
verifies that they were added (KIP-890).

For newer producers (transactions V2) the broker adds the partitions. Older ones have added them before, with
AddPartitionsToTxn, and the broker verifies that. One question to the coordinator has all partitions of a Produce
request. Each partition's ``TransactionGate`` remembers the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.broker.produce.produce_batch import TRANSACTIONS_V2_SINCE
from semel.coordinator.decision import Waiter
from semel.coordinator.transaction.results import AddPartitionsResult
from semel.errors import ErrorCode, KafkaError
from semel.types import ProducerIdentity, TopicPartition

if TYPE_CHECKING:  # Imported with the first transaction: many brokers have none.
    from semel.broker.waiting.delayed_operation import HasClient
    from semel.coordinator.transaction.decisions import TransactionDecision
    from semel.coordinator.transaction.shard import TransactionShard

Refusals: TypeAlias = Mapping[TopicPartition, ErrorCode]
"""The partitions that may not be written to, and why."""

ABORTABLE_KNOWN_SINCE: Final = 11

_COORDINATOR_IS_BUSY: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def admit(
    node: Node,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Sequence[Partition],
    *,
    adds: bool,
    respond: Callable[[Refusals], None],
) -> HasClient | None:
    """Ask the coordinator to admit the producer to the partitions, and call ``respond`` with those that are refused.

    Returns None if ``respond`` was called before this returns: the gates are open, or the coordinator has answered at
    once. Otherwise returns the operation that the connection abandons if the client leaves.
    """
    closed = [partition for partition in partitions if not partition.gate.is_open(transactional_id, producer)]
    if not closed:
        respond({})
        return None
    askings = [partition.gate.ask(producer.producer_id) for partition in closed]
    topic_partitions = [partition.topic_partition for partition in closed]

    def decide(shard: TransactionShard) -> TransactionDecision[AddPartitionsResult]:
        return shard.add_partitions(
            transactional_id,
            *producer,
            topic_partitions,
            verify_only=not adds,
            transaction_version=2 if adds else 0,
            now_ms=node.clock.now_ms(),
        )

    def answered(result: AddPartitionsResult) -> None:
        refusals: dict[TopicPartition, ErrorCode] = {}
        for partition, asking in zip(closed, askings, strict=True):
            topic_partition = partition.topic_partition
            error = result.error or result.errors.get(topic_partition, ErrorCode.NONE)
            holds = partition.gate.answered(asking, transactional_id, producer, admitted=error is ErrorCode.NONE)
            if not holds:
                # Admitted, and then a marker was appended: of this transaction, or a late copy of the last one's, from
                # a broker that got no response. The producer sends again, and the coordinator knows which it was.
                refusals[topic_partition] = error or ErrorCode.NETWORK_EXCEPTION
        respond(refusals)

    coordinators, waiter = node.coordinators, Waiter(answered, AddPartitionsResult)
    remote = coordinators.remote_admission
    if remote is not None and (elsewhere := coordinators.transactions.elsewhere(transactional_id)) is not None:
        return remote.ask(elsewhere, transactional_id, producer, topic_partitions, adds=adds, waiter=waiter)
    return coordinators.transactions.run(transactional_id, decide, waiter)


def refusal(
    topic_partition: TopicPartition, refusals: Refusals, transactional_id: str, version: int
) -> KafkaError | None:
    """Return the error for a Produce request of this version if it may not write to the partition; None if it may."""
    error = refusals.get(topic_partition, ErrorCode.NONE)
    if error is ErrorCode.NONE:
        return None
    return KafkaError(
        error_for_producer(
            error, knows_abortable=version >= ABORTABLE_KNOWN_SINCE, adds=version >= TRANSACTIONS_V2_SINCE
        ),
        f"{topic_partition} may not be written to in the transaction of {transactional_id}: "
        f"its coordinator says {error.name}",
    )


def error_for_producer(error: ErrorCode, *, knows_abortable: bool, adds: bool) -> ErrorCode:
    """Return the error code for a Produce response. Producers know fewer codes than the coordinator has.

    While the coordinator is busy, the producer must send the same request again. NOT_ENOUGH_REPLICAS makes all
    producers do that, without looking for another leader.
    """
    if error in _COORDINATOR_IS_BUSY or (error is ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error_for_client(error, knows_abortable=knows_abortable)


def error_for_client(error: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """Return the error code for a client. Produce and TxnOffsetCommit use it: they do not know PRODUCER_FENCED."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
