"""Consumers of three libraries share a topic: everybody has a part, and who leaves is followed by the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor

from semel.testing import Broker
from tests.clients.waiting import eventually
from tools.load import create_topic
from tools.patience import PATIENCE_S

PARTITIONS = 6
RECORDS = 300
GROUP = "readers"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(group_initial_rebalance_delay_ms=300) as running:
        create_topic(running.bootstrap_servers, "orders", partitions=PARTITIONS, config={})
        yield running


class Member:
    """One consumer in a thread of its own. ``partitions`` is what it has, ``read`` what it has read."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.partitions: set[int] = set()
        self.read: list[tuple[int, int]] = []
        self.stop = Event()

    def run(self) -> None:
        raise NotImplementedError


class ConfluentMember(Member):
    def run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 45_000,
                "heartbeat.interval.ms": 300,
                "partition.assignment.strategy": "range",
            }
        )
        consumer.subscribe(["orders"])
        try:
            while not self.stop.is_set():
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    partition, offset = message.partition(), message.offset()
                    assert partition is not None
                    assert offset is not None
                    self.read.append((partition, offset))
                self.partitions = {one.partition for one in consumer.assignment()}
        finally:
            consumer.close()


PYTHON_SETTINGS: Final[dict[str, Any]] = {
    "group_id": GROUP,
    "auto_offset_reset": "earliest",
    "session_timeout_ms": 45_000,
    "heartbeat_interval_ms": 300,
}


class KafkaPythonMember(Member):
    def run(self) -> None:
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=self.bootstrap_servers,
            **PYTHON_SETTINGS,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        try:
            while not self.stop.is_set():
                for records in consumer.poll(100).values():
                    self.read += ((record.partition, record.offset) for record in records)
                self.partitions = {one.partition for one in consumer.assignment()}
        finally:
            consumer.close()


class AiokafkaMember(Member):
    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=self.bootstrap_servers,
            **PYTHON_SETTINGS,
            partition_assignment_strategy=[AioRange],
        )
        await consumer.start()
        try:
            while not self.stop.is_set():
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    self.read += ((record.partition, record.offset) for record in records)
                self.partitions = {one.partition for one in consumer.assignment()}
        finally:
            await consumer.stop()


def fill(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce("orders", b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def shared(members: list[Member]) -> bool:
    """Whether the partitions are dealt out: all of them, none twice, and everybody has some."""
    held = [partition for member in members for partition in member.partitions]
    return sorted(held) == list(range(PARTITIONS)) and all(member.partitions for member in members)


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param((ConfluentMember, ConfluentMember), id="confluent-kafka"),
        pytest.param((KafkaPythonMember, KafkaPythonMember), id="kafka-python"),
        pytest.param((AiokafkaMember, AiokafkaMember), id="aiokafka"),
        pytest.param((ConfluentMember, KafkaPythonMember, AiokafkaMember), id="all-three"),
    ],
)
def test_members_share_a_topic_and_follow_who_leaves(broker: Broker, kinds: tuple[type[Member], ...]) -> None:
    fill(broker)
    members = [kind(broker.bootstrap_servers) for kind in kinds]
    everything = {(number % PARTITIONS, number // PARTITIONS) for number in range(RECORDS)}
    with ThreadPoolExecutor(len(members)) as threads:
        running: list[Future[None]] = [threads.submit(member.run) for member in members]
        try:
            eventually(True, lambda: shared(members))
            eventually(True, lambda: everything == {one for member in members for one in member.read})
            gone, stays = members[0], members[1:]
            gone.stop.set()
            running[0].result(timeout=PATIENCE_S)
            eventually(True, lambda: shared(stays))
        finally:
            for member in members:
                member.stop.set()
    for future in running:
        future.result()
    read = [one for member in members for one in member.read]
    assert sorted(read) == sorted(everything), "committed when leaving, so nothing is read twice"
