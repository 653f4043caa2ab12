"""Responses that refuse a request with one error code, for every API.

Most APIs have an error code for the whole request. The others have one per topic, partition, key or group; then every
item of the request gets it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from semel.errors import ErrorCode
from semel.wire.apis import Api, ApiKey
from semel.wire.messages import (
    add_partitions_to_txn,
    create_topics,
    delete_topics,
    fetch,
    find_coordinator,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    txn_offset_commit,
)
from semel.wire.refusal import whole_refusal
from semel.wire.schema import fields_of

_Refuse: TypeAlias = Callable[[Any, int, int], object | None]


def refusal(api: Api, version: int, request: Any, code: ErrorCode) -> object:
    """Return the response that refuses the request with this code. Raises ``ValueError`` if it has no field for it."""
    refuse = _PER_ITEM.get(api.key)
    response: object | None = None if refuse is None else refuse(request, version, int(code))
    if response is not None:
        return response
    whole = whole_refusal(api, version, code)
    if whole is None:
        raise ValueError(f"{api.name} version {version} has no place for an error code")
    return whole


def can_be_refused(api: Api) -> bool:
    return api.key in _PER_ITEM or any(field.name == "error_code" for field in fields_of(api.response_class))


def _each_partition(response_class: type, topic_class: type, partition_class: type) -> _Refuse:
    """Return the function for an API whose response names its topics and partitions as its request does."""
    identity = [field.name for field in fields_of(topic_class) if field.name in ("name", "topic_id")]

    def refuse(request: Any, version: int, code: int) -> object:
        topics = [
            topic_class(
                **{name: getattr(topic, name) for name in identity},
                partitions=[
                    partition_class(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        refused: object = response_class(topics=topics)
        return refused

    return refuse


def _produce(request: produce.ProduceRequest, version: int, code: int) -> object:
    return produce.ProduceResponse(
        responses=[
            produce.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    produce.PartitionProduceResponse(index=partition.index, error_code=code)
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(request: fetch.FetchRequest, version: int, code: int) -> object | None:
    if not request.topics:
        return None  # An incremental fetch may name no partitions; the whole request can still be refused.
    return fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    fetch.PartitionData(
                        partition_index=partition.partition,
                        error_code=code,
                        aborted_transactions=None,
                        records=b"",
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _metadata(request: metadata.MetadataRequest, version: int, code: int) -> object:
    return metadata.MetadataResponse(
        topics=[
            metadata.MetadataResponseTopic(error_code=code, name=topic.name, topic_id=topic.topic_id)
            for topic in request.topics or ()
        ]
    )


def _offset_fetch(request: offset_fetch.OffsetFetchRequest, version: int, code: int) -> object | None:
    if request.groups:
        groups = [offset_fetch.OffsetFetchResponseGroup(group.group_id, error_code=code) for group in request.groups]
        return offset_fetch.OffsetFetchResponse(groups=groups)
    if version >= 2:
        return None
    return offset_fetch.OffsetFetchResponse(
        topics=[
            offset_fetch.OffsetFetchResponseTopic(
                topic.name,
                [
                    offset_fetch.OffsetFetchResponsePartition(index, metadata="", error_code=code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    )


def _add_partitions(request: add_partitions_to_txn.AddPartitionsToTxnRequest, version: int, code: int) -> object | None:
    if version >= 4:
        return None
    return add_partitions_to_txn.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                topic.name,
                [add_partitions_to_txn.AddPartitionsToTxnPartitionResult(index, code) for index in topic.partitions],
            )
            for topic in request.v3_and_below_topics
        ]
    )


def _find_coordinator(request: find_coordinator.FindCoordinatorRequest, version: int, code: int) -> object | None:
    if version < 4:
        return None
    return find_coordinator.FindCoordinatorResponse(
        coordinators=[
            find_coordinator.Coordinator(key, error_code=code, error_message=None) for key in request.coordinator_keys
        ]
    )


def _create_topics(request: create_topics.CreateTopicsRequest, version: int, code: int) -> object:
    return create_topics.CreateTopicsResponse(
        topics=[
            create_topics.CreatableTopicResult(name=topic.name, error_code=code, error_message=None, configs=None)
            for topic in request.topics
        ]
    )


def _delete_topics(request: delete_topics.DeleteTopicsRequest, version: int, code: int) -> object:
    asked = request.topics or [delete_topics.DeleteTopicState(name) for name in request.topic_names]
    return delete_topics.DeleteTopicsResponse(
        responses=[
            delete_topics.DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code)
            for topic in asked
        ]
    )


_PER_ITEM: Final[dict[ApiKey, _Refuse]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _each_partition(
        list_offsets.ListOffsetsResponse,
        list_offsets.ListOffsetsTopicResponse,
        list_offsets.ListOffsetsPartitionResponse,
    ),
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_COMMIT: _each_partition(
        offset_commit.OffsetCommitResponse,
        offset_commit.OffsetCommitResponseTopic,
        offset_commit.OffsetCommitResponsePartition,
    ),
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.TXN_OFFSET_COMMIT: _each_partition(
        txn_offset_commit.TxnOffsetCommitResponse,
        txn_offset_commit.TxnOffsetCommitResponseTopic,
        txn_offset_commit.TxnOffsetCommitResponsePartition,
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
}
