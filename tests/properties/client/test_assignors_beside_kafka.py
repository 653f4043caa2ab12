"""Our assignors beside Apache Kafka's own: Range and RoundRobin decide the same, the sticky ones no worse, and each
reads what the other one's members say of themselves."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.client.assignors import ASSIGNORS, Assignment, CooperativeStickyAssignor, StickyAssignor, Subscription
from semel.client.assignors.ownership import Claim, owners_of
from semel.types import TopicPartition
from tests.properties.client.groups import Group, check_complete_and_disjoint, claims, groups, kept, loads, owners
from tools.kafka_jars import KAFKA_4, jars_of, java

pytestmark = [pytest.mark.kafka, pytest.mark.needs("kafka")]
many = settings(max_examples=400, derandomize=True, database=None)


class KafkaAssignors:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def assign(self, name: str, group: Group) -> dict[str, Assignment]:
        counts = ",".join(f"{topic}={count}" for topic, count in group.partition_counts.items())
        members = " ".join(
            f"{member_id} {subscription.group_instance_id or '-'} {subscription.to_bytes().hex()}"
            for member_id, subscription in group.subscriptions.items()
        )
        words = self._ask(f"assign {name} {counts} {members}").split(" ")
        return {
            member_id: Assignment.from_bytes(bytes.fromhex(data))
            for member_id, data in zip(words[::2], words[1::2], strict=True)
        }

    def user_data(self, name: str, generation_id: int, assignment: Assignment) -> bytes | None:
        answer = self._ask(f"remember {name} {generation_id} {assignment.to_bytes().hex()} a")
        return None if answer == "-" else bytes.fromhex(answer)

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        for answer in self._process.stdout:
            if answer.startswith("> "):
                return answer[2:].rstrip("\n")
        raise AssertionError("Kafka's assignors have ended; it takes a JDK, which runs Java from its source")


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAssignors]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    source = str(Path(__file__).with_name("KafkaAssignors.java"))
    command = [java(), quiet, "-cp", f"{jars_of(KAFKA_4)}/*", source]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield KafkaAssignors(process)
        finally:
            process.kill()


def ours(name: str, group: Group) -> dict[str, Assignment]:
    return dict(ASSIGNORS[name]().assign(group.partition_counts, group.subscriptions))


@pytest.mark.parametrize("name", ["range", "roundrobin"])
@many
@given(group=groups())
def test_range_and_round_robin_decide_what_kafka_decides(kafka: KafkaAssignors, name: str, group: Group) -> None:
    assert owners(ours(name, group)) == owners(kafka.assign(name, group))


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@many
@given(group=groups(same_topics=True))
def test_a_new_group_is_loaded_as_kafka_loads_it(kafka: KafkaAssignors, name: str, group: Group) -> None:
    assert loads(ours(name, group)) == loads(kafka.assign(name, group))


@pytest.mark.parametrize("assignor_class", [StickyAssignor, CooperativeStickyAssignor])
@many
@given(data=st.data(), group=groups(same_topics=True))
def test_as_much_stays_as_with_kafka_whatever_members_claim(
    kafka: KafkaAssignors, assignor_class: type[Any], data: st.DataObject, group: Group
) -> None:
    # Claims of what does not exist make Kafka's assignors fail.
    group = data.draw(claims(group, assignor_class, of_existing=True))
    had = owners_of(
        {
            member_id: Claim(subscription.owned_partitions, subscription.generation_id)
            for member_id, subscription in group.subscriptions.items()
            # Without a generation, a sticky one has no assignment to remember.
            if subscription.generation_id is not None or assignor_class is CooperativeStickyAssignor
        }
    )
    mine, kafkas = ours(assignor_class.name, group), kafka.assign(assignor_class.name, group)
    if assignor_class is StickyAssignor:  # The other one holds back what moves.
        check_complete_and_disjoint(group, kafkas)
        assert loads(mine) == loads(kafkas)
    assert kept(had, owners(mine)) >= kept(had, owners(kafkas))


@pytest.mark.parametrize("assignor_class", [StickyAssignor, CooperativeStickyAssignor])
def test_members_say_the_same_bytes_of_themselves(kafka: KafkaAssignors, assignor_class: type[Any]) -> None:
    assignor = assignor_class()
    assignment = Assignment((TopicPartition("a", 0), TopicPartition("a", 7), TopicPartition("b", 1)))
    assignor.on_assignment(assignment, 9)
    assert assignor.subscription_user_data(["a"]) == kafka.user_data(assignor.name, 9, assignment)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_the_leader_may_change_between_ours_and_kafkas_and_nothing_moves(kafka: KafkaAssignors, name: str) -> None:
    choose = random.Random(5)
    for _ in range(50):
        counts = {topic: choose.randint(1, 30) for topic in "abc"}
        group = Group(counts, {f"m{index}": Subscription(("a", "b", "c")) for index in range(choose.randint(1, 9))})
        assigned = ours(name, group)
        for generation_id, leader in enumerate((kafka.assign, ours, kafka.assign)):
            group = group.after(assigned, generation_id, type(ASSIGNORS[name]()))
            assert _partitions(leader(name, group)) == _partitions(assigned)


def _partitions(assigned: Mapping[str, Assignment]) -> dict[str, list[TopicPartition]]:
    return {member_id: sorted(assignment.partitions) for member_id, assignment in assigned.items()}
