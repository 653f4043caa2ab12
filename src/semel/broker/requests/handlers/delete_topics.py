"""DeleteTopics (versions 1-6): deletes topics by name, and from version 6 on by name or id."""

from __future__ import annotations

from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.mutation_quota import within_quota
from semel.errors import ErrorCode
from semel.metadata.controller import TopicResult, TopicToDelete
from semel.metadata.controller import delete_topics as decide
from semel.types import ZERO_UUID
from semel.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

IDS_SINCE: Final = 6
DELETION_DISABLED_SINCE: Final = 3
THROTTLED_SINCE: Final = 5


async def delete_topics(node: Node, request: Request, message: DeleteTopicsRequest) -> DeleteTopicsResponse:
    if request.version >= IDS_SINCE:
        to_delete = [
            TopicToDelete(topic.name, None if topic.topic_id == ZERO_UUID else topic.topic_id)
            for topic in message.topics
        ]
    else:
        to_delete = [TopicToDelete(name) for name in message.topic_names]

    def partitions(topic: TopicToDelete) -> int:
        image = node.image
        known = image.topics.get(topic.name or "") if topic.id is None else image.topics_by_id.get(topic.id)
        return 0 if known is None else len(known.partitions)

    wanted, over_quota = within_quota(request, to_delete, partitions, strict_since=THROTTLED_SINCE)
    results = await node.change_topics(wanted, lambda image, some: decide(image, some, policy=node.topic_policy()))
    return DeleteTopicsResponse(responses=[_result(result, request.version) for result in (*results, *over_quota)])


def _result(result: TopicResult, version: int) -> DeletableTopicResult:
    topic_id = ZERO_UUID if result.id is None else result.id
    if result.refusal is None:
        return DeletableTopicResult(name=result.name, topic_id=topic_id)
    code = result.refusal.code
    if code is ErrorCode.TOPIC_DELETION_DISABLED and version < DELETION_DISABLED_SINCE:
        code = ErrorCode.INVALID_REQUEST
    return DeletableTopicResult(result.name, topic_id, code, result.refusal.message)
