"""CreatePartitions (versions 0-3): adds partitions to topics."""

from __future__ import annotations

from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.mutation_quota import within_quota
from semel.metadata.controller import NewPartitions, TopicResult
from semel.metadata.controller import create_partitions as decide
from semel.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

THROTTLED_SINCE: Final = 3


async def create_partitions(node: Node, request: Request, message: CreatePartitionsRequest) -> CreatePartitionsResponse:
    def added(topic: NewPartitions) -> int:
        known = node.image.topics.get(topic.name)
        return 0 if known is None else max(0, topic.count - len(known.partitions))

    topics = [_wanted(topic) for topic in message.topics]
    wanted, over_quota = within_quota(request, topics, added, strict_since=THROTTLED_SINCE)
    results = await node.change_topics(
        wanted,
        lambda image, some: decide(image, some, policy=node.topic_policy()),
        validate_only=message.validate_only,
    )
    return CreatePartitionsResponse(results=[_result(result) for result in (*results, *over_quota)])


def _wanted(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = None
    if topic.assignments is not None:
        assignments = tuple(tuple(assignment.broker_ids) for assignment in topic.assignments)
    return NewPartitions(topic.name, topic.count, assignments)


def _result(result: TopicResult) -> CreatePartitionsTopicResult:
    name = result.name or ""
    if result.refusal is None:
        return CreatePartitionsTopicResult(name)
    return CreatePartitionsTopicResult(name, result.refusal.code, result.refusal.message)
