"""Members of different libraries in one group, with each assignor that both have: whoever leads, all partitions are
assigned once, and they stay where they are when a member that comes or goes does not need them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from semel import blocking
from semel.testing import Broker
from semel.types import TopicPartition
from tests.clients.waiting import eventually
from tools.patience import PATIENCE_S

PARTITIONS = 6
TOPIC = "shared"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=PARTITIONS, group_initial_rebalance_delay_ms=100) as running:
        with blocking.Producer(bootstrap_servers=running.bootstrap_servers) as producer:
            producer.send(TOPIC, b"first").result(PATIENCE_S)
        yield running


class Member:
    """A consumer that polls in a thread of its own until it is left."""

    def __init__(self, poll: Callable[[], object], assigned: Callable[[], set[TopicPartition]]) -> None:
        self.assigned: set[TopicPartition] = set()
        self._stop = threading.Event()

        def run() -> None:
            while not self._stop.is_set():
                poll()
                self.assigned = assigned()

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def own(broker: Broker, strategy: str) -> tuple[Member, Callable[[], None]]:
    consumer = blocking.Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id="mixed",
        partition_assignment_strategy=strategy,
        heartbeat_interval_ms=100,
    )
    consumer.subscribe([TOPIC])
    return Member(lambda: consumer.poll(50), lambda: set(consumer.assignment)), consumer.close


def librdkafka(broker: Broker, strategy: str) -> tuple[Member, Callable[[], None]]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "mixed",
            "partition.assignment.strategy": strategy,
            "heartbeat.interval.ms": 100,
        }
    )
    consumer.subscribe([TOPIC])
    return (
        Member(
            lambda: consumer.poll(0.05),
            lambda: {TopicPartition(one.topic, one.partition) for one in consumer.assignment()},
        ),
        consumer.close,
    )


def wait_until_shared(members: list[Member]) -> None:
    """Every partition has one owner, and the shares are even."""

    def shares() -> tuple[list[int], int]:
        assigned = [member.assigned for member in members]
        return [len(partitions) for partitions in assigned], len(set().union(*assigned))

    eventually(([PARTITIONS // len(members)] * len(members), PARTITIONS), shares)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
@pytest.mark.parametrize("kinds", [(own, librdkafka), (librdkafka, own)], ids=["ours-leads", "librdkafka-leads"])
def test_two_libraries_share_a_topic_whoever_leads(broker: Broker, kinds: tuple[object, object], strategy: str) -> None:
    members: list[tuple[Member, Callable[[], None]]] = []
    try:
        for kind in kinds:
            members.append(kind(broker, strategy))  # type: ignore[operator]
            wait_until_shared([member for member, _ in members])
        before = members[1][0].assigned
        members[0][0].stop()
        members[0][1]()
        wait_until_shared([members[1][0]])
        if strategy == "cooperative-sticky":
            assert before <= members[1][0].assigned
    finally:
        for member, close in members:
            member.stop()
            close()
