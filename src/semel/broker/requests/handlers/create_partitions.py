"""CreatePartitions (versions 0-3): let topics grow."""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.metadata.controller import NewPartitions, TopicResult
from semel.metadata.controller import create_partitions as decide
from semel.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


async def create_partitions(node: Node, request: Request, message: CreatePartitionsRequest) -> CreatePartitionsResponse:
    wanted = [_wanted(topic) for topic in message.topics]
    results = await node.change(
        lambda image: decide(image, wanted, policy=node.topic_policy()),
        validate_only=message.validate_only,
        unstored=lambda refusal: [TopicResult(topic.name, refusal=refusal) for topic in wanted],
    )
    return CreatePartitionsResponse(results=[_result(result) for result in results])


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
