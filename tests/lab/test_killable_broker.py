"""A broker as a process of its own in a cluster of the lab: a member like the others, until it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from semel.errors import SemelError
from semel.lab.stage import Stage
from semel.testing.cluster import Cluster
from tools.patience import PATIENCE_S, wait_until


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


def test_it_leads_and_copies_until_it_is_killed(stage: Stage) -> None:
    cluster = stage.cluster(brokers=2)
    broker = stage.killable_broker(cluster)
    stage.topic("orders", assignments={0: [broker.node_id, 1, 2]})
    producer = stage.producer("producer")
    lost = broker.faults.drop_response("Produce")
    assert producer.send("orders", b"a").result(PATIENCE_S).offset == 0
    assert lost.hits == 1
    assert {event.server for event in stage.events("Produce")} == {"broker 3"}

    os.kill(broker.pid, 0)
    broker.kill()
    assert broker.was_killed
    with pytest.raises(ProcessLookupError):
        os.kill(broker.pid, 0)
    wait_until(lambda: cluster.leader("orders", 0) in (1, 2))
    assert producer.send("orders", b"b").result(PATIENCE_S).offset == 1
    assert stage.read("orders") == ["a", "b"]


def test_it_ends_when_the_process_ends_that_has_started_it() -> None:
    command = [sys.executable, "-m", "semel.lab.scene_process", "play", "7", "protected"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as scene:
        assert scene.stdout is not None
        clients = {client["name"]: client["lines"] for client in json.loads(scene.stdout.readline())["clients"]}
        (pid,) = (int(line.split()[1]) for line in clients["cluster"] if line.startswith("process "))
        assert is_running(pid)
        os.kill(scene.pid, signal.SIGKILL)
        wait_until(lambda: not is_running(pid), "the broker lives on")


def test_a_start_that_fails_says_why_and_leaves_nothing_behind() -> None:
    with Cluster(brokers=1) as cluster:
        with pytest.raises(SemelError, match=r"broker 2 could not be started: .*num\.partitions"):
            Stage().killable_broker(cluster, num_partitions="many")
        assert cluster.brokers[1].node.image.brokers.keys() == {1}


def is_running(pid: int) -> bool:
    """Also not, when it has ended and its new parent has not asked for its exit code yet."""
    with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
    return False
