"""The rights that the APIs about topics, their records and their offsets need."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from semel.broker.requests.access.declarations import (
    SLICE_NAMES,
    Access,
    CheckedByHandler,
    Items,
    Need,
    each,
    item_name,
    name_in_field,
)
from semel.errors import ErrorCode
from semel.metadata.image import ClusterImage
from semel.security.rights import (
    ALTER_TOPIC,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS_TOPIC,
    DESCRIBE_TOPIC,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Rights,
)
from semel.types import ZERO_UUID
from semel.wire.messages.create_partitions import CreatePartitionsTopic, CreatePartitionsTopicResult
from semel.wire.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsResponse
from semel.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from semel.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.describe_producers import PartitionResponse, TopicRequest, TopicResponse
from semel.wire.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsTopic, ListOffsetsTopicResponse
from semel.wire.messages.offset_for_leader_epoch import EpochEndOffset, OffsetForLeaderTopic, OffsetForLeaderTopicResult

_PARTITION_REFUSED: Final = "each partition is refused"
_NOT_ALLOWED: Final = "the client is not authorized"

PRODUCE: Final = Access(
    checked_by_handler=(
        CheckedByHandler(WRITE_TRANSACTIONAL_ID, "a request with a transactional batch is refused whole"),
        CheckedByHandler(WRITE_TOPIC, _PARTITION_REFUSED),
    )
)

FETCH: Final = Access(
    checked_by_handler=(
        CheckedByHandler(READ_TOPIC, _PARTITION_REFUSED),
        CheckedByHandler(CLUSTER_ACTION, "a request with a replica id is refused, each of its partitions"),
    )
)

METADATA: Final = Access(
    checked_by_handler=(
        CheckedByHandler(DESCRIBE_TOPIC, "a topic that is named is refused, one that is not is left out"),
        CheckedByHandler(CREATE_CLUSTER, f"to create a topic by asking for it needs {CREATE_TOPIC}"),
        CheckedByHandler(CREATE_TOPIC, "the topic is refused, and not created"),
        CheckedByHandler(DESCRIBE_CLUSTER, "no operation with the cluster is told to be authorized"),
    )
)

DESCRIBE_TOPIC_PARTITIONS: Final = Access(
    checked_by_handler=(
        CheckedByHandler(DESCRIBE_TOPIC, "a topic that is named is refused, one that is not is left out"),
    )
)


def _list_offsets(topic: ListOffsetsTopic, code: ErrorCode) -> ListOffsetsTopicResponse:
    partitions = [ListOffsetsPartitionResponse(partition.partition_index, code) for partition in topic.partitions]
    return ListOffsetsTopicResponse(topic.name, partitions)


LIST_OFFSETS: Final = Access(
    items=each("topics", "topics", Need(DESCRIBE_TOPIC, name_in_field("name")), refused=_list_offsets),
)


def _offset_for_leader_epoch(topic: OffsetForLeaderTopic, code: ErrorCode) -> OffsetForLeaderTopicResult:
    partitions = [EpochEndOffset(code, partition.partition) for partition in topic.partitions]
    return OffsetForLeaderTopicResult(topic.topic, partitions)


OFFSET_FOR_LEADER_EPOCH: Final = Access(
    items=each(
        "topics",
        "topics",
        Need(DESCRIBE_TOPIC, name_in_field("topic"), instead=CLUSTER_ACTION),
        refused=_offset_for_leader_epoch,
    ),
)


def _delete_records(topic: DeleteRecordsTopic, code: ErrorCode) -> DeleteRecordsTopicResult:
    partitions = [DeleteRecordsPartitionResult(each.partition_index, error_code=code) for each in topic.partitions]
    return DeleteRecordsTopicResult(topic.name, partitions)


DELETE_RECORDS: Final = Access(
    items=each("topics", "topics", Need(DELETE_TOPIC, name_in_field("name")), refused=_delete_records),
)


def _describe_producers(topic: TopicRequest, code: ErrorCode) -> TopicResponse:
    return TopicResponse(topic.name, [PartitionResponse(index, code) for index in topic.partition_indexes])


DESCRIBE_PRODUCERS: Final = Access(
    items=each("topics", "topics", Need(READ_TOPIC, name_in_field("name")), refused=_describe_producers),
)


def _create_topic(topic: CreatableTopic, code: ErrorCode) -> CreatableTopicResult:
    return CreatableTopicResult(name=topic.name, error_code=code, error_message=_NOT_ALLOWED)


def _hide_configs(rights: Rights, response: CreateTopicsResponse) -> Generator[None, None, None]:
    for number, topic in enumerate(response.topics, 1):
        if topic.error_code == ErrorCode.NONE and not rights.may(DESCRIBE_CONFIGS_TOPIC, topic.name):
            topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = []
        if number % SLICE_NAMES == 0:
            yield


CREATE_TOPICS: Final = Access(
    items=each(
        "topics", "topics", Need(CREATE_TOPIC, name_in_field("name"), instead=CREATE_CLUSTER), refused=_create_topic
    ),
    answer=_hide_configs,
    checked_by_handler=(CheckedByHandler(DESCRIBE_CONFIGS_TOPIC, "the answer does not tell the topic's settings"),),
)


def _create_partitions(topic: CreatePartitionsTopic, code: ErrorCode) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(topic.name, code, _NOT_ALLOWED)


CREATE_PARTITIONS: Final = Access(
    items=each("topics", "results", Need(ALTER_TOPIC, name_in_field("name")), refused=_create_partitions),
)

_DELETES: Final = Need(DELETE_TOPIC, item_name, instead=DELETE_CLUSTER)


def _check_deleted_name(
    rights: Rights, image: ClusterImage, message: DeleteTopicsRequest, name: str
) -> DeletableTopicResult | None:
    """Return the refusal of a topic by name. Only clients that may describe the topic learn whether it exists."""
    if rights.may(DELETE_CLUSTER):
        return None
    if not rights.may(DESCRIBE_TOPIC, name):
        rights.refuse(DESCRIBE_TOPIC, name)
    elif name not in image.topics or rights.demand(DELETE_TOPIC, name):
        return None
    return DeletableTopicResult(name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=_NOT_ALLOWED)


def _check_deleted(
    rights: Rights, image: ClusterImage, message: DeleteTopicsRequest, topic: DeleteTopicState
) -> DeletableTopicResult | None:
    """Return the refusal of a topic by name or id; without DESCRIBE, that of an id has no name.

    A topic with both a name and an id, or with neither, is refused by the handler.
    """
    if topic.topic_id == ZERO_UUID:
        return None if topic.name is None else _check_deleted_name(rights, image, message, topic.name)
    known = image.topics_by_id.get(topic.topic_id)
    if topic.name is not None or known is None or not _DELETES.refusal(rights, image, known.name):
        return None
    name = known.name if rights.may(DESCRIBE_TOPIC, known.name) else None
    return DeletableTopicResult(name, topic.topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _NOT_ALLOWED)


_DESCRIBES: Final = CheckedByHandler(
    DESCRIBE_TOPIC, "the topic is refused, whether it exists or not; by an id, without its name"
)

DELETE_TOPICS: Final = Access(
    items=Items("topics", "responses", (_DELETES,), _check_deleted),
    checked_by_handler=(_DESCRIBES,),
    since=6,
    earlier=Access(
        items=Items("topic_names", "responses", (_DELETES,), _check_deleted_name), checked_by_handler=(_DESCRIBES,)
    ),
)
