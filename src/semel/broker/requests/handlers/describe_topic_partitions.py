"""DescribeTopicPartitions (version 0): the partitions of topics in the order of their names, page by page (KIP-966).

A page has a limited number of partitions. Its cursor names the first partition that did not fit. A request with this
cursor continues there, also if that topic has been deleted meanwhile. A cursor that cannot come from the pages of this
request is an error of every topic that the request names. Topics that the client may not describe are left
out before they are counted, so that no cursor names one.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.authorized_operations import topic_operations
from semel.errors import ErrorCode
from semel.metadata.image import ClusterImage, Topic
from semel.metadata.topic_names import why_illegal
from semel.security.rights import DESCRIBE_TOPIC, Rights
from semel.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)

PAGE_PARTITIONS_MAX: Final = 2000
SLICE_NAMES: Final = 500
"""How many names are checked against the client's rights in one slice."""


def describe_topic_partitions(
    node: Node, request: Request, message: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse | Coroutine[Any, Any, DescribeTopicPartitionsResponse]:
    if message.cursor is not None and not _is_possible(message.cursor, message.topics):
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(ErrorCode.INVALID_REQUEST, topic.name) for topic in message.topics
            ]
        )
    rights = node.rights(request)
    answer = _answer(node.image.seen_by(request.listener), message, rights)
    if rights is None or len(message.topics or node.image.topics) <= SLICE_NAMES:
        return node.turns.at_once(answer, elements=PAGE_PARTITIONS_MAX)
    return node.turns.run(answer, elements=PAGE_PARTITIONS_MAX)


def _is_possible(cursor: Cursor, topics: list[TopicRequest]) -> bool:
    return cursor.partition_index >= 0 and (not topics or any(topic.name == cursor.topic_name for topic in topics))


def _answer(
    image: ClusterImage, message: DescribeTopicPartitionsRequest, rights: Rights | None
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    """Make the response. If rights are checked, with a pause after every slice."""
    cursor, asked = message.cursor, {topic.name for topic in message.topics}
    names = sorted(asked or image.topics)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    hidden: list[str] = []
    if rights is not None:
        names, hidden = yield from _by_visibility(names, rights)
    remaining = max(1, min(message.response_partition_limit, PAGE_PARTITIONS_MAX))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if remaining == 0:
            response.next_cursor = Cursor(name, 0)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name, rights))
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        stop = min(len(topic.partitions), start + remaining)
        response.topics.append(_described(image, topic, start, stop, rights))
        if stop < len(topic.partitions):
            response.next_cursor = Cursor(name, stop)
            break
        remaining -= max(0, stop - start)
    if asked and rights is not None:
        response.topics += [_refused(name, rights) for name in hidden]
    return response


def _by_visibility(names: list[str], rights: Rights) -> Generator[None, None, tuple[list[str], list[str]]]:
    """Return the names that the client may describe, and the others."""
    visible: list[str] = []
    hidden: list[str] = []
    for number, name in enumerate(names, 1):
        (visible if rights.may(DESCRIBE_TOPIC, name) else hidden).append(name)
        if number % SLICE_NAMES == 0:
            yield
    return visible, hidden


def _described(
    image: ClusterImage, topic: Topic, start: int, stop: int, rights: Rights | None
) -> DescribeTopicPartitionsResponseTopic:
    partitions = [
        DescribeTopicPartitionsResponsePartition(
            error_code=ErrorCode.NONE if leader is not None else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=start + number,
            leader_id=leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas),
            isr_nodes=list(state.isr),
            eligible_leader_replicas=[],
            last_known_elr=[],
            offline_replicas=[replica for replica in state.replicas if replica not in image.brokers],
        )
        for number, (state, leader) in enumerate((state, image.leader(state)) for state in topic.partitions[start:stop])
    ]
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=topic_operations(rights, topic.name),
    )


def _unknown(name: str, rights: Rights | None) -> DescribeTopicPartitionsResponseTopic:
    valid = why_illegal(name) is None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        topic_authorized_operations=topic_operations(rights, name),
    )


def _refused(name: str, rights: Rights) -> DescribeTopicPartitionsResponseTopic:
    rights.refuse(DESCRIBE_TOPIC, name)
    return DescribeTopicPartitionsResponseTopic(error_code=DESCRIBE_TOPIC.refusal, name=name)
