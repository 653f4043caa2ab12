"""Before a batch of a transaction is appended: its partitions are added to the transaction, or it is verified that they
were, with the coordinator (KIP-890).

Newer producers (transactions V2) leave the adding to the broker; older ones have done it before (AddPartitionsToTxn),
and the broker makes sure. All partitions of a request are one question. What the coordinator says goes through each
partition's ``TransactionGate``.
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

if TYPE_CHECKING:  # Most brokers never see a transaction.
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
    """Say by ``respond`` which partitions may not be written to: at once if the coordinator need not be asked or knows
    at once, and then None is returned; otherwise later."""
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
                # Admitted, and then a marker came: of this transaction, or a late copy of the last one's, from a broker
                # that got no answer. The producer asks again, and the coordinator says which.
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
    """What a Produce request of that version is told, if it may not write to the partition."""
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
    """What a Produce request is told. Producers know fewer codes than the coordinator has.

    While the coordinator is busy they are to send the same request again, and NOT_ENOUGH_REPLICAS makes all of them do
    that, without looking for another leader.
    """
    if error in _COORDINATOR_IS_BUSY or (error is ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error_for_client(error, knows_abortable=knows_abortable)


def error_for_client(error: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """What Produce and TxnOffsetCommit have in common: they never learnt of PRODUCER_FENCED."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
