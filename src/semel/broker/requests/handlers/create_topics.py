"""CreateTopics (versions 2-7): creates topics. The rules are in ``semel.metadata.controller``."""

from __future__ import annotations

from typing import Final

from semel.broker.config.config_entries import topic_entries
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.mutation_quota import within_quota
from semel.errors import ErrorCode
from semel.metadata.controller import PARTITIONS_PER_REQUEST_MAX, NewTopic, TopicResult
from semel.metadata.controller import create_topics as decide
from semel.metadata.image import Topic
from semel.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

THROTTLED_SINCE: Final = 6


async def create_topics(node: Node, request: Request, message: CreateTopicsRequest) -> CreateTopicsResponse:
    def partitions(topic: NewTopic) -> int:
        asked = len(topic.assignments) or topic.num_partitions or node.config.num_partitions
        return min(max(asked, 0), PARTITIONS_PER_REQUEST_MAX)

    topics = [_wanted(topic) for topic in message.topics]
    wanted, over_quota = within_quota(request, topics, partitions, strict_since=THROTTLED_SINCE)
    results = await node.change_topics(
        wanted,
        lambda image, some: decide(image, some, policy=node.topic_policy(), new_id=node.new_topic_id),
        validate_only=message.validate_only,
    )
    return CreateTopicsResponse(topics=[_result(node, result) for result in (*results, *over_quota)])


def _wanted(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple((given.partition_index, tuple(given.broker_ids)) for given in topic.assignments),
        configs={config.name: config.value for config in topic.configs},
    )


def _result(node: Node, result: TopicResult) -> CreatableTopicResult:
    name = result.name or ""
    if result.refusal is not None:
        return CreatableTopicResult(name=name, error_code=result.refusal.code, error_message=result.refusal.message)
    assert result.topic is not None
    return CreatableTopicResult(
        name=name,
        topic_id=result.topic.id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(result.topic.partitions),
        replication_factor=result.topic.replication_factor,
        configs=_configs(node, result.topic),
    )


def _configs(node: Node, topic: Topic) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(entry.name, entry.value, entry.is_read_only, entry.source, entry.is_sensitive)
        for entry in topic_entries(topic.configs, node.config)
    ]
