"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords on the wire; the decisions are tested in metadata."""

from __future__ import annotations

from uuid import UUID

import pytest

from semel.errors import ErrorCode
from semel.testing import Broker
from semel.types import INTERNAL_TOPICS
from semel.wire.apis import APIS, ApiKey
from semel.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from semel.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.raw_client import RawClient, batch, values


def versions(key: ApiKey) -> range:
    return range(APIS[key].min_version, APIS[key].max_version + 1)


def create(
    client: RawClient, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=5000, validate_only=validate_only)
    results: list[CreatableTopicResult] = client.call(ApiKey.CREATE_TOPICS, version, request).topics
    return results


def exists(client: RawClient, name: str) -> bool:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    return bool(client.call(ApiKey.METADATA, 9, asked).topics[0].error_code == 0)


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_TOPICS))
def test_every_version_creates_a_topic(client: RawClient, name: str, version: int) -> None:
    wanted = CreatableTopic(
        name=name,
        num_partitions=3,
        replication_factor=1,
        configs=[CreatableTopicConfig("retention.ms", "1000")],
    )

    (result,) = create(client, wanted, version=version)

    assert (result.name, result.error_code, result.error_message) == (name, 0, None)
    assert (result.topic_id != UUID(int=0)) == (version >= 7)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        configs = {config.name: (config.value, config.config_source) for config in result.configs or []}
        assert configs["retention.ms"] == ("1000", 1)
        assert configs["segment.bytes"] == ("1073741824", 5)
    for partition in range(3):
        assert client.produce(name, batch(b"x"), partition=partition).base_offset == 0


def test_minus_1_asks_for_the_default(client: RawClient, name: str) -> None:
    (result,) = create(client, CreatableTopic(name=name, num_partitions=-1, replication_factor=-1))

    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 1, 1)


def test_partitions_can_be_assigned_by_hand(client: RawClient, name: str) -> None:
    assignments = [CreatableReplicaAssignment(0, [1]), CreatableReplicaAssignment(1, [1])]

    (result,) = create(
        client, CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    )

    assert (result.error_code, result.num_partitions) == (0, 2)


