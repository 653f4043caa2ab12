"""ApiVersions, DescribeCluster, DescribeTopicPartitions, DescribeLogDirs, DescribeProducers, and who gets which id."""

from __future__ import annotations

import struct

import pytest

from semel.broker.requests.routes import SERVED, served_apis
from semel.errors import ErrorCode
from semel.testing import Broker
from semel.wire.apis import APIS, ApiKey
from semel.wire.codec import decode
from semel.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from semel.wire.messages.describe_cluster import DescribeClusterRequest
from semel.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from semel.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from semel.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from semel.wire.messages.describe_topic_partitions import TopicRequest as PartitionsTopicRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from tests.broker.raw_client import RawClient, batch

SOFTWARE = ApiVersionsRequest("raw", "1.0")


def versions(key: ApiKey) -> range:
    return range(APIS[key].min_version, APIS[key].max_version + 1)


# ApiVersions


@pytest.mark.parametrize("version", versions(ApiKey.API_VERSIONS))
def test_every_version_tells_what_is_served(client: RawClient, version: int) -> None:
    for _ in range(2):
        response = client.call(ApiKey.API_VERSIONS, version, SOFTWARE)

        assert response.error_code == 0
        advertised = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
        assert advertised == {
            api.key: (0 if api.key is ApiKey.PRODUCE else api.min_version, api.max_version) for api in served_apis()
        }
        assert response.finalized_features_epoch == (0 if version >= 3 else None)


@pytest.mark.parametrize("version", [5, 6, 99, 32767, -1])
def test_an_unknown_version_is_answered_in_version_0_with_the_versions_there_are(
    client: RawClient, version: int
) -> None:
    client.send_frame(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 77, -1) + b"whatever a newer version has")

    frame = client.receive_frame()
    assert struct.unpack_from(">i", frame) == (77,)
    response = decode(ApiVersionsResponse, frame, 0, 4)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(entry.api_key, entry.min_version, entry.max_version) for entry in response.api_keys] == [(18, 0, 4)]
    assert client.call(ApiKey.API_VERSIONS, 4, SOFTWARE).error_code == 0


@pytest.mark.parametrize("bad", ["", "-x", "x-", "a b", "é"])
def test_a_software_name_or_version_that_kafka_refuses_is_refused(client: RawClient, bad: str) -> None:
    for request in (ApiVersionsRequest(bad, "1"), ApiVersionsRequest("raw", bad)):
        response = client.call(ApiKey.API_VERSIONS, 3, request)
        assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])


def test_the_produce_and_fetch_versions_that_old_librdkafka_looks_for_are_advertised() -> None:
    assert APIS[ApiKey.PRODUCE].advertised_min_version == 0
    assert APIS[ApiKey.PRODUCE].min_version == 3
    assert APIS[ApiKey.FETCH].min_version == 4
    assert {ApiKey.PRODUCE, ApiKey.FETCH} <= set(SERVED)


# DescribeCluster


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CLUSTER))
def test_every_version_describes_the_cluster(broker: Broker, client: RawClient, version: int) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)

    response = client.call(ApiKey.DESCRIBE_CLUSTER, version, request)

    assert (response.error_code, response.controller_id, len(response.cluster_id)) == (0, 1, 22)
    assert [(node.broker_id, node.host, node.port) for node in response.brokers] == [(1, "127.0.0.1", broker.port)]
    assert response.cluster_authorized_operations == 8096


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_a_broker_does_not_know_controllers(client: RawClient, endpoint_type: int, code: ErrorCode) -> None:
    response = client.call(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest(endpoint_type=endpoint_type))

    assert (response.error_code, response.brokers) == (code, [])


# DescribeTopicPartitions


def pages(client: RawClient, names: list[str], limit: int) -> list[list[tuple[str, list[int]]]]:
    found = []
    cursor = None
    while True:
        request = DescribeTopicPartitionsRequest(
            [PartitionsTopicRequest(name) for name in names], response_partition_limit=limit, cursor=cursor
        )
        response = client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
        assert isinstance(response, DescribeTopicPartitionsResponse)
        found.append(
            [
                (topic.name or "", [partition.partition_index for partition in topic.partitions])
                for topic in response.topics
            ]
        )
        cursor = response.next_cursor
        if cursor is None:
            return found


def test_partitions_come_page_by_page_in_the_order_of_names(client: RawClient, name: str) -> None:
    for suffix, partitions in (("b", 3), ("a", 2), ("c", 1)):
        client.create_topic(f"{name}-{suffix}", partitions)
    a, b, c = (f"{name}-{suffix}" for suffix in "abc")

    assert pages(client, [b, a, c], 2000) == [[(a, [0, 1]), (b, [0, 1, 2]), (c, [0])]]
    assert pages(client, [b, a, c], 2) == [[(a, [0, 1])], [(b, [0, 1])], [(b, [2]), (c, [0])]]
    assert pages(client, [b, a, c], 3) == [[(a, [0, 1]), (b, [0])], [(b, [1, 2]), (c, [0])]]
    assert pages(client, [c], 0) == [[(c, [0])]]


def test_no_names_mean_all_topics(client: RawClient, topic: str) -> None:
    (page,) = pages(client, [], 2000)

    assert (topic, [0]) in page
    assert page == sorted(page)


def test_a_cursor_of_a_topic_that_is_gone_goes_on_with_the_next(client: RawClient, name: str) -> None:
    client.create_topic(f"{name}-b", 2)
    request = DescribeTopicPartitionsRequest(
        [PartitionsTopicRequest(f"{name}-{suffix}") for suffix in "ab"], 2000, Cursor(f"{name}-a", partition_index=5)
    )

    gone, topic = client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request).topics

    assert gone.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]


