"""Groups by the admin clients of confluent-kafka, kafka-python and aiokafka, and by Kafka's own command line.

Every test that takes ``cluster`` runs on Semel in ``make test`` and on Apache Kafka in ``make test-kafka``.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import MemberToRemove, OffsetSpec
from kafka.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    NoError,
    NonEmptyGroupError,
    UnknownMemberIdError,
)
from kafka.structs import OffsetAndMetadata

from tests.clients.libraries import Record
from tests.clients.libraries.confluent import Confluent
from tools.brokers import run_java
from tools.patience import PATIENCE_S
from tools.server import Server

PARTITIONS = 3
COMMITTED = 2
RECORDS = 4

_names = itertools.count()


class Group:
    """A group with one member, which reads a topic and has committed an offset for its first partition."""

    def __init__(self, cluster: Server, topic: str, protocol: str) -> None:
        self.group_id = f"administered-{next(_names)}"
        self.topic = topic
        settings = {} if protocol == "consumer" else {"partition.assignment.strategy": "range"}
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "client.id": "reader",
                "group.id": self.group_id,
                "group.protocol": protocol,
                "enable.auto.commit": False,
                **settings,
            }
        )
        self._consumer.subscribe([topic])
        while len(self._consumer.assignment()) < PARTITIONS:
            self._consumer.poll(0.05)
        self._consumer.commit(offsets=[TopicPartition(topic, 0, COMMITTED)], asynchronous=False)

    def empty(self) -> None:
        self._consumer.close()


@pytest.fixture
def groups(cluster: Server, new_topic: Callable[..., str]) -> Iterator[Callable[..., Group]]:
    made: list[Group] = []

    def make(protocol: str = "classic") -> Group:
        topic = new_topic(partitions=PARTITIONS)
        Confluent().produce(cluster.bootstrap_servers, topic, [Record(b"%d" % number) for number in range(RECORDS)])
        made.append(Group(cluster, topic, protocol))
        return made[-1]

    yield make
    for group in made:
        group.empty()


@pytest.fixture
def python_admin(cluster: Server) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    yield admin
    admin.close()


def refusal(call: Callable[[], object]) -> int:
    with pytest.raises(KafkaException) as raised:
        call()
    code: int = raised.value.args[0].code()
    return code


# confluent-kafka


def listed(admin: AdminClient, **wanted: object) -> dict[str, tuple[ConsumerGroupState, ConsumerGroupType]]:
    result = admin.list_consumer_groups(**wanted).result(PATIENCE_S)
    assert result.errors == []
    return {one.group_id: (one.state, one.type) for one in result.valid}


def test_groups_are_listed_by_state_and_type(admin: AdminClient, groups: Callable[..., Group]) -> None:
    classic, modern, empty = groups(), groups("consumer"), groups()
    empty.empty()
    everything = listed(admin)
    assert everything[classic.group_id] == (ConsumerGroupState.STABLE, ConsumerGroupType.CLASSIC)
    assert everything[modern.group_id] == (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)
    assert everything[empty.group_id] == (ConsumerGroupState.EMPTY, ConsumerGroupType.CLASSIC)
    ours = {classic.group_id, modern.group_id, empty.group_id}
    assert ours.intersection(listed(admin, states={ConsumerGroupState.EMPTY})) == {empty.group_id}
    assert ours.intersection(listed(admin, types={ConsumerGroupType.CONSUMER})) == {modern.group_id}
    both = listed(admin, states={ConsumerGroupState.STABLE}, types={ConsumerGroupType.CLASSIC})
    assert ours.intersection(both) == {classic.group_id}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_and_its_member_are_described(admin: AdminClient, groups: Callable[..., Group], protocol: str) -> None:
    group = groups(protocol)
    described = admin.describe_consumer_groups([group.group_id])[group.group_id].result(PATIENCE_S)
    assert described.state is ConsumerGroupState.STABLE
    assert described.partition_assignor == ("range" if protocol == "classic" else "uniform")
    assert described.coordinator is not None
    (member,) = described.members
    assert (member.client_id, member.host, member.group_instance_id) == ("reader", "/127.0.0.1", None)
    assert [(one.topic, one.partition) for one in member.assignment.topic_partitions] == [
        (group.topic, partition) for partition in range(PARTITIONS)
    ]
    group.empty()
    described = admin.describe_consumer_groups([group.group_id])[group.group_id].result(PATIENCE_S)
    assert (described.state, described.members) == (ConsumerGroupState.EMPTY, [])


def test_offsets_are_altered_and_a_group_deleted_once_it_is_empty(
    admin: AdminClient, groups: Callable[..., Group]
) -> None:
    group = groups()
    wanted = ConsumerGroupTopicPartitions(group.group_id, [TopicPartition(group.topic, 0, 1)])

    def alter() -> object:
        answer = admin.alter_consumer_group_offsets([wanted])[group.group_id].result(PATIENCE_S)
        (partition,) = answer.topic_partitions
        if partition.error is not None:
            raise KafkaException(partition.error)
        return answer

    def delete() -> object:
        return admin.delete_consumer_groups([group.group_id])[group.group_id].result(PATIENCE_S)

    assert refusal(alter) == KafkaError.UNKNOWN_MEMBER_ID
    assert refusal(delete) == KafkaError.NON_EMPTY_GROUP
    group.empty()
    alter()
    everything = ConsumerGroupTopicPartitions(group.group_id)
    offsets = admin.list_consumer_group_offsets([everything])[group.group_id].result(PATIENCE_S)
    assert [(one.partition, one.offset) for one in offsets.topic_partitions] == [(0, 1)]
    delete()
    assert refusal(delete) == KafkaError.GROUP_ID_NOT_FOUND
    assert group.group_id not in listed(admin)


# kafka-python


def test_kafka_python_lists_and_describes(python_admin: KafkaAdminClient, groups: Callable[..., Group]) -> None:
    group = groups()
    found = {
        one["group_id"]: one for one in python_admin.list_groups(states_filter=["Stable"], types_filter=["classic"])
    }
    assert found[group.group_id]["group_state"] == "Stable"
    assert group.group_id not in {one["group_id"] for one in python_admin.list_groups(states_filter=["Empty"])}
    described = python_admin.describe_groups([group.group_id])[group.group_id]
    assert (described["group_state"], described["protocol_type"], described["protocol_data"]) == (
        "Stable",
        "consumer",
        "range",
    )
    (member,) = described["members"]
    assert member["client_id"] == "reader"
    assert member["member_metadata"]["topics"] == [group.topic]
    (assigned,) = member["member_assignment"]["assigned_partitions"]
    assert (assigned["topic"], assigned["partitions"]) == (group.topic, list(range(PARTITIONS)))


def test_kafka_python_alters_resets_and_deletes_offsets(
    python_admin: KafkaAdminClient, groups: Callable[..., Group]
) -> None:
    group = groups()
    first = PythonTopicPartition(group.topic, 0)
    second = PythonTopicPartition(group.topic, 1)

    def offsets() -> dict[PythonTopicPartition, int]:
        found = python_admin.list_group_offsets({group.group_id: None})[group.group_id]
        return {partition: one.offset for partition, one in found.items()}

    assert offsets() == {first: COMMITTED}
    wanted = {first: OffsetAndMetadata(1, "", None), second: OffsetAndMetadata(0, "", None)}
    assert set(python_admin.alter_group_offsets(group.group_id, wanted).values()) == {UnknownMemberIdError}
    assert python_admin.delete_group_offsets(group.group_id, [first]) == {first: GroupSubscribedToTopicError}
    assert python_admin.delete_groups([group.group_id]) == {group.group_id: NonEmptyGroupError.__name__}
    group.empty()
    assert set(python_admin.alter_group_offsets(group.group_id, wanted).values()) == {NoError}
    assert offsets() == {first: 1, second: 0}
    reset = python_admin.reset_group_offsets(group.group_id, {first: OffsetSpec.LATEST})
    assert (reset[first]["error"], reset[first]["offset"]) == (NoError, RECORDS)
    assert offsets() == {first: RECORDS, second: 0}
    assert python_admin.delete_group_offsets(group.group_id, [second]) == {second: NoError}
    assert offsets() == {first: RECORDS}
    assert python_admin.delete_groups([group.group_id]) == {group.group_id: "OK"}
    assert python_admin.delete_groups([group.group_id]) == {group.group_id: GroupIdNotFoundError.__name__}


def test_kafka_python_puts_a_member_out(python_admin: KafkaAdminClient, groups: Callable[..., Group]) -> None:
    group = groups()
    (member,) = python_admin.describe_groups([group.group_id])[group.group_id]["members"]
    python_admin.remove_group_members(
        group.group_id, [MemberToRemove(member_id=member["member_id"], group_instance_id=None)]
    )
    assert python_admin.describe_groups([group.group_id])[group.group_id]["members"] == []


# aiokafka


def test_aiokafka_lists_and_describes(cluster: Server, groups: Callable[..., Group]) -> None:
    group = groups()

    async def ask() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        await admin.start()
        try:
            assert (group.group_id, "consumer") in await admin.list_consumer_groups()
            (answer,) = await admin.describe_consumer_groups([group.group_id])
            ((error, group_id, state, protocol_type, protocol, members),) = [one[:6] for one in answer.groups]
            assert (error, group_id, state, protocol_type, protocol) == (
                0,
                group.group_id,
                "Stable",
                "consumer",
                "range",
            )
            assert len(members) == 1
            offsets = await admin.list_consumer_group_offsets(group.group_id)
            assert [(one.partition, found.offset) for one, found in offsets.items()] == [(0, COMMITTED)]
        finally:
            await admin.close()

    asyncio.run(ask())


# Kafka's own command line


def command(cluster: Server, *arguments: str) -> list[list[str]]:
    """What ConsumerGroupCommand prints, as rows of cells."""
    output = run_java(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        ["--bootstrap-server", cluster.bootstrap_servers, *arguments],
    )
    return [line.split() for line in output.splitlines() if line.strip()]


@pytest.mark.kafka
@pytest.mark.needs("kafka")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafkas_command_line_lists_describes_resets_and_deletes(
    cluster: Server, groups: Callable[..., Group], protocol: str
) -> None:
    group = groups(protocol)
    by_group = ("--group", group.group_id)
    assert [group.group_id, "Stable"] in [[row[0], row[-1]] for row in command(cluster, "--list", "--state")]
    rows = command(cluster, "--describe", *by_group)
    (committed,) = [row for row in rows if row[:3] == [group.group_id, group.topic, "0"]]
    assert committed[3:6] == [str(COMMITTED), str(RECORDS), str(RECORDS - COMMITTED)]
    members = command(cluster, "--describe", *by_group, "--members", "--verbose")
    assert any("reader" in row for row in members)
    (state,) = [row for row in command(cluster, "--describe", *by_group, "--state") if row[0] == group.group_id]
    assert "Stable" in state
    assert state[-1] == "1"
    reset = ("--reset-offsets", *by_group, "--topic", group.topic, "--to-earliest")
    assert "inactive" in output_of(cluster, *reset, "--execute")
    group.empty()
    assert [row[-1] for row in command(cluster, *reset, "--execute") if group.topic in row] == ["0"] * PARTITIONS
    described = [row for row in command(cluster, "--describe", *by_group) if group.topic in row]
    assert sorted(row[3] for row in described) == ["0"] * PARTITIONS
    deleted = output_of(cluster, "--delete-offsets", *by_group, "--topic", f"{group.topic}:1")
    assert "Successful" in deleted
    assert "successful" in output_of(cluster, "--delete", *by_group)
    assert [group.group_id] not in command(cluster, "--list")


def output_of(cluster: Server, *arguments: str) -> str:
    return " ".join(cell for row in command(cluster, *arguments) for cell in row)
