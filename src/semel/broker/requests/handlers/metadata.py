"""Metadata (versions 0-13): the brokers, and who leads which partition; and topics that are created by asking for them.

The answer depends on the cluster's image and the request alone, so it is kept encoded until the image changes, unless
the request may create a topic. A topic created this way is in the answer: the client need not ask again.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable
from functools import partial
from typing import Any, Final
from uuid import UUID

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from semel.errors import ErrorCode
from semel.metadata.controller import NewTopic, Refusal, TopicResult, create_topics
from semel.metadata.image import ClusterImage, PartitionState, Topic
from semel.metadata.topic_names import why_illegal
from semel.types import INTERNAL_TOPICS, ZERO_UUID
from semel.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

SLICE_PARTITIONS: Final = 1000
"""How many topics and partitions are described before the others get their turn."""
CREATED_AT_ONCE: Final = 100
NULL_IS_ALL_SINCE: Final = 1
TOPIC_IDS_SINCE: Final = 12


def metadata(
    node: Node, request: Request, message: MetadataRequest
) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    creatable = _creatable(node, message)
    if creatable:
        return _created(node, request.version, message, creatable)
    request.cacheable(node.answers)
    answer = _answer(node, request.version, message, {})
    weight = _weight(node, message)
    if weight <= SLICE_PARTITIONS:
        return node.turns.at_once(answer, elements=weight)
    return node.turns.run(answer, elements=SLICE_PARTITIONS)


async def _created(node: Node, version: int, message: MetadataRequest, names: list[str]) -> MetadataResponse:
    refused: dict[str, ErrorCode] = {}
    for start in range(0, len(names), CREATED_AT_ONCE):
        some = names[start : start + CREATED_AT_ONCE]
        wanted = [NewTopic(name) for name in some]
        results = await node.change(
            partial(create_topics, topics=wanted, policy=node.topic_policy(), new_id=node.new_topic_id),
            unstored=partial(_unstored, some),
        )
        refused |= {result.name or "": result.refusal.code for result in results if result.refusal is not None}
    return await node.turns.run(_answer(node, version, message, refused), elements=SLICE_PARTITIONS)


def _unstored(names: list[str], refusal: Refusal) -> list[TopicResult]:
    return [TopicResult(name, refusal=refusal) for name in names]


def _weight(node: Node, message: MetadataRequest) -> int:
    """About how many topics and partitions the answer has, or more than a slice."""
    topics = node.image.topics
    if not message.topics:
        return len(topics) + len(node.partitions)
    if len(message.topics) > SLICE_PARTITIONS:
        return len(message.topics)
    known = (topics.get(asked.name or "") for asked in message.topics)
    return len(message.topics) + sum(len(topic.partitions) for topic in known if topic is not None)


def _creatable(node: Node, message: MetadataRequest) -> list[str]:
    """The topics that this request brings into being."""
    if not message.topics or not message.allow_auto_topic_creation or not node.config.auto_create_topics_enable:
        return []
    known = node.image.topics
    names = (topic.name for topic in message.topics if topic.name is not None and topic.topic_id == ZERO_UUID)
    return list(
        dict.fromkeys(
            name for name in names if name not in known and name not in INTERNAL_TOPICS and why_illegal(name) is None
        )
    )


def _answer(
    node: Node, version: int, message: MetadataRequest, errors: dict[str, ErrorCode]
) -> Generator[None, None, MetadataResponse]:
    """The response, with a pause after every slice."""
    image = node.image
    operations = TOPIC_OPERATIONS if message.include_topic_authorized_operations else None
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in image.brokers.values()
        ],
        cluster_id=image.cluster_id,
        controller_id=node.controller_id,
        cluster_authorized_operations=CLUSTER_OPERATIONS if message.include_cluster_authorized_operations else None,
    )
    if message.topics is None or (version < NULL_IS_ALL_SINCE and not message.topics):
        topics = image.topics.values()
        yield from _in_slices(response.topics, (_described(image, topic, operations) for topic in topics))
    elif version < TOPIC_IDS_SINCE and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in message.topics
    ):
        # Versions 10 and 11 have the field and not its meaning.
        response.topics = [
            MetadataResponseTopic(ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id)
            for topic in message.topics
        ]
    else:
        distinct = _distinct(message.topics)
        yield from _in_slices(response.topics, (_asked(image, topic, operations, errors) for topic in distinct))
    return response


def _in_slices(
    into: list[MetadataResponseTopic], topics: Iterable[MetadataResponseTopic]
) -> Generator[None, None, None]:
    room = SLICE_PARTITIONS
    for topic in topics:
        into.append(topic)
        room -= 1 + len(topic.partitions)
        if room <= 0:
            room = SLICE_PARTITIONS
            yield


def _distinct(topics: Iterable[MetadataRequestTopic]) -> Iterable[MetadataRequestTopic]:
    distinct: dict[str | UUID | None, MetadataRequestTopic] = {}
    for topic in topics:
        distinct.setdefault(topic.name if topic.topic_id == ZERO_UUID else topic.topic_id, topic)
    return distinct.values()


def _asked(
    image: ClusterImage, asked: MetadataRequestTopic, operations: int | None, errors: dict[str, ErrorCode]
) -> MetadataResponseTopic:
    if asked.topic_id != ZERO_UUID:
        topic = image.topics_by_id.get(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
        return _described(image, topic, operations)
    name = asked.name or ""
    topic = image.topics.get(name)
    if topic is not None:
        return _described(image, topic, operations)
    valid = why_illegal(name) is None
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(errors.get(name, missing), name, is_internal=name in INTERNAL_TOPICS)


def _described(image: ClusterImage, topic: Topic, operations: int | None) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        ErrorCode.NONE,
        topic.name,
        topic.id,
        topic.is_internal,
        [_partition(image, index, state) for index, state in enumerate(topic.partitions)],
        operations,
    )


def _partition(image: ClusterImage, index: int, state: PartitionState) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if state.leader is not None else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=[replica for replica in state.replicas if replica not in image.brokers],
    )
