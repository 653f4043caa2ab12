"""confluent-kafka's AdminClient, and what its consumer says of things that are not there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.clients.libraries import Record
from tests.clients.libraries.confluent import Confluent
from tests.clients.waiting import eventually
from tools.patience import PATIENCE_S
from tools.server import Server

NOON_MS = 1_700_000_000_000


def only(futures: Mapping[Any, Future[Any]]) -> Any:
    (future,) = futures.values()
    return future.result(timeout=PATIENCE_S)


def refusal(futures: Mapping[Any, Future[Any]]) -> str:
    with pytest.raises(KafkaException) as raised:
        only(futures)
    error: KafkaError = raised.value.args[0]
    return error.name()


def partitions_of(admin: AdminClient, topic: str) -> int | None:
    found = admin.list_topics(timeout=PATIENCE_S).topics.get(topic)
    return len(found.partitions) if found is not None and found.error is None else None


def setting(admin: AdminClient, topic: str, name: str) -> str:
    return only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))[name].value


def test_a_topic_is_created_listed_and_deleted(admin: AdminClient, absent_topic: str) -> None:
    assert only(admin.create_topics([NewTopic(absent_topic, 3, 1)])) is None
    eventually(3, lambda: partitions_of(admin, absent_topic))
    assert only(admin.delete_topics([absent_topic])) is None
    eventually(None, lambda: partitions_of(admin, absent_topic))


def test_validating_a_topic_does_not_create_it(admin: AdminClient, absent_topic: str, topic: str) -> None:
    only(admin.create_topics([NewTopic(absent_topic, 1, 1)], validate_only=True))
    assert refusal(admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True)) == "TOPIC_ALREADY_EXISTS"
    assert absent_topic not in admin.list_topics(timeout=PATIENCE_S).topics


def test_topics_that_cannot_be_are_refused_for_their_own_reason(
    admin: AdminClient, topic: str, absent_topic: str
) -> None:
    def create(name: str, partitions: int = 1, replicas: int = 1, **config: str) -> str:
        return refusal(admin.create_topics([NewTopic(name, partitions, replicas, config=config)]))

    assert create(topic) == "TOPIC_ALREADY_EXISTS"
    assert create("no spaces") == "TOPIC_EXCEPTION"
    assert create("x" * 250) == "TOPIC_EXCEPTION"
    assert create(absent_topic, partitions=0) == "INVALID_PARTITIONS"
    assert create(absent_topic, replicas=3) == "INVALID_REPLICATION_FACTOR"
    assert create(absent_topic, **{"no.such.setting": "1"}) == "INVALID_CONFIG"
    assert create(absent_topic, **{"retention.ms": "soon"}) == "INVALID_CONFIG"
    assert refusal(admin.delete_topics([absent_topic])) == "UNKNOWN_TOPIC_OR_PART"


def test_one_bad_topic_does_not_spoil_the_others(admin: AdminClient, topic: str, absent_topic: str) -> None:
    futures = admin.create_topics([NewTopic(topic, 1, 1), NewTopic(absent_topic, 2, 1)])
    assert futures[absent_topic].result(timeout=PATIENCE_S) is None
    with pytest.raises(KafkaException):
        futures[topic].result(timeout=PATIENCE_S)
    eventually(2, lambda: partitions_of(admin, absent_topic))


def test_partitions_are_added_and_never_taken_away(admin: AdminClient, topic: str, absent_topic: str) -> None:
    only(admin.create_partitions([NewPartitions(topic, 4)]))
    eventually(4, lambda: partitions_of(admin, topic))
    assert refusal(admin.create_partitions([NewPartitions(topic, 2)])) == "INVALID_PARTITIONS"
    assert refusal(admin.create_partitions([NewPartitions(topic, 4)])) == "INVALID_PARTITIONS"
    assert refusal(admin.create_partitions([NewPartitions(absent_topic, 4)])) == "UNKNOWN_TOPIC_OR_PART"


def test_added_partitions_take_records(cluster: Server, admin: AdminClient, topic: str) -> None:
    only(admin.create_partitions([NewPartitions(topic, 2)]))
    eventually(2, lambda: partitions_of(admin, topic))

    def end() -> int | None:
        try:
            offset: int = only(admin.list_offsets({TopicPartition(topic, 1): OffsetSpec.latest()})).offset
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return None  # Apache Kafka needs a moment to lead what it has just made.
        return offset

    eventually(0, end)


def test_settings_given_at_creation_are_described(admin: AdminClient, new_topic: Callable[..., str]) -> None:
    topic = new_topic(**{"retention.ms": "123456", "cleanup.policy": "compact"})
    described = only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    changed = {name: entry.value for name, entry in described.items() if not entry.is_default}
    assert {"retention.ms": "123456", "cleanup.policy": "compact"}.items() <= changed.items()
    assert described["max.message.bytes"].value == "1048588"
    assert described["max.message.bytes"].is_default
    assert described["segment.bytes"].value == "1073741824"


def test_settings_are_changed_one_by_one_and_put_back(admin: AdminClient, topic: str) -> None:
    def change(name: str, operation: AlterConfigOpType, value: str | None = None) -> Mapping[Any, Future[Any]]:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        return admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])])

    only(change("retention.ms", AlterConfigOpType.SET, "1000"))
    only(change("segment.bytes", AlterConfigOpType.SET, "2097152"))
    eventually(
        ("1000", "2097152"), lambda: (setting(admin, topic, "retention.ms"), setting(admin, topic, "segment.bytes"))
    )
    only(change("retention.ms", AlterConfigOpType.DELETE))
    eventually("604800000", lambda: setting(admin, topic, "retention.ms"))
    only(change("cleanup.policy", AlterConfigOpType.APPEND, "compact"))
    eventually("delete,compact", lambda: setting(admin, topic, "cleanup.policy"))
    assert setting(admin, topic, "segment.bytes") == "2097152"
    assert refusal(change("retention.ms", AlterConfigOpType.SET, "soon")) == "INVALID_CONFIG"
    assert refusal(change("no.such.setting", AlterConfigOpType.SET, "1")) == "INVALID_CONFIG"


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
def test_the_older_call_replaces_all_settings_at_once(admin: AdminClient, new_topic: Callable[..., str]) -> None:
    topic = new_topic(**{"retention.ms": "1000"})
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "2097152"})
    only(admin.alter_configs([resource]))
    eventually(
        ("604800000", "2097152"),
        lambda: (setting(admin, topic, "retention.ms"), setting(admin, topic, "segment.bytes")),
    )


def test_a_raised_limit_on_record_size_holds_at_once(cluster: Server, admin: AdminClient, topic: str) -> None:
    entry = ConfigEntry("max.message.bytes", "3000000", incremental_operation=AlterConfigOpType.SET)
    only(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]))
    eventually("3000000", lambda: setting(admin, topic, "max.message.bytes"))
    assert Confluent().produce(cluster.bootstrap_servers, topic, [Record(b"x" * 2_000_000)]) == [0]


def test_the_broker_describes_its_own_settings(admin: AdminClient) -> None:
    (broker_id,) = admin.list_topics(timeout=PATIENCE_S).brokers
    described = only(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(broker_id))]))
    assert described["log.segment.bytes"].value == "1073741824"
    assert described["num.partitions"].value == "1"


def test_deleted_records_are_gone_and_offsets_go_on(cluster: Server, admin: AdminClient, topic: str) -> None:
    client = Confluent()
    client.produce(cluster.bootstrap_servers, topic, [Record(b"%d" % number) for number in range(10)])
    assert only(admin.delete_records([TopicPartition(topic, 0, 4)])).low_watermark == 4
    assert only(admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()})).offset == 4
    with client.reader(cluster.bootstrap_servers, topic, "earliest") as reader:
        assert [stored.offset for stored in reader.read(6)] == [4, 5, 6, 7, 8, 9]
    assert refusal(admin.delete_records([TopicPartition(topic, 0, 11)])) == "OFFSET_OUT_OF_RANGE"
    assert client.produce(cluster.bootstrap_servers, topic, [Record(b"next")]) == [10]


def test_deleting_up_to_the_end_leaves_an_empty_log(cluster: Server, admin: AdminClient, topic: str) -> None:
    Confluent().produce(cluster.bootstrap_servers, topic, [Record(b"x")] * 5)
    # -1 is the high watermark, wherever that is.
    assert only(admin.delete_records([TopicPartition(topic, 0, -1)])).low_watermark == 5
    earliest = only(admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()})).offset
    latest = only(admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})).offset
    assert (earliest, latest) == (5, 5)


def test_offsets_are_listed_by_place_and_by_time(cluster: Server, admin: AdminClient, topic: str) -> None:
    times = [NOON_MS, NOON_MS + 5000, NOON_MS + 2000]
    Confluent().produce(cluster.bootstrap_servers, topic, [Record(b"x", timestamp_ms=time_ms) for time_ms in times])

    def offset(spec: OffsetSpec, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> tuple[int, int]:
        found = only(admin.list_offsets({TopicPartition(topic, 0): spec}, isolation_level=isolation))
        return found.offset, found.timestamp

    assert offset(OffsetSpec.earliest()) == (0, -1)
    assert offset(OffsetSpec.latest()) == (3, -1)
    assert offset(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED) == (3, -1)
    assert offset(OffsetSpec.max_timestamp()) == (1, NOON_MS + 5000)
    assert offset(OffsetSpec.for_timestamp(NOON_MS + 1)) == (1, NOON_MS + 5000)
    assert offset(OffsetSpec.for_timestamp(NOON_MS + 5001)) == (-1, -1)


def test_the_cluster_and_its_topics_are_described(cluster: Server, admin: AdminClient, topic: str) -> None:
    described = admin.describe_cluster().result(timeout=PATIENCE_S)
    assert [f"{node.host}:{node.port}" for node in described.nodes] == [cluster.bootstrap_servers]
    assert described.controller.id == described.nodes[0].id
    assert len(described.cluster_id) == 22
    found = only(admin.describe_topics(TopicCollection([topic])))
    (partition,) = found.partitions
    assert (found.name, found.is_internal) == (topic, False)
    assert [node.id for node in (partition.leader, *partition.replicas, *partition.isr)] == [described.nodes[0].id] * 3


def test_asking_for_an_absent_topic_is_an_error_and_does_not_create_it(
    cluster: Server, admin: AdminClient, absent_topic: str
) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})
    try:
        error = consumer.list_topics(absent_topic, timeout=PATIENCE_S).topics[absent_topic].error
        assert error is not None
        assert error.name() == "UNKNOWN_TOPIC_OR_PART"
    finally:
        consumer.close()
    assert absent_topic not in admin.list_topics(timeout=PATIENCE_S).topics


def test_a_consumer_with_positions_to_commit_closes_without_hanging(cluster: Server, topic: str) -> None:
    """Its commit needs a group coordinator; a broker without one says so and must not keep the client waiting."""
    Confluent().produce(cluster.bootstrap_servers, topic, [Record(b"x")])
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "nobody", "enable.auto.commit": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(PATIENCE_S) is not None
    closing = threading.Thread(target=consumer.close, daemon=True)
    closing.start()
    closing.join(timeout=PATIENCE_S)
    assert not closing.is_alive(), "close() still waits"
