"""AddPartitionsToTxn (versions 0-5): adds partitions to a transaction, before the transaction writes to them.

Up to version 3 a client adds partitions to its transaction, all of them or none. From version 4 on a broker adds or
only verifies partitions, for many transactions at once.

A client writes next to the partitions that it adds here. If this broker leads such a partition, too, the partition's
gate gets the coordinator's decision at once, so that the first batch needs no verification.
"""

from __future__ import annotations

from functools import partial
from typing import Final, TypeAlias

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.partitions.transaction_gate import TransactionGate
from semel.broker.requests.handlers.ask_each import Respond, ask_each
from semel.coordinator.decision import Waiter
from semel.coordinator.transaction.decisions import TransactionDecision
from semel.coordinator.transaction.results import AddPartitionsResult, error_for_version
from semel.coordinator.transaction.shard import TransactionShard
from semel.errors import ErrorCode
from semel.security.rights import WRITE_TOPIC, Rights
from semel.types import INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC, ProducerIdentity, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

BATCHES_SINCE: Final = 4

TopicResults: TypeAlias = list[AddPartitionsToTxnTopicResult]


def add_partitions_to_txn(
    node: Node, request: Request, message: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | None:
    if request.version >= BATCHES_SINCE:
        if node.peers is not None and not request.is_from_broker:
            return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        transactions = message.transactions
    else:
        transactions = [
            AddPartitionsToTxnTransaction(
                message.v3_and_below_transactional_id,
                message.v3_and_below_producer_id,
                message.v3_and_below_producer_epoch,
                topics=message.v3_and_below_topics,
            )
        ]

    def response(added: list[TopicResults]) -> AddPartitionsToTxnResponse:
        if request.version < BATCHES_SINCE:
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=added[0])
        ids = [transaction.transactional_id for transaction in transactions]
        return AddPartitionsToTxnResponse(results_by_transaction=list(map(AddPartitionsToTxnResult, ids, added)))

    ask_each(request, transactions, partial(_add, node, request), response)
    return None


def _add(
    node: Node, request: Request, transaction: AddPartitionsToTxnTransaction, respond: Respond[TopicResults]
) -> None:
    version = request.version
    partitions = [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    refused = {}
    if not request.is_from_broker:  # A broker leads these partitions, and its image may be newer.
        rights = node.rights(request) if version < BATCHES_SINCE else None
        refused = {
            partition: error for partition in partitions if (error := _refusal(node, version, partition, rights))
        }
    if refused:
        # One invalid partition refuses the whole transaction: the client has to send all of them again.
        errors = {partition: refused.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in partitions}
        respond(_results(transaction.topics, errors))
        return

    producer = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
    gates = [] if version >= BATCHES_SINCE else _gates(node, partitions)
    askings = [gate.ask(producer.producer_id) for gate in gates]

    def decide(shard: TransactionShard) -> TransactionDecision[AddPartitionsResult]:
        decision = shard.add_partitions(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            partitions,
            verify_only=transaction.verify_only,
            transaction_version=2 if version >= BATCHES_SINCE else 0,
            now_ms=node.clock.now_ms(),
        )
        # A broker's request is for many transactions: it must not wait until one of them has ended.
        return decision._replace(wait_for=None) if request.is_from_broker else decision

    def added(result: AddPartitionsResult) -> None:
        for gate, asking in zip(gates, askings, strict=True):
            gate.answered(asking, transaction.transactional_id, producer, admitted=result.error is ErrorCode.NONE)
        common = error_for_version(result.error, ApiKey.ADD_PARTITIONS_TO_TXN, version)
        errors = {partition: result.errors.get(partition, common) for partition in partitions}
        respond(_results(transaction.topics, errors))

    node.coordinators.transactions.run(transaction.transactional_id, decide, Waiter(added, AddPartitionsResult))


def _gates(node: Node, partitions: list[TopicPartition]) -> list[TransactionGate]:
    """Return the gates of the partitions that this broker leads."""
    led = (node.partitions.get(*partition) for partition in partitions)
    return [partition.gate for partition in led if partition is not None]


def _refusal(node: Node, version: int, partition: TopicPartition, rights: Rights | None) -> ErrorCode:
    # Brokers add partitions of __consumer_offsets. In __transaction_state no marker is written, so a transaction with a
    # partition of it would never be complete.
    if partition.topic == TRANSACTION_STATE_TOPIC or (version < BATCHES_SINCE and partition.topic in INTERNAL_TOPICS):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if rights is not None and not rights.demand(WRITE_TOPIC, partition.topic):
        return WRITE_TOPIC.refusal
    if node.image.partition(*partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _results(topics: list[AddPartitionsToTxnTopic], errors: dict[TopicPartition, ErrorCode]) -> TopicResults:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(index, errors[TopicPartition(topic.name, index)])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
