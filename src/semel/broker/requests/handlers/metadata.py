"""Metadata (versions 0-13): the brokers, the partitions and their leaders. A request may create topics that it names.

Without an authorizer the response depends only on the cluster's image, the listener and the request. So the encoded
response is cached until the image changes, unless the request may create a topic. The response has the topics that the
request created, so that the client need not send it again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable
from functools import partial
from typing import Any, Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.authorized_operations import cluster_operations, topic_operations
from semel.errors import ErrorCode
from semel.metadata.controller import NewTopic, Refusal, TopicResult, create_topics
from semel.metadata.image import ClusterImage, PartitionState, Topic
from semel.metadata.topic_names import why_illegal
from semel.security.rights import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC, Rights
from semel.types import CLUSTER_METADATA_TOPIC, INTERNAL_TOPICS, ZERO_UUID
from semel.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

SLICE_PARTITIONS: Final = 1000
"""How many topics and partitions are described in one slice."""
CREATED_AT_ONCE: Final = 100
NULL_IS_ALL_SINCE: Final = 1
TOPIC_IDS_SINCE: Final = 12


def metadata(
    node: Node, request: Request, message: MetadataRequest
) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    rights = node.rights(request)
    creatable = _creatable(node, message)
    if creatable:
        return _created(node, request, message, creatable, rights)
    if rights is None:  # With rights, the response is only for this client.
        request.cacheable(node.answers)
    answer = _answer(node, request, message, {}, rights)
    weight = _weight(node, message)
    if weight <= SLICE_PARTITIONS:
        return node.turns.at_once(answer, elements=weight)
    return node.turns.run(answer, elements=SLICE_PARTITIONS)


async def _created(
    node: Node, request: Request, message: MetadataRequest, names: list[str], rights: Rights | None
) -> MetadataResponse:
    refused: dict[str, ErrorCode] = {}
    for start in range(0, len(names), CREATED_AT_ONCE):
        some = names[start : start + CREATED_AT_ONCE]
        if rights is not None:
            allowed = [name for name in some if _may_create(rights, name)]
            refused |= dict.fromkeys(set(some).difference(allowed), CREATE_TOPIC.refusal)
            await node.turns.pause()
            some = allowed
        wanted = [NewTopic(name) for name in some]
        results = await node.change(
            partial(create_topics, topics=wanted, policy=node.topic_policy(), new_id=node.new_topic_id),
            unstored=partial(_unstored, some),
        )
        if node.audit is not None:
            for result in results:
                if result.refusal is None:
                    node.audit.changed(
                        request.principal, request.peer_host, request.api.name, "CREATE", "TOPIC", result.name or ""
                    )
        refused |= {result.name or "": result.refusal.code for result in results if result.refusal is not None}
    return await node.turns.run(_answer(node, request, message, refused, rights), elements=SLICE_PARTITIONS)


def _may_create(rights: Rights, name: str) -> bool:
    return rights.may(DESCRIBE_TOPIC, name) and (rights.may(CREATE_CLUSTER) or rights.demand(CREATE_TOPIC, name))


def _unstored(names: list[str], refusal: Refusal) -> list[TopicResult]:
    return [TopicResult(name, refusal=refusal) for name in names]


def _weight(node: Node, message: MetadataRequest) -> int:
    """Return about how many topics and partitions the response has, or a number larger than a slice."""
    topics = node.image.topics
    if not message.topics:
        return len(topics) + node.image.partition_count
    if len(message.topics) > SLICE_PARTITIONS:
        return len(message.topics)
    by_id = node.image.topics_by_id
    known = (
        topics.get(asked.name or "") if asked.topic_id == ZERO_UUID else by_id.get(asked.topic_id)
        for asked in message.topics
    )
    return len(message.topics) + sum(len(topic.partitions) for topic in known if topic is not None)


def _creatable(node: Node, message: MetadataRequest) -> list[str]:
    """Return the names of the topics that this request creates."""
    if not message.topics or not message.allow_auto_topic_creation or not node.config.auto_create_topics_enable:
        return []
    known = node.image.topics
    never = INTERNAL_TOPICS | {CLUSTER_METADATA_TOPIC}
    names = (topic.name for topic in message.topics if topic.name is not None and topic.topic_id == ZERO_UUID)
    return list(
        dict.fromkeys(name for name in names if name not in known and name not in never and why_illegal(name) is None)
    )


def _answer(
    node: Node, request: Request, message: MetadataRequest, errors: dict[str, ErrorCode], rights: Rights | None
) -> Generator[None, None, MetadataResponse]:
    """Make the response, with a pause after every slice."""
    image, version = node.image.seen_by(request.listener), request.version
    tells_operations = message.include_topic_authorized_operations

    def operations(name: str) -> int | None:
        return topic_operations(rights, name) if tells_operations else None

    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(broker.node_id, endpoint.host, endpoint.port, broker.rack)
            for broker, endpoint in image.endpoints(request.listener)
        ],
        cluster_id=image.cluster_id,
        controller_id=node.controller_id,
        cluster_authorized_operations=cluster_operations(rights)
        if message.include_cluster_authorized_operations
        else None,
    )
    if message.topics is None or (version < NULL_IS_ALL_SINCE and not message.topics):
        topics = image.topics.values()
        yield from _in_slices(
            response.topics,
            (
                _described(image, topic, operations)
                if rights is None or rights.may(DESCRIBE_TOPIC, topic.name)
                else None
                for topic in topics
            ),
        )
    elif version < TOPIC_IDS_SINCE and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in message.topics
    ):
        # Versions 10 and 11 have the field of the topic id, but it must not be used.
        response.topics = [
            MetadataResponseTopic(ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id)
            for topic in message.topics
        ]
    else:
        distinct = _distinct(message.topics)
        yield from _in_slices(response.topics, (_asked(image, topic, operations, errors, rights) for topic in distinct))
    return response


def _in_slices(
    into: list[MetadataResponseTopic], topics: Iterable[MetadataResponseTopic | None]
) -> Generator[None, None, None]:
    """Append the topics to ``into``, with a pause after every slice.

    None is a topic that the client may not describe.
    """
    room = SLICE_PARTITIONS
    for topic in topics:
        room -= 1
        if topic is not None:
            into.append(topic)
            room -= len(topic.partitions)
        if room <= 0:
            room = SLICE_PARTITIONS
            yield


def _distinct(topics: Iterable[MetadataRequestTopic]) -> Iterable[MetadataRequestTopic]:
    # The key is the bytes of a topic id, whose hash is random: a client could send many UUIDs with the same hash.
    distinct: dict[str | bytes | None, MetadataRequestTopic] = {}
    for topic in topics:
        distinct.setdefault(topic.name if topic.topic_id == ZERO_UUID else topic.topic_id.bytes, topic)
    return distinct.values()


def _asked(
    image: ClusterImage,
    asked: MetadataRequestTopic,
    operations: Callable[[str], int | None],
    errors: dict[str, ErrorCode],
    rights: Rights | None,
) -> MetadataResponseTopic:
    if asked.topic_id != ZERO_UUID:
        topic = image.topics_by_id.get(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
        if rights is not None and not rights.demand(DESCRIBE_TOPIC, topic.name):
            return MetadataResponseTopic(DESCRIBE_TOPIC.refusal, None, asked.topic_id)
        return _described(image, topic, operations)
    name = asked.name or ""
    if rights is not None and not rights.demand(DESCRIBE_TOPIC, name):
        return MetadataResponseTopic(DESCRIBE_TOPIC.refusal, name)
    topic = image.topics.get(name)
    if topic is not None:
        return _described(image, topic, operations)
    valid = why_illegal(name) is None
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(
        errors.get(name, missing),
        name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=None if name in errors else operations(name),
    )


def _described(image: ClusterImage, topic: Topic, operations: Callable[[str], int | None]) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        ErrorCode.NONE,
        topic.name,
        topic.id,
        topic.is_internal,
        [_partition(image, index, state) for index, state in enumerate(topic.partitions)],
        operations(topic.name),
    )


def _partition(image: ClusterImage, index: int, state: PartitionState) -> MetadataResponsePartition:
    leader = image.leader(state)
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if leader is not None else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=[replica for replica in state.replicas if replica not in image.brokers],
    )
