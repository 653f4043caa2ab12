"""kafka-python's admin client: the same calls in newer versions, and some that no other client here has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec, OffsetTimestamp
from kafka.errors import (
    InvalidPartitionsError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from tests.clients.libraries import Record
from tests.clients.libraries.kafka_python import KafkaPython
from tests.clients.libraries.sending import Sending
from tests.clients.waiting import eventually
from tools.server import Server

NOON_MS = 1_700_000_000_000


@pytest.fixture
def python_admin(cluster: Server) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    yield admin
    admin.close()


def setting(admin: KafkaAdminClient, topic: str, name: str) -> str:
    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
    return described["topic"][topic][name]["value"]


def test_a_topic_is_created_described_and_deleted(python_admin: KafkaAdminClient, absent_topic: str) -> None:
    wanted = {absent_topic: {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "1000"}}}
    python_admin.create_topics(wanted, wait_for_metadata=True)
    (described,) = python_admin.describe_topics([absent_topic])
    assert [partition["partition_index"] for partition in described["partitions"]] == [0, 1, 2]
    assert setting(python_admin, absent_topic, "retention.ms") == "1000"
    with pytest.raises(TopicAlreadyExistsError):
        python_admin.create_topics(wanted)
    python_admin.delete_topics([absent_topic])
    eventually(False, lambda: absent_topic in python_admin.list_topics())
    with pytest.raises(UnknownTopicOrPartitionError):
        python_admin.delete_topics([absent_topic])


def test_defaults_of_the_broker_hold_where_a_topic_says_nothing(
    python_admin: KafkaAdminClient, absent_topic: str
) -> None:
    python_admin.create_topics([absent_topic], wait_for_metadata=True)
    (described,) = python_admin.describe_topics([absent_topic])
    assert len(described["partitions"]) == 1


def test_partitions_are_added(python_admin: KafkaAdminClient, topic: str) -> None:
    python_admin.create_partitions({topic: 5})
    eventually(5, lambda: len(python_admin.describe_topics([topic])[0]["partitions"]))
    with pytest.raises(InvalidPartitionsError):
        python_admin.create_partitions({topic: 1})


def test_partitions_are_described_page_by_page(python_admin: KafkaAdminClient, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=5)
    pages, cursor = [], None
    while True:
        page = python_admin.describe_topic_partitions([topic], response_partition_limit=2, cursor=cursor)
        pages.append([partition["partition_index"] for found in page["topics"] for partition in found["partitions"]])
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert pages == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("incremental", [True, False])
def test_settings_are_changed(python_admin: KafkaAdminClient, topic: str, incremental: bool) -> None:
    changed = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "5000"})
    python_admin.alter_configs([changed], incremental=incremental)
    eventually("5000", lambda: setting(python_admin, topic, "retention.ms"))


def test_a_wrong_setting_is_refused(python_admin: KafkaAdminClient, topic: str) -> None:
    wrong = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "soon"})
    answer = python_admin.alter_configs([wrong])["topic"][topic]
    assert "InvalidConfigurationError" in answer
    assert "retention.ms" in answer


def test_records_are_deleted(cluster: Server, python_admin: KafkaAdminClient, topic: str) -> None:
    KafkaPython().produce(cluster.bootstrap_servers, topic, [Record(b"x")] * 10)
    partition = TopicPartition(topic, 0)
    deleted = python_admin.delete_records({partition: 6})
    assert deleted[partition]["low_watermark"] == 6
    assert python_admin.list_partition_offsets({partition: OffsetSpec.EARLIEST})[partition].offset == 6
    with pytest.raises(OffsetOutOfRangeError):
        python_admin.delete_records({partition: 100})


def test_offsets_are_listed_by_place_and_by_time(cluster: Server, python_admin: KafkaAdminClient, topic: str) -> None:
    times = [NOON_MS, NOON_MS + 5000, NOON_MS + 2000]
    KafkaPython().produce(cluster.bootstrap_servers, topic, [Record(b"x", timestamp_ms=time_ms) for time_ms in times])
    partition = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec | OffsetTimestamp) -> int:
        return python_admin.list_partition_offsets({partition: spec})[partition].offset

    assert offset(OffsetSpec.EARLIEST) == 0
    assert offset(OffsetSpec.LATEST) == 3
    assert offset(OffsetSpec.MAX_TIMESTAMP) == 1
    assert offset(OffsetSpec.EARLIEST_LOCAL) == 0
    assert offset(OffsetTimestamp(NOON_MS + 1)) == 1


def test_log_directories_show_what_a_topic_takes(cluster: Server, python_admin: KafkaAdminClient, topic: str) -> None:
    KafkaPython().produce(cluster.bootstrap_servers, topic, [Record(b"x" * 1000)] * 10)
    (broker,) = python_admin.describe_log_dirs({topic: [0]})
    (folder,) = broker["log_dirs"]
    (found,) = folder["topics"]
    assert (found["name"], [partition["partition_index"] for partition in found["partitions"]]) == (topic, [0])
    assert found["partitions"][0]["partition_size"] > 10_000
    assert folder["log_dir"] == str(cluster.data_dir)


def test_the_cluster_is_described(cluster: Server, python_admin: KafkaAdminClient) -> None:
    described = python_admin.describe_cluster()
    assert [f"{broker['host']}:{broker['port']}" for broker in described["brokers"]] == [cluster.bootstrap_servers]
    assert described["controller_id"] == described["brokers"][0]["broker_id"]


def test_an_idempotent_producer_is_described(cluster: Server, python_admin: KafkaAdminClient, topic: str) -> None:
    KafkaPython().produce(cluster.bootstrap_servers, topic, [Record(b"x")] * 3, Sending(idempotent=True))
    partition = TopicPartition(topic, 0)
    (producer,) = python_admin.describe_producers([partition])[partition].active_producers
    assert producer.producer_id >= 0
    assert (producer.producer_epoch, producer.last_sequence) == (0, 2)


def test_the_client_takes_the_broker_for_one_of_its_own_day(python_admin: KafkaAdminClient) -> None:
    """It infers a version from what is advertised, and switches features by it (facts: Produce 13, Fetch 18, ...)."""
    (broker,) = python_admin.describe_cluster()["brokers"]
    assert python_admin.get_broker_version_data(broker["broker_id"]).broker_version >= (4, 0)


def test_an_absent_topic_is_an_error_and_is_not_created(python_admin: KafkaAdminClient, absent_topic: str) -> None:
    with pytest.raises(UnknownTopicOrPartitionError):
        python_admin.list_partition_offsets({TopicPartition(absent_topic, 0): OffsetSpec.LATEST})
    assert absent_topic not in python_admin.list_topics()
