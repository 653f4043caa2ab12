from __future__ import annotations

from uuid import UUID

import pytest

from semel.errors import ErrorCode
from semel.testing import Broker
from semel.types import INTERNAL_TOPICS
from semel.wire.apis import APIS, ApiKey
from semel.wire.framing import encode_request
from semel.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.broker.raw_client import RawClient

VERSIONS = range(APIS[ApiKey.METADATA].min_version, APIS[ApiKey.METADATA].max_version + 1)
ALL_TOPIC_OPERATIONS = 3576
ALL_CLUSTER_OPERATIONS = 8096
NOT_ASKED = None


def ask(client: RawClient, *names: str, version: int = 12, create: bool = False) -> MetadataResponse:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=create
    )
    response = client.call(ApiKey.METADATA, version, request)
    assert isinstance(response, MetadataResponse)
    return response


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_describes_a_topic_and_the_cluster(
    broker: Broker, client: RawClient, name: str, version: int
) -> None:
    client.create_topic(name, partitions=2)

    response = ask(client, name, version=version)

    (node,) = response.brokers
    assert (node.node_id, node.host, node.port, node.rack) == (1, "127.0.0.1", broker.port, None)
    assert response.controller_id == (1 if version >= 1 else None)
    assert (response.cluster_id is not None) == (version >= 2)
    (described,) = response.topics
    assert (described.error_code, described.name, described.is_internal) == (0, name, False)
    assert (described.topic_id != UUID(int=0)) == (version >= 10)
    assert [
        (partition.error_code, partition.partition_index, partition.leader_id, partition.replica_nodes)
        for partition in described.partitions
    ] == [(0, 0, 1, [1]), (0, 1, 1, [1])]
    assert [partition.leader_epoch for partition in described.partitions] == [0 if version >= 7 else None] * 2
    assert all(partition.isr_nodes == [1] and partition.offline_replicas == [] for partition in described.partitions)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_are_asked_for_by_an_empty_list_in_version_0_and_by_null_after_it(
    client: RawClient, topic: str, version: int
) -> None:
    everything = MetadataRequest(topics=[] if version == 0 else None)

    assert topic in [described.name for described in client.call(ApiKey.METADATA, version, everything).topics]
    if version > 0:
        assert client.call(ApiKey.METADATA, version, MetadataRequest(topics=[])).topics == []


@pytest.mark.parametrize("version", range(4, 14))
def test_asking_creates_a_topic_only_if_the_request_allows_it(client: RawClient, name: str, version: int) -> None:
    (refused,) = ask(client, name, version=version).topics
    assert (refused.error_code, refused.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])

    (created,) = ask(client, name, version=version, create=True).topics
    assert (created.error_code, len(created.partitions)) == (0, 1)
    (known,) = ask(client, name, version=version).topics
    assert known == created


@pytest.mark.parametrize("version", range(4))
def test_before_version_4_asking_always_creates(client: RawClient, name: str, version: int) -> None:
    (created,) = ask(client, name, version=version).topics

    assert (created.error_code, len(created.partitions)) == (0, 1)


def test_automatic_creation_follows_num_partitions_and_can_be_forbidden(name: str) -> None:
    with Broker(num_partitions=3) as broker, RawClient(broker.port) as client:
        assert len(ask(client, name, create=True).topics[0].partitions) == 3
    with Broker(auto_create_topics_enable=False) as broker, RawClient(broker.port) as client:
        assert ask(client, name, create=True).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_one_request_creates_several_topics_and_names_each_once(client: RawClient, name: str) -> None:
    names = [f"{name}-a", f"{name}-b", f"{name}-a"]

    response = ask(client, *names, create=True)

    assert [(topic.name, topic.error_code) for topic in response.topics] == [(names[0], 0), (names[1], 0)]


@pytest.mark.parametrize("bad", ["", ".", "..", "a/b", "x" * 250, "hello world", "ü"])
def test_a_name_that_no_topic_may_have_is_invalid_and_creates_nothing(client: RawClient, bad: str) -> None:
    for create in (False, True):
        (refused,) = ask(client, bad, create=create).topics
        assert (refused.error_code, refused.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, bad)