def test_unknown_and_invalid_topics_are_errors_of_their_own(client: RawClient, topic: str) -> None:
    request = DescribeTopicPartitionsRequest([PartitionsTopicRequest(name) for name in (topic, "absent", "bad name")])

    response = client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)

    assert {found.name: found.error_code for found in response.topics} == {
        topic: 0,
        "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


@pytest.mark.parametrize(("after", "partition"), [("", -1), ("-other", 0)])
def test_a_cursor_that_no_page_has_is_an_error_of_every_topic(
    client: RawClient, topic: str, after: str, partition: int
) -> None:
    """As in Kafka: a response has no error code of its own."""
    asked = [PartitionsTopicRequest(topic), PartitionsTopicRequest("absent")]
    request = DescribeTopicPartitionsRequest(asked, cursor=Cursor(topic + after, partition))

    response = client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)

    assert [(found.name, found.error_code, found.partitions) for found in response.topics] == [
        (topic, ErrorCode.INVALID_REQUEST, []),
        ("absent", ErrorCode.INVALID_REQUEST, []),
    ]
    everything = DescribeTopicPartitionsRequest(cursor=Cursor(topic, partition_index=-1))
    assert client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, everything) == DescribeTopicPartitionsResponse()


# DescribeLogDirs


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_LOG_DIRS))
def test_every_version_tells_how_large_a_partition_is(client: RawClient, topic: str, version: int) -> None:
    records = batch(b"x" * 1000)
    client.produce(topic, records)
    request = DescribeLogDirsRequest([DescribableLogDirTopic(topic, [0, 3])])

    (result,) = client.call(ApiKey.DESCRIBE_LOG_DIRS, version, request).results

    assert (result.error_code, result.log_dir) == (0, "/semel")
    ((partition,),) = (found.partitions for found in result.topics)
    assert (partition.partition_index, partition.partition_size, partition.offset_lag) == (0, len(records), 0)
    assert (result.usable_bytes is not None) == (version >= 4)


def test_null_means_all_partitions(client: RawClient, topic: str) -> None:
    (result,) = client.call(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None)).results

    assert topic in [found.name for found in result.topics]


# DescribeProducers


def test_the_producers_of_a_partition_are_described(client: RawClient, topic: str) -> None:
    client.produce(topic, batch(b"a", b"b", timestamp=5000, producer_id=9, producer_epoch=3, base_sequence=0))
    request = DescribeProducersRequest([TopicRequest(topic, [0, 8])])

    ((known, unknown),) = (found.partitions for found in client.call(ApiKey.DESCRIBE_PRODUCERS, 0, request).topics)

    (producer,) = known.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (9, 3, 1)
    assert (producer.last_timestamp, producer.current_txn_start_offset) == (5001, None)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# InitProducerId


def test_every_version_gives_a_new_id_with_epoch_0(client: RawClient) -> None:
    given = []
    for version in versions(ApiKey.INIT_PRODUCER_ID):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        response = client.call(ApiKey.INIT_PRODUCER_ID, version, request)
        assert (response.error_code, response.producer_epoch) == (0, 0)
        given.append(response.producer_id)

    assert len(set(given)) == len(given)


def test_no_id_is_given_out_twice_across_blocks_and_a_kill() -> None:
    given: list[int] = []
    request = InitProducerIdRequest(transactional_id=None)
    with Broker() as broker:
        for _ in range(2):
            with RawClient(broker.port) as client:
                given += (client.call(ApiKey.INIT_PRODUCER_ID, 4, request).producer_id for _ in range(1100))
            broker.restart(kill=True)

    assert len(set(given)) == len(given)


def test_pipelined_requests_that_wait_for_a_block_each_get_an_id() -> None:
    with Broker() as broker, RawClient(broker.port) as client:
        sent = [
            client.send(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None)) for _ in range(50)
        ]
        given = [client.receive(ApiKey.INIT_PRODUCER_ID, 4, correlation_id).producer_id for correlation_id in sent]

    assert len(set(given)) == 50


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (InitProducerIdRequest(transactional_id=""), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(transactional_id=None, producer_id=5), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(transactional_id=None, producer_epoch=5), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_gets_no_id_is_refused(client: RawClient, request_: InitProducerIdRequest, code: ErrorCode) -> None:
    response = client.call(ApiKey.INIT_PRODUCER_ID, 4, request_)

    assert (response.error_code, response.producer_id, response.producer_epoch) == (code, None, None)


# FindCoordinator


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
def test_groups_and_transactions_are_told_this_broker(broker: Broker, client: RawClient, version: int) -> None:
    def find(key_type: int) -> tuple[int, int, str, int]:
        request = FindCoordinatorRequest(key="k", key_type=key_type, coordinator_keys=["k"])
        response = client.call(ApiKey.FIND_COORDINATOR, version, request)
        found = response.coordinators[0] if version >= 4 else response
        return found.error_code, found.node_id, found.host, found.port

    assert find(0) == (0, 1, "127.0.0.1", broker.port)
    if version >= 1:
        assert find(1) == (0, 1, "127.0.0.1", broker.port)
        share = ErrorCode.COORDINATOR_NOT_AVAILABLE if version >= 6 else ErrorCode.INVALID_REQUEST
        assert find(2)[0] == share
        assert find(7)[0] == ErrorCode.INVALID_REQUEST
