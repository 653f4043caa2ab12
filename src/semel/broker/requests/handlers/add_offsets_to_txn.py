"""AddOffsetsToTxn (versions 0-4): announces that a transaction will commit offsets of a group.

This adds one partition to the transaction: the partition of ``__consumer_offsets`` that stores the group.
"""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.coordinator.decision import Waiter
from semel.coordinator.transaction.decisions import TransactionDecision
from semel.coordinator.transaction.results import AddPartitionsResult, error_for_version
from semel.coordinator.transaction.shard import TransactionShard
from semel.types import CONSUMER_OFFSETS_TOPIC, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


def add_offsets_to_txn(node: Node, request: Request, message: AddOffsetsToTxnRequest) -> None:
    partition = node.coordinators.groups.partition_for(message.group_id)

    def decide(shard: TransactionShard) -> TransactionDecision[AddPartitionsResult]:
        return shard.add_partitions(
            message.transactional_id,
            message.producer_id,
            message.producer_epoch,
            [TopicPartition(CONSUMER_OFFSETS_TOPIC, partition)],
            now_ms=node.clock.now_ms(),
        )

    def respond(result: AddPartitionsResult) -> None:
        code = error_for_version(result.error, ApiKey.ADD_OFFSETS_TO_TXN, request.version)
        request.answer_delayed(lambda: AddOffsetsToTxnResponse(error_code=code))

    request.hold_until_answered(
        node.coordinators.transactions.run(message.transactional_id, decide, Waiter(respond, AddPartitionsResult))
    )
