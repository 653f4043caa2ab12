"""DeleteTopics (versions 1-6): by name, and from version 6 by name or id."""

from __future__ import annotations

from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode
from semel.metadata.controller import TopicResult, TopicToDelete
from semel.metadata.controller import delete_topics as decide
from semel.types import ZERO_UUID
from semel.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

IDS_SINCE: Final = 6
DELETION_DISABLED_SINCE: Final = 3


async def delete_topics(node: Node, request: Request, message: DeleteTopicsRequest) -> DeleteTopicsResponse:
    if request.version >= IDS_SINCE:
        doomed = [
            TopicToDelete(topic.name, None if topic.topic_id == ZERO_UUID else topic.topic_id)
            for topic in message.topics
        ]
    else:
        doomed = [TopicToDelete(name) for name in message.topic_names]
    results = await node.change(
        lambda image: decide(image, doomed, policy=node.topic_policy()),
        unstored=lambda refusal: [TopicResult(topic.name, refusal=refusal, id=topic.id) for topic in doomed],
    )
    return DeleteTopicsResponse(responses=[_result(result, request.version) for result in results])


def _result(result: TopicResult, version: int) -> DeletableTopicResult:
    topic_id = ZERO_UUID if result.id is None else result.id
    if result.refusal is None:
        return DeletableTopicResult(name=result.name, topic_id=topic_id)
    code = result.refusal.code
    if code is ErrorCode.TOPIC_DELETION_DISABLED and version < DELETION_DISABLED_SINCE:
        code = ErrorCode.INVALID_REQUEST
    return DeletableTopicResult(result.name, topic_id, code, result.refusal.message)
