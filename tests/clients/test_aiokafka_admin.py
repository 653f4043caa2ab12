"""aiokafka's admin client: the oldest versions of the admin calls that a client of today sends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import OffsetOutOfRangeError

from tests.clients.libraries import Record
from tests.clients.libraries.aio import Aiokafka
from tests.clients.waiting import eventually
from tools.server import Server

T = TypeVar("T")


def ask(cluster: Server, question: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
    async def with_admin() -> T:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        await admin.start()
        try:
            return await asyncio.wait_for(question(admin), 20)
        finally:
            await admin.close()

    return asyncio.run(with_admin())


def errors(response: Any) -> dict[str, int]:
    return {entry[0]: entry[1] for entry in getattr(response, "topic_errors", None) or response.topic_error_codes}


def setting(cluster: Server, topic: str, name: str) -> str:
    (response,) = ask(cluster, lambda admin: admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
    ((error_code, _, _, _, entries),) = response.resources
    assert error_code == 0
    return {entry[0]: entry[1] for entry in entries}[name]


def test_a_topic_is_created_listed_and_deleted(cluster: Server, absent_topic: str) -> None:
    created = ask(cluster, lambda admin: admin.create_topics([NewTopic(absent_topic, 3, 1)]))
    assert errors(created) == {absent_topic: 0}
    again = ask(cluster, lambda admin: admin.create_topics([NewTopic(absent_topic, 3, 1)]))
    assert errors(again) == {absent_topic: 36}
    (described,) = ask(cluster, lambda admin: admin.describe_topics([absent_topic]))
    assert sorted(partition["partition"] for partition in described["partitions"]) == [0, 1, 2]
    assert errors(ask(cluster, lambda admin: admin.delete_topics([absent_topic]))) == {absent_topic: 0}
    eventually(False, lambda: absent_topic in ask(cluster, lambda admin: admin.list_topics()))


def test_partitions_are_added(cluster: Server, topic: str) -> None:
    response = ask(cluster, lambda admin: admin.create_partitions({topic: NewPartitions(4)}))
    assert errors(response) == {topic: 0}
    eventually(4, lambda: len(ask(cluster, lambda admin: admin.describe_topics([topic]))[0]["partitions"]))


def test_settings_are_changed(cluster: Server, topic: str) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "7000"})
    responses = ask(cluster, lambda admin: admin.alter_configs([resource]))
    assert [entry[0] for entry in responses[0].resources] == [0]
    eventually("7000", lambda: setting(cluster, topic, "retention.ms"))


def test_records_are_deleted(cluster: Server, topic: str) -> None:
    Aiokafka().produce(cluster.bootstrap_servers, topic, [Record(b"x")] * 10)
    partition = TopicPartition(topic, 0)
    deleted = ask(cluster, lambda admin: admin.delete_records({partition: RecordsToDelete(before_offset=3)}))
    assert deleted == {partition: 3}
    with Aiokafka().reader(cluster.bootstrap_servers, topic, "earliest") as reader:
        assert [stored.offset for stored in reader.read(7)] == list(range(3, 10))
    with pytest.raises(OffsetOutOfRangeError):
        ask(cluster, lambda admin: admin.delete_records({partition: RecordsToDelete(before_offset=50)}))


def test_the_cluster_is_described(cluster: Server) -> None:
    described = ask(cluster, lambda admin: admin.describe_cluster())
    (broker,) = described["brokers"]
    assert f"{broker['host']}:{broker['port']}" == cluster.bootstrap_servers
    assert described["controller_id"] == broker["node_id"]
