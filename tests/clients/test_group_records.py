"""Apache Kafka's own formatters read ``__consumer_offsets``: what Semel writes and what Kafka writes is the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tools.brokers import apache_kafka, run_java, semel
from tools.load import create_topic
from tools.server import Server, running

pytestmark = [pytest.mark.kafka, pytest.mark.needs("kafka")]

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}


@pytest.mark.parametrize("broker", [pytest.param(semel, id="semel"), pytest.param(apache_kafka, id="kafka")])
def test_kafkas_formatters_read_groups_and_offsets(broker: Callable[..., Server], tmp_path: Path) -> None:
    with running(broker(tmp_path, settings=SETTINGS)) as server:
        create_topic(server.bootstrap_servers, "orders", partitions=2, config={})
        read_and_commit(server.bootstrap_servers, "readers", "classic")
        read_and_commit(server.bootstrap_servers, "modern readers", "consumer")
        groups = formatted(server.bootstrap_servers, "GroupMetadataMessageFormatter", of_kind=2)
        offsets = formatted(server.bootstrap_servers, "OffsetsMessageFormatter", of_kind=1)
    offset, modern = offsets
    assert modern["key"]["data"] == {"group": "modern readers", "topic": "orders", "partition": 0}
    assert modern["value"]["data"]["offset"] == 7
    assert offset["key"]["data"] == {"group": "readers", "topic": "orders", "partition": 0}
    assert offset["value"]["version"] == 4
    assert (offset["value"]["data"]["offset"], offset["value"]["data"]["leaderEpoch"]) == (7, -1)
    # Kafka writes a record for a group that nobody has joined yet; Semel does not.
    stable, empty = [one for one in groups if one["value"]["data"]["generation"] > 0]
    assert {one["key"]["data"]["group"] for one in groups} == {"readers"}, "records of KIP-848 are read past"
    assert stable["key"]["data"] == {"group": "readers"}
    assert stable["value"]["version"] == 3
    data = stable["value"]["data"]
    (member,) = data.pop("members")
    assert data.pop("leader") == member.pop("memberId")
    assert data.pop("currentStateTimestamp") > 0
    assert data == {"protocolType": "consumer", "generation": 1, "protocol": "range"}
    assert member.pop("subscription")
    assert member.pop("assignment")
    assert member == {
        "groupInstanceId": None,
        "clientId": "reader",
        "clientHost": "/127.0.0.1",
        "rebalanceTimeout": 300_000,
        "sessionTimeout": 6000,
    }
    data = empty["value"]["data"]
    assert data.pop("currentStateTimestamp") > 0
    assert data == {"protocolType": "consumer", "generation": 2, "protocol": None, "leader": None, "members": []}


def read_and_commit(bootstrap_servers: str, group: str, protocol: str) -> None:
    """One member comes, commits and goes."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "reader",
            "enable.auto.commit": False,
            **({"session.timeout.ms": 6000} if protocol == "classic" else {}),
        }
    )
    consumer.subscribe(["orders"])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
    consumer.close()


def formatted(bootstrap_servers: str, formatter: str, *, of_kind: int) -> list[Any]:
    """What Kafka's console consumer prints of the log, read to its end: JSON values, one behind the other."""
    arguments = ["--bootstrap-server", bootstrap_servers, "--topic", "__consumer_offsets", "--partition", "0"]
    arguments += ["--offset", "earliest", "--timeout-ms", "10000"]
    arguments += ["--formatter", f"org.apache.kafka.tools.consumer.{formatter}"]
    text = run_java("org.apache.kafka.tools.consumer.ConsoleConsumer", arguments)
    found, decoder = [], json.JSONDecoder()
    while text.startswith("{"):
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:].lstrip()
    assert all(one["key"]["type"] == of_kind for one in found)
    return found
