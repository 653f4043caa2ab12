"""Histories from the log: the generations of a group, the window of a producer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from semel.blocking import Admin, Consumer, Producer
from semel.cli.exits import Exit
from semel.errors import ErrorCode, KafkaError
from semel.inspection.group_trace import group_trace
from semel.testing import Broker
from tests.cli.conftest import Run
from tests.clients.waiting import eventually
from tools.patience import PATIENCE_S


def _joined(broker: Broker, group: str, topic: str, protocol: str, count: int) -> list[Consumer]:
    """Members that joined one after the other, and share both partitions."""
    members: list[Consumer] = []
    for number in range(count):
        paces = {"heartbeat_interval_ms": 50} if protocol == "classic" else {}
        member = Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            **paces,
            group_id=group,
            group_protocol=protocol,
            client_id=f"member-{number}",
            auto_offset_reset="earliest",
        )
        members.append(member)
        member.subscribe([topic])

        def shares() -> list[int]:
            for each in members:
                each.poll(10)
            return sorted(len(each.assignment) for each in members)

        eventually([2] if number == 0 else [1, 1], shares)
    return members


def _traced(run: Run, group: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("group", "trace", group, "--json"))
    return found


def test_the_generations_of_a_classic_group_are_told_with_leader_and_assignments(
    run: Run, broker: Broker, topic: str
) -> None:
    first, second = _joined(broker, topic, topic, "classic", 2)
    first.commit()
    second.close()
    first.close()
    found = _traced(run, topic)
    assert found["complete_since"] is None
    rebalanced = [event for event in found["events"] if event["event"] == "rebalanced"]
    alone, both = rebalanced[0], next(event for event in rebalanced if len(event["members"]) == 2)
    assert (alone["generation"], alone["assignor"]) == (1, "range")
    assert alone["members"][0]["member_id"] == alone["leader"]
    assert alone["members"][0]["partitions"] == [f"{topic}:0", f"{topic}:1"]
    assert both["generation"] > alone["generation"]
    assert sorted(member["partitions"] for member in both["members"]) == [[f"{topic}:0"], [f"{topic}:1"]]
    assert {member["client_id"] for member in both["members"]} == {"member-0", "member-1"}
    assert found["events"][-1]["event"] == "empty"
    assert sum(event["commits"] for event in found["events"]) + found["commits"] > 0
    assert "rebalanced" in run("group", "trace", topic)


def test_a_group_of_the_newer_protocol_is_told_by_its_epochs(run: Run, broker: Broker, topic: str) -> None:
    (member,) = _joined(broker, topic, topic, "consumer", 1)
    member.close()
    events = _traced(run, topic)["events"]
    assert next(event["generation"] for event in events if event["event"] == "group epoch") == 1
    assigned = [event["members"][0]["partitions"] for event in events if event["event"] == "assigned"]
    assert [f"{topic}:0", f"{topic}:1"] in assigned
    assert events[-1]["event"] in ("group epoch", "target epoch", "member left")
    assert "member left" in {event["event"] for event in events}


def test_a_group_that_the_log_does_not_know_is_not_found(run: Run, topic: str) -> None:
    assert "has no record of group 'unheard'" in run("group", "trace", "unheard", exit_code=Exit.NOT_FOUND)


def test_no_group_is_found_where_there_has_never_been_one() -> None:
    with (
        Broker() as empty,
        Admin(bootstrap_servers=empty.bootstrap_servers) as admin,
        pytest.raises(KafkaError, match="this cluster has no record of group 'unheard', nor of any other") as told,
    ):
        group_trace(admin, "unheard")
    assert told.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_subscriptions_and_assignments_are_decoded(run: Run, broker: Broker, topic: str) -> None:
    for member in _joined(broker, topic, topic, "classic", 1):
        member.close()
    lines = run("consume", "__consumer_offsets", "--from", "beginning", "--format", "json").splitlines()
    mine = [record for record in map(json.loads, lines) if record["key"]["group"] == topic]
    (member,) = next(record["value"]["members"] for record in mine if record["value"].get("members"))
    assert member["subscription"]["topics"] == [topic]
    assert member["assignment"] == [f"{topic}:0", f"{topic}:1"]


@pytest.mark.parametrize("count", [1, 7])
def test_the_window_of_a_producer_is_its_last_five_batches(run: Run, broker: Broker, topic: str, count: int) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=0).result(PATIENCE_S)
    found = json.loads(run("producer", "list", f"{topic}:0", "--window", "--json"))
    assert [batch["first_sequence"] for batch in found] == list(range(count))[-5:]
    assert [batch["first_offset"] for batch in found] == list(range(count))[-5:]
    assert "--within 0" in run("producer", "list", f"{topic}:0", "--window", "--within", "0", exit_code=Exit.USAGE)
