"""KIP-848 by real clients: librdkafka with ``group.protocol=consumer``, and Kafka's own consumer and tools.

Every test that takes ``cluster`` runs on Semel in ``make test`` and on Apache Kafka in ``make test-kafka``.
"""

from __future__ import annotations

import re
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from tests.clients.conftest import APACHE_KAFKA, SEMEL
from tools.brokers import apache_kafka, run_java, semel
from tools.load import create_topic
from tools.patience import PATIENCE_S
from tools.server import Server, running

# So that a rebalance takes a second and not half a minute.
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
}
PARTITIONS = 12
RECORDS = 1200


@pytest.fixture(scope="module", params=[SEMEL, APACHE_KAFKA])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    make = semel if request.param == "semel" else apache_kafka
    with running(make(tmp_path_factory.mktemp(request.param), settings=SETTINGS)) as server:
        yield server


class Members:
    """Consumers of one group, polled in turn."""

    def __init__(self, cluster: Server, group_id: str, topic: str) -> None:
        self._settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        self.topic = topic
        self.consumers: list[Consumer] = []
        self.seen: Counter[bytes] = Counter()

    def join(self, **settings: Any) -> Consumer:
        consumer = Consumer({**self._settings, "group.protocol": "consumer", **settings})
        consumer.subscribe([self.topic])
        self.consumers.append(consumer)
        return consumer

    def leave(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        consumer.close()

    def shares(self) -> list[int]:
        """How many partitions each one has, sorted; and no partition is with two."""
        assigned = [
            [(partition.topic, partition.partition) for partition in consumer.assignment()]
            for consumer in self.consumers
        ]
        everything = [partition for one in assigned for partition in one]
        assert len(everything) == len(set(everything)), assigned
        return sorted(map(len, assigned))

    def poll_until(self, condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"shares {self.shares()}, {len(self.seen)} records seen"
            for consumer in self.consumers:
                message = consumer.poll(0.01)
                if message is not None:
                    self._consumed(message)

    def _consumed(self, message: Message) -> None:
        error = message.error()
        # A topic that is just being made is not an error of the group.
        assert error is None or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART, error
        if error is None:
            self.seen[message.value() or b""] += 1


@pytest.fixture
def members(cluster: Server, request: pytest.FixtureRequest) -> Iterator[Members]:
    name = re.sub(r"[^a-z0-9_-]+", "-", request.node.name)
    create_topic(cluster.bootstrap_servers, name, partitions=PARTITIONS)
    members = Members(cluster, f"group of {name}", name)
    yield members
    for consumer in members.consumers:
        consumer.close()


def produce(cluster: Server, topic: str, count: int = RECORDS) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def test_members_come_and_go_and_share_all_partitions(cluster: Server, members: Members) -> None:
    produce(cluster, members.topic)
    first = members.join()
    members.poll_until(lambda: members.shares() == [12] and len(members.seen) == RECORDS)
    assert set(members.seen.values()) == {1}
    for expected in ([6, 6], [4, 4, 4], [3, 3, 3, 3]):
        members.join()
        members.poll_until(lambda expected=expected: members.shares() == expected)  # type: ignore[misc]

    members.leave(first)
    members.poll_until(lambda: members.shares() == [4, 4, 4])


def test_committed_offsets_are_where_the_next_owner_goes_on(cluster: Server, members: Members) -> None:
    produce(cluster, members.topic)
    first = members.join()
    members.poll_until(lambda: len(members.seen) == RECORDS)
    first.commit(asynchronous=False)
    second = members.join()
    members.poll_until(lambda: members.shares() == [6, 6])
    members.leave(first)
    produce(cluster, members.topic, 24)

    members.poll_until(lambda: members.shares() == [12] and members.seen.total() == RECORDS + 24)
    second.commit(asynchronous=False)
    committed = second.committed(
        [TopicPartition(members.topic, index) for index in range(PARTITIONS)], timeout=PATIENCE_S
    )
    assert sum(partition.offset for partition in committed) == RECORDS + 24


KILLED_CONSUMER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "group.protocol": "consumer"})
consumer.subscribe([sys.argv[3]])
while not consumer.assignment():
    consumer.poll(0.1)
print("assigned", flush=True)
while True:
    consumer.poll(0.1)
