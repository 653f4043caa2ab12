"""DescribeTopicPartitions (version 0): the partitions of topics in the order of their names, page by page (KIP-966).

A page holds a limited number of partitions. Its cursor names the first partition that did not fit, and asking again
with it goes on from there, also if that topic has been deleted meanwhile.
"""

from __future__ import annotations

from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.authorized_operations import TOPIC_OPERATIONS
from semel.errors import ErrorCode, KafkaError
from semel.metadata.image import ClusterImage, Topic
from semel.metadata.topic_names import why_illegal
from semel.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

PAGE_PARTITIONS_MAX: Final = 2000


def describe_topic_partitions(
    node: Node, request: Request, message: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    image, cursor = node.image, message.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the cursor names partition {cursor.partition_index}")
    names = sorted({topic.name for topic in message.topics} or image.topics)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    remaining = max(1, min(message.response_partition_limit, PAGE_PARTITIONS_MAX))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if remaining == 0:
            response.next_cursor = Cursor(name, 0)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        stop = min(len(topic.partitions), start + remaining)
        response.topics.append(_described(image, topic, start, stop))
        if stop < len(topic.partitions):
            response.next_cursor = Cursor(name, stop)
            break
        remaining -= max(0, stop - start)
    return response


def _described(image: ClusterImage, topic: Topic, start: int, stop: int) -> DescribeTopicPartitionsResponseTopic:
    partitions = [
        DescribeTopicPartitionsResponsePartition(
            error_code=ErrorCode.NONE if state.leader is not None else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=start + number,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas),
            isr_nodes=list(state.isr),
            eligible_leader_replicas=[],
            last_known_elr=[],
            offline_replicas=[replica for replica in state.replicas if replica not in image.brokers],
        )
        for number, state in enumerate(topic.partitions[start:stop])
    ]
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    valid = why_illegal(name) is None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION, name=name
    )