def test_validate_only_says_yes_and_creates_nothing(client: RawClient, name: str) -> None:
    (result,) = create(client, CreatableTopic(name=name, num_partitions=1, replication_factor=1), validate_only=True)

    assert (result.error_code, result.num_partitions) == (0, 1)
    assert not exists(client, name)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (CreatableTopic("bad name", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic("refused", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (CreatableTopic("refused", -5, 1), ErrorCode.INVALID_PARTITIONS),
        (CreatableTopic("refused", 20_000, 1), ErrorCode.POLICY_VIOLATION),
        (CreatableTopic("refused", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (CreatableTopic("refused", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (
            CreatableTopic("refused", -1, -1, [CreatableReplicaAssignment(0, [9])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (CreatableTopic("refused", 2, 1, [CreatableReplicaAssignment(0, [1])]), ErrorCode.INVALID_REQUEST),
        (CreatableTopic("refused", 1, 1, [], [CreatableTopicConfig("retention.ms", "x")]), ErrorCode.INVALID_CONFIG),
        (CreatableTopic("refused", 1, 1, [], [CreatableTopicConfig("retention.mss", "1")]), ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_cannot_be_created_is_refused_with_kafka_s_error(
    client: RawClient, topic: CreatableTopic, code: ErrorCode
) -> None:
    (result,) = create(client, topic)

    assert result.error_code == code
    assert result.error_message
    assert not exists(client, "refused")


def test_one_bad_topic_leaves_the_others_alone(client: RawClient, name: str) -> None:
    results = create(client, CreatableTopic(name, 1, 1), CreatableTopic("bad name", 1, 1))

    assert [result.error_code for result in results] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_topic_that_exists_is_not_created_again(client: RawClient, topic: str) -> None:
    (result,) = create(client, CreatableTopic(topic, 1, 1))

    assert result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_wrong_setting_names_the_nearest_right_one(client: RawClient) -> None:
    (result,) = create(client, CreatableTopic("refused", 1, 1, [], [CreatableTopicConfig("retention.mss", "1")]))

    assert "retention.ms" in (result.error_message or "")


# DeleteTopics


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_TOPICS))
def test_every_version_deletes_a_topic_with_its_records(client: RawClient, topic: str, version: int) -> None:
    client.produce(topic, batch(b"gone"))
    request = DeleteTopicsRequest(topics=[DeleteTopicState(topic)], topic_names=[topic], timeout_ms=1000)

    (result,) = client.call(ApiKey.DELETE_TOPICS, version, request).responses

    assert (result.name, result.error_code, result.error_message) == (topic, 0, None)
    assert not exists(client, topic)
    assert client.produce(topic, batch(b"x")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    client.create_topic(topic)
    assert client.fetch(topic, 0).high_watermark == 0


def test_a_topic_is_deleted_by_its_id(client: RawClient, name: str) -> None:
    (created,) = create(client, CreatableTopic(name, 1, 1))
    request = DeleteTopicsRequest(topics=[DeleteTopicState(None, created.topic_id)], timeout_ms=1000)

    (result,) = client.call(ApiKey.DELETE_TOPICS, 6, request).responses

    assert (result.name, result.topic_id, result.error_code) == (name, created.topic_id, 0)
    assert not exists(client, name)


def test_unknown_topics_are_refused_by_name_and_by_id(client: RawClient) -> None:
    doomed = [DeleteTopicState("absent"), DeleteTopicState(None, UUID(int=3))]

    by_name, by_id = client.call(ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=doomed)).responses

    assert (by_name.error_code, by_name.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "absent")
    assert (by_id.error_code, by_id.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, UUID(int=3))


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_TOPICS))
def test_deletion_can_be_forbidden(name: str, version: int) -> None:
    with Broker(delete_topic_enable=False) as broker, RawClient(broker.port) as client:
        client.create_topic(name)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name)], topic_names=[name], timeout_ms=1000)

        (result,) = client.call(ApiKey.DELETE_TOPICS, version, request).responses

        expected = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
        assert result.error_code == expected
        assert exists(client, name)


# CreatePartitions


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_PARTITIONS))
def test_every_version_lets_a_topic_grow(client: RawClient, topic: str, version: int) -> None:
    client.produce(topic, batch(b"kept"))
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(topic, 3)], timeout_ms=1000)

    (result,) = client.call(ApiKey.CREATE_PARTITIONS, version, request).results

    assert (result.name, result.error_code, result.error_message) == (topic, 0, None)
    assert client.produce(topic, batch(b"new"), partition=2).base_offset == 0
    assert values(client.fetch(topic, 0)) == [(0, b"kept")]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (CreatePartitionsTopic("absent", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (CreatePartitionsTopic("", 1), ErrorCode.INVALID_PARTITIONS),
        (CreatePartitionsTopic("", 0), ErrorCode.INVALID_PARTITIONS),
        (CreatePartitionsTopic("", 100_001), ErrorCode.POLICY_VIOLATION),
        (CreatePartitionsTopic("", 2, [CreatePartitionsAssignment([9])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (CreatePartitionsTopic("", 3, [CreatePartitionsAssignment([1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_growth_that_cannot_be_is_refused(
    client: RawClient, topic: str, wanted: CreatePartitionsTopic, code: ErrorCode
) -> None:
    wanted = CreatePartitionsTopic(wanted.name or topic, wanted.count, wanted.assignments)

    (result,) = client.call(ApiKey.CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics=[wanted])).results

    assert result.error_code == code
    assert result.error_message


def test_validate_only_adds_no_partition(client: RawClient, topic: str) -> None:
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(topic, 2)], validate_only=True)

    (result,) = client.call(ApiKey.CREATE_PARTITIONS, 3, request).results

    assert result.error_code == 0
    assert client.produce(topic, batch(b"x"), partition=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# DeleteRecords


def delete_records(
    client: RawClient, topic: str, offset: int | None, *, partition: int = 0, version: int = 2
) -> DeleteRecordsPartitionResult:
    doomed = DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])
    response = client.call(ApiKey.DELETE_RECORDS, version, DeleteRecordsRequest(topics=[doomed], timeout_ms=1000))
    ((result,),) = (found.partitions for found in response.topics)
    assert isinstance(result, DeleteRecordsPartitionResult)
    return result


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_RECORDS))
def test_every_version_deletes_records_before_an_offset(client: RawClient, topic: str, version: int) -> None:
    for value in (b"a", b"b", b"c"):
        client.produce(topic, batch(value))

    result = delete_records(client, topic, 2, version=version)

    assert (result.error_code, result.low_watermark) == (0, 2)
    assert values(client.fetch(topic, 2)) == [(2, b"c")]
    assert delete_records(client, topic, None).low_watermark == 3
    assert delete_records(client, topic, 1).low_watermark == 3


def test_deleted_records_stay_deleted_after_a_kill(name: str) -> None:
    with Broker() as broker:
        with RawClient(broker.port) as client:
            client.create_topic(name)
            for value in (b"a", b"b"):
                client.produce(name, batch(value))
            delete_records(client, name, 1)
        broker.restart(kill=True)
        with RawClient(broker.port) as client:
            assert client.fetch(name, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert values(client.fetch(name, 1)) == [(1, b"b")]


@pytest.mark.parametrize("offset", [2, -2])
def test_records_that_are_not_there_cannot_be_deleted(client: RawClient, topic: str, offset: int) -> None:
    client.produce(topic, batch(b"a"))

    result = delete_records(client, topic, offset)

    assert (result.error_code, result.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)


def test_records_of_a_topic_that_only_compacts_cannot_be_deleted(client: RawClient, name: str) -> None:
    client.create_topic(name, cleanup_policy="compact")

    assert delete_records(client, name, 0).error_code == ErrorCode.POLICY_VIOLATION


def test_records_of_absent_and_internal_topics_cannot_be_deleted(client: RawClient, topic: str) -> None:
    assert delete_records(client, "absent", 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete_records(client, topic, 0, partition=4).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for internal in INTERNAL_TOPICS:
        assert delete_records(client, internal, 0).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_topics_and_their_records_survive_a_kill_and_deleted_ones_do_not_come_back(name: str) -> None:
    with Broker() as broker:
        with RawClient(broker.port) as client:
            client.create_topic(name, partitions=2)
            client.create_topic(f"{name}-doomed")
            client.produce(name, batch(b"kept"), partition=1)
            request = DeleteTopicsRequest(topic_names=[f"{name}-doomed"], timeout_ms=1000)
            client.call(ApiKey.DELETE_TOPICS, 5, request)
        broker.restart(kill=True)
        with RawClient(broker.port) as client:
            assert values(client.fetch(name, 0, partition=1)) == [(0, b"kept")]
            assert not exists(client, f"{name}-doomed")