"""


def test_the_partitions_of_a_killed_member_are_taken_over(cluster: Server, members: Members) -> None:
    members.join()
    members.poll_until(lambda: members.shares() == [12])
    group_id = f"group of {members.topic}"
    command = [sys.executable, "-c", KILLED_CONSUMER, cluster.bootstrap_servers, group_id, members.topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        try:
            printed = victim.stdout
            assert printed is not None
            # The other member is polled until the victim has its partitions: it gives them up only while it is polled.
            members.poll_until(lambda: members.shares() == [6] and bool(select.select([printed], [], [], 0)[0]))
            assert printed.readline() == "assigned\n"
        finally:
            victim.kill()

    members.poll_until(lambda: members.shares() == [12])


def test_a_static_member_comes_back_to_its_partitions(cluster: Server, members: Members) -> None:
    other = members.join()
    first = members.join(**{"group.instance.id": "one"})
    members.poll_until(lambda: members.shares() == [6, 6])
    before, others = first.assignment(), other.assignment()
    members.leave(first)

    again = members.join(**{"group.instance.id": "one"})
    members.poll_until(lambda: members.shares() == [6, 6])

    assert again.assignment() == before
    assert other.assignment() == others


def test_a_regular_expression_finds_topics_that_are_made_later(cluster: Server, members: Members) -> None:
    members.topic = f"^{members.topic}.*"
    members.join()
    members.poll_until(lambda: members.shares() == [12])

    create_topic(cluster.bootstrap_servers, f"{members.topic[1:-2]}-and-another", partitions=3)

    members.poll_until(lambda: members.shares() == [15])


def test_new_partitions_are_found(cluster: Server, members: Members) -> None:
    members.join()
    members.poll_until(lambda: members.shares() == [12])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.create_partitions([NewPartitions(members.topic, 16)]).values():
        future.result(PATIENCE_S)

    members.poll_until(lambda: members.shares() == [16])


def test_a_group_is_described(cluster: Server, members: Members) -> None:
    members.join(**{"client.id": "reader"})
    members.poll_until(lambda: members.shares() == [12])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    described = admin.describe_consumer_groups([f"group of {members.topic}"])[f"group of {members.topic}"].result(
        PATIENCE_S
    )

    assert described.state is ConsumerGroupState.STABLE
    assert described.type.name == "CONSUMER"
    assert described.partition_assignor == "uniform"
    (member,) = described.members
    assert (member.client_id, len(member.assignment.topic_partitions)) == ("reader", 12)
    assert len(member.target_assignment.topic_partitions) == 12


def upgrade_and_downgrade(members: Members, assignor: str) -> None:
    classic = {
        "group.protocol": "classic",
        "partition.assignment.strategy": assignor,
        "heartbeat.interval.ms": 200,
        "session.timeout.ms": 45_000,
    }
    members.join(**classic)
    members.join(**classic)
    members.poll_until(lambda: members.shares() == [6, 6])

    modern = members.join()
    members.poll_until(lambda: members.shares() == [4, 4, 4])
    members.leave(modern)
    members.poll_until(lambda: members.shares() == [6, 6] and len(members.seen) == RECORDS)


def test_classic_members_are_upgraded_and_downgraded_while_they_run(cluster: Server, members: Members) -> None:
    produce(cluster, members.topic)
    upgrade_and_downgrade(members, "range")


def test_cooperative_members_are_upgraded_and_downgraded_too(server: Server) -> None:
    """Apache Kafka takes librdkafka's cooperative-sticky for an assignor of somebody's own, and refuses."""
    members = Members(server, "cooperative", "orders")
    try:
        upgrade_and_downgrade(members, "cooperative-sticky")
    finally:
        for consumer in members.consumers:
            consumer.close()


# A server of its own, on Semel only.


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(semel(tmp_path_factory.mktemp("semel"), settings=SETTINGS)) as server:
        create_topic(server.bootstrap_servers, "orders", partitions=PARTITIONS)
        produce(server, "orders")
        yield server


def test_members_carry_on_when_their_broker_is_killed(server: Server) -> None:
    """They heartbeat under the epochs that the log has, and nothing moves."""
    create_topic(server.bootstrap_servers, "survivors", partitions=PARTITIONS)
    produce(server, "survivors")
    members = Members(server, "survivors", "survivors")
    first, second = members.join(), members.join()
    try:
        members.poll_until(lambda: members.shares() == [6, 6] and len(members.seen) == RECORDS)
        before = first.assignment(), second.assignment()
        first.commit(asynchronous=False)
        second.commit(asynchronous=False)

        server.kill()
        server.start()

        seen = members.seen.total()
        producer = Producer({"bootstrap.servers": server.bootstrap_servers})
        for partition in range(PARTITIONS):
            producer.produce("survivors", b"after", partition=partition)
        assert producer.flush(PATIENCE_S) == 0
        members.poll_until(lambda: members.seen[b"after"] == PARTITIONS)
        assert (first.assignment(), second.assignment()) == before
        assert members.seen.total() == seen + PARTITIONS, "nobody began anew"
        first.commit(asynchronous=False)
    finally:
        for consumer in members.consumers:
            consumer.close()


def read_with_java(server: Server, group_id: str) -> list[str]:
    arguments = ["--bootstrap-server", server.bootstrap_servers, "--topic", "orders", "--group", group_id]
    arguments += ["--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "30000"]
    arguments += ["--command-property", "group.protocol=consumer"]
    output = run_java("org.apache.kafka.tools.consumer.ConsoleConsumer", arguments)
    return [line for line in output.splitlines() if line.isdigit()]


@pytest.mark.kafka
@pytest.mark.needs("kafka")
def test_the_java_consumer_reads_everything_once(server: Server) -> None:
    assert sorted(map(int, read_with_java(server, "java"))) == list(range(RECORDS))


@pytest.mark.kafka
@pytest.mark.needs("kafka")
def test_the_java_consumer_shares_a_group_with_librdkafka(server: Server) -> None:
    members = Members(server, "mixed", "orders")
    members.join()
    members.poll_until(lambda: members.shares() == [12] and len(members.seen) == RECORDS)
    arguments = ["--bootstrap-server", server.bootstrap_servers, "--topic", "orders", "--group", "mixed"]
    arguments += ["--timeout-ms", "6000", "--command-property", "group.protocol=consumer"]
    try:
        with ThreadPoolExecutor(1) as pool:
            java = pool.submit(run_java, "org.apache.kafka.tools.consumer.ConsoleConsumer", arguments)
            members.poll_until(lambda: members.shares() == [6])
            members.poll_until(java.done)
        members.poll_until(lambda: members.shares() == [12])
    finally:
        for consumer in members.consumers:
            consumer.close()


def test_a_regular_expression_matches_internal_topics_too(cluster: Server) -> None:
    """The coordinator leaves none out. A first group makes sure that there is one."""
    create_topic(cluster.bootstrap_servers, "beside-internal", partitions=PARTITIONS)
    named = Members(cluster, "by name", "beside-internal")
    regex = Members(cluster, "by regex of internal topics", "^__consumer_offs.*")
    try:
        named.join()
        named.poll_until(lambda: named.shares() == [PARTITIONS])
        regex.join()
        regex.poll_until(lambda: regex.shares() == [50])
        assert {partition.topic for partition in regex.consumers[0].assignment()} == {"__consumer_offsets"}
    finally:
        for consumer in (*named.consumers, *regex.consumers):
            consumer.close()


@pytest.mark.kafka
@pytest.mark.needs("kafka")
def test_kafkas_tools_read_the_records_of_a_group_and_describe_it(server: Server) -> None:
    members = Members(server, "described", "orders")
    members.join()
    regex = Members(server, "by regex", "^ord.*")
    regex.join()
    members.poll_until(lambda: members.shares() == [PARTITIONS])
    regex.poll_until(lambda: regex.shares() == [PARTITIONS])
    try:
        arguments = ["--bootstrap-server", server.bootstrap_servers, "--describe", "--group", "described"]
        described = run_java("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", [*arguments, "--state"])
        assert "uniform" in described
        assert "Stable" in described
        shown = run_java(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", [*arguments, "--members", "--verbose"]
        )
        assert shown.count("orders:0,1,2,3,4,5,6,7,8,9,10,11") == 2, "as it is and as it shall be"
    finally:
        for consumer in (*members.consumers, *regex.consumers):
            consumer.close()
    files = [file for file in server.data_dir.glob("__consumer_offsets-*/*.log") if file.stat().st_size]
    dumped = run_java(
        "org.apache.kafka.tools.DumpLogSegments", ["--offsets-decoder", "--files", ",".join(map(str, files))]
    )
    for kind in (3, 5, 6, 7, 8, 16):
        assert f'"type":"{kind}"' in dumped, f"records of kind {kind} are decoded"
    assert '"regularExpression":"^ord.*"' in dumped.replace("(", "").replace(")", "")
