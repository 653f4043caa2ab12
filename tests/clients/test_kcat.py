"""kcat: what an operator types."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.clients.libraries import Record
from tests.clients.libraries.confluent import Confluent
from tests.clients.libraries.sending import CODECS, Codec
from tools.patience import PATIENCE_S
from tools.server import Server

pytestmark = pytest.mark.needs("kcat")

NOON_MS = 1_700_000_000_000


def kcat(cluster: Server, *arguments: str, stdin: str = "") -> str:
    # With -e it leaves after an empty fetch, which a broker answers when the wait is over.
    command = ["kcat", "-b", cluster.bootstrap_servers, "-X", "fetch.wait.max.ms=20", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"
    return done.stdout


def consumed(cluster: Server, topic: str, *arguments: str) -> Sequence[dict[str, Any]]:
    lines = kcat(cluster, "-C", "-t", topic, "-e", "-q", "-J", *arguments).splitlines()
    return [json.loads(line) for line in lines]


def test_metadata_lists_the_broker_and_its_topics(
    cluster: Server, new_topic: Callable[..., str], absent_topic: str
) -> None:
    topic = new_topic(partitions=3)
    listed = json.loads(kcat(cluster, "-L", "-J"))
    (broker,) = listed["brokers"]
    assert broker["name"] == cluster.bootstrap_servers
    found = {entry["topic"]: len(entry["partitions"]) for entry in listed["topics"]}
    assert found[topic] == 3
    assert absent_topic not in found


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_typed_comes_back(cluster: Server, topic: str, codec: Codec) -> None:
    typed = "".join(f"key-{number}:value {number}\n" for number in range(50))
    kcat(cluster, "-P", "-t", topic, "-K", ":", "-z", codec, "-H", "trace=1", "-H", "empty=", stdin=typed)
    found = consumed(cluster, topic, "-o", "beginning")
    assert [(record["offset"], record["key"], record["payload"]) for record in found] == [
        (number, f"key-{number}", f"value {number}") for number in range(50)
    ]
    assert {tuple(record["headers"]) for record in found} == {("trace", "1", "empty", "")}


def test_empty_keys_and_values_are_null_when_asked_for(cluster: Server, topic: str) -> None:
    kcat(cluster, "-P", "-t", topic, "-K", ":", "-Z", stdin=":no key\nno value:\n")
    found = consumed(cluster, topic, "-o", "beginning")
    assert [(record["key"], record["payload"]) for record in found] == [(None, "no key"), ("no value", None)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_level_of_acknowledgement_delivers(cluster: Server, topic: str, acks: str) -> None:
    kcat(cluster, "-P", "-t", topic, "-X", f"acks={acks}", stdin="a\nb\nc\n")
    assert [record["payload"] for record in consumed(cluster, topic, "-o", "beginning")] == ["a", "b", "c"]


def test_consuming_starts_at_an_offset_a_time_or_counted_from_the_end(cluster: Server, topic: str) -> None:
    records = [Record(b"%d" % number, timestamp_ms=NOON_MS + 1000 * number) for number in range(10)]
    Confluent().produce(cluster.bootstrap_servers, topic, records)

    def first(start: str) -> tuple[int, int]:
        found = consumed(cluster, topic, "-o", start)
        return found[0]["offset"], len(found)

    assert first("beginning") == (0, 10)
    assert first("4") == (4, 6)
    assert first("-3") == (7, 3)
    assert first(f"s@{NOON_MS + 1500}") == (2, 8)


def test_offsets_are_queried_by_time(cluster: Server, topic: str) -> None:
    records = [Record(b"x", timestamp_ms=NOON_MS + 1000 * number) for number in range(5)]
    Confluent().produce(cluster.bootstrap_servers, topic, records)
    assert kcat(cluster, "-Q", "-t", f"{topic}:0:{NOON_MS + 2500}").strip() == f"{topic} [0] offset 3"
    assert kcat(cluster, "-Q", "-t", f"{topic}:0:-1").strip() == f"{topic} [0] offset 5"


def test_an_idempotent_producer_delivers_in_order(cluster: Server, topic: str) -> None:
    typed = "".join(f"{number}\n" for number in range(2000))
    kcat(cluster, "-P", "-t", topic, "-X", "enable.idempotence=true", "-X", "batch.num.messages=50", stdin=typed)
    assert [int(record["payload"]) for record in consumed(cluster, topic, "-o", "beginning")] == list(range(2000))
