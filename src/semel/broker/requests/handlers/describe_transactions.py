"""DescribeTransactions (version 0): state, start time and partitions of transactions, by their ids (KIP-664)."""

from __future__ import annotations

from functools import partial
from itertools import groupby

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.ask_each import Respond, ask_each
from semel.coordinator.decision import Decision, Waiter
from semel.coordinator.transaction.results import TransactionDescription
from semel.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def describe_transactions(node: Node, request: Request, message: DescribeTransactionsRequest) -> None:
    def describe(transactional_id: str, respond: Respond[TransactionDescription]) -> None:
        node.coordinators.transactions.run(
            transactional_id,
            lambda shard: Decision(shard.describe(transactional_id)),
            Waiter(respond, refused=partial(TransactionDescription, transactional_id)),
        )

    ask_each(
        request,
        list(dict.fromkeys(message.transactional_ids)),
        describe,
        lambda described: DescribeTransactionsResponse(transaction_states=list(map(_state, described))),
    )


def _state(described: TransactionDescription) -> TransactionState:
    if described.state is None:
        return TransactionState(described.error, described.transactional_id)
    by_topic = groupby(described.partitions, key=lambda partition: partition.topic)
    return TransactionState(
        error_code=described.error,
        transactional_id=described.transactional_id,
        transaction_state=described.state.kafka_name,
        transaction_timeout_ms=described.timeout_ms,
        transaction_start_time_ms=described.started_ms,
        producer_id=described.producer_id,
        producer_epoch=described.producer_epoch,
        topics=[TopicData(topic, [partition.partition for partition in group]) for topic, group in by_topic],
    )
