"""DescribeProducers (version 0): who writes to a partition, and where its open transaction began (KIP-664)."""

from __future__ import annotations

from semel.broker.node import Node
from semel.broker.request import Request
from semel.errors import KafkaError
from semel.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def describe_producers(node: Node, request: Request, message: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(topic.name, [_described(node, topic.name, index) for index in topic.partition_indexes])
            for topic in message.topics
        ]
    )


def _described(node: Node, topic: str, index: int) -> PartitionResponse:
    try:
        partition = node.led_partition(topic, index)
    except KafkaError as error:
        return PartitionResponse(index, error.code, error.message)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=_or_none(producer.last_sequence),
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=_or_none(producer.coordinator_epoch),
                current_txn_start_offset=_or_none(producer.current_transaction_start_offset),
            )
            for producer in partition.log.describe_producers()
        ],
    )


def _or_none(number: int | None) -> int:
    return -1 if number is None else number