@pytest.mark.parametrize("internal", sorted(INTERNAL_TOPICS))
def test_internal_topics_are_not_created_by_asking(client: RawClient, internal: str) -> None:
    (described,) = ask(client, internal, create=True).topics

    assert (described.error_code, described.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)


def test_the_name_of_kafkas_controllers_log_is_not_created_by_asking(client: RawClient) -> None:
    answer = ask(client, "__cluster_metadata", create=True)
    (found,) = answer.topics
    assert (found.error_code, found.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False)


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_is_found_by_its_id(client: RawClient, topic: str, version: int) -> None:
    (by_name,) = ask(client, topic).topics
    asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=by_name.topic_id, name=None)])

    assert client.call(ApiKey.METADATA, version, asked).topics == [by_name]


@pytest.mark.parametrize("version", [12, 13])
def test_an_unknown_id_is_an_error_of_its_own(client: RawClient, version: int) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=UUID(int=5), name=None)])

    (unknown,) = client.call(ApiKey.METADATA, version, asked).topics

    assert (unknown.error_code, unknown.name, unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, UUID(int=5))


@pytest.mark.parametrize("version", [10, 11])
def test_versions_10_and_11_have_the_field_for_ids_but_no_meaning_for_it(
    client: RawClient, topic: str, version: int
) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=UUID(int=5), name=topic)])

    (refused,) = client.call(ApiKey.METADATA, version, asked).topics

    assert refused.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(8, 14))
def test_authorized_operations_are_told_to_who_asks(client: RawClient, topic: str, version: int) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    response = client.call(ApiKey.METADATA, version, asked)
    assert response.topics[0].topic_authorized_operations == NOT_ASKED
    assert response.cluster_authorized_operations == NOT_ASKED

    asked.include_topic_authorized_operations = asked.include_cluster_authorized_operations = True
    response = client.call(ApiKey.METADATA, version, asked)
    assert response.topics[0].topic_authorized_operations == ALL_TOPIC_OPERATIONS
    assert response.cluster_authorized_operations == (ALL_CLUSTER_OPERATIONS if version <= 10 else NOT_ASKED)


def test_an_answer_that_is_kept_is_forgotten_when_the_cluster_changes(client: RawClient, name: str) -> None:
    def partitions() -> int:
        return len(ask(client, name).topics[0].partitions)

    assert partitions() == 0
    client.create_topic(name)
    assert [partitions(), partitions()] == [1, 1]
    more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name, 4)], timeout_ms=1000)
    client.call(ApiKey.CREATE_PARTITIONS, 3, more)
    assert [partitions(), partitions()] == [4, 4]
    client.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[name], timeout_ms=1000))
    assert partitions() == 0


def test_a_kept_answer_carries_the_correlation_id_of_its_request(client: RawClient, topic: str) -> None:
    for _ in range(3):
        correlation_id = client.send(ApiKey.METADATA, 12, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
        assert client.receive(ApiKey.METADATA, 12, correlation_id).topics[0].name == topic


@pytest.mark.parametrize("version", range(9, 14))
def test_librdkafka_s_way_of_asking_for_all_topics_is_understood(client: RawClient, topic: str, version: int) -> None:
    """It writes the null array as four bytes instead of one, so three bytes are left over, which are ignored."""
    header = bytes(encode_request(7, APIS[ApiKey.METADATA], version, MetadataRequest(topics=None), client_id="rdkafka"))
    body = b"\0\0\0\0\1" + (b"\0" if version <= 10 else b"") + b"\0\0"
    tail = 1 + 1 + (1 if version <= 10 else 0) + 1 + 1
    client.send_frame(header[4:-tail] + body)

    assert topic in [described.name for described in client.receive(ApiKey.METADATA, version, 7).topics]


@pytest.mark.parametrize("beyond", [b"\0", bytes(range(256)) * 20], ids=["a byte", "more than a small request has"])
def test_bytes_after_a_request_are_ignored(client: RawClient, topic: str, beyond: bytes) -> None:
    frame = encode_request(1, APIS[ApiKey.METADATA], 12, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    client.send_frame(bytes(frame[4:]) + beyond)

    assert [described.name for described in client.receive(ApiKey.METADATA, 12, 1).topics] == [topic]
