"""Three brokers and a ZooKeeper as processes (``semel cluster up``); the brokers are killed or paused in turn.

The next one to be struck is the broker that has the next role: leader of a partition, coordinator of a transaction,
coordinator of a group, controller. ``cluster up`` restarts a killed broker. A paused one continues after its session
has expired, and then learns of the new leaders.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from itertools import cycle
from pathlib import Path
from typing import Final

from semel.errors import ErrorCode
from semel.wire.apis import ApiKey
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tools.patience import PATIENCE_S, wait_until
from tools.single_requests import send_request

BROKERS: Final = 3
SESSION_TIMEOUT_MS: Final = 6_000
# Longer than the session timeout plus ZooKeeper's tick of two seconds.
PAUSED_S: Final = 10.0
_READY: Final = re.compile(r"semel cluster ready on (?P<servers>[\d.:,]+), ZooKeeper on")


class Strike(StrEnum):
    KILL = "kill -9"
    STOP = "SIGTERM"
    PAUSE = "SIGSTOP"


class Role(StrEnum):
    PARTITION_LEADER = "leader of a partition"
    TRANSACTION_COORDINATOR = "coordinator of the transaction"
    GROUP_COORDINATOR = "coordinator of the group"
    CONTROLLER = "controller"


class StruckCluster:
    """A ``Killable`` cluster: ``kill`` kills or pauses the broker that has the next role."""

    def __init__(self, folder: Path, servers: str, strike: Strike) -> None:
        self.bootstrap_servers = servers
        self._folder = folder
        self._strike = strike
        self._roles = cycle(Role)
        self._struck = self._pid_before = 0
        self.topic = self.transactional_id = self.group = ""
        self.struck_roles: list[Role] = []

    def kill(self) -> None:
        role = next(self._roles)
        self.struck_roles.append(role)
        self.strike(self._broker_with(role))

    def strike(self, node_id: int) -> None:
        self._struck = node_id
        wait_until(lambda: self._pid() is not None, f"broker {node_id} has no process")
        self._pid_before = self._pid() or 0
        match self._strike:
            case Strike.KILL:
                os.kill(self._pid_before, signal.SIGKILL)
            case Strike.STOP:
                os.kill(self._pid_before, signal.SIGTERM)
            case Strike.PAUSE:
                os.kill(self._pid_before, signal.SIGSTOP)
                time.sleep(PAUSED_S)

    def launch_process(self) -> None:
        """Wait until the broker has restarted: ``cluster up`` starts it, and the next kill is for another role."""
        self.start()

    def start(self) -> None:
        if self._strike is Strike.PAUSE:
            os.kill(self._pid_before, signal.SIGCONT)
        else:
            wait_until(
                lambda: self._pid() not in (None, self._pid_before), f"broker {self._struck} was not started again"
            )
        wait_until(self.is_whole, "not all replicas were in sync again")

    def _pid(self) -> int | None:
        """Return the process id of the struck broker; ``None`` while its file is being written."""
        text = (self._folder / f"broker-{self._struck}.pid").read_text()
        return int(text) if text else None

    def _broker_with(self, role: Role) -> int:
        found: list[int] = []

        def is_found() -> bool:
            with contextlib.suppress(OSError):
                found[:] = [node_id for node_id in [self._look_for(role)] if node_id is not None]
            return bool(found)

        wait_until(is_found, f"no broker is the {role}")
        return found[0]

    def _look_for(self, role: Role) -> int | None:
        if role in (Role.TRANSACTION_COORDINATOR, Role.GROUP_COORDINATOR):
            is_group = role is Role.GROUP_COORDINATOR
            asked = FindCoordinatorRequest(key=self.group if is_group else self.transactional_id, key_type=not is_group)
            coordinator = send_request(self.bootstrap_servers, ApiKey.FIND_COORDINATOR, 3, asked)
            return None if coordinator.error_code else int(coordinator.node_id)
        known = self._metadata([self.topic])
        if role is Role.CONTROLLER:
            return known.controller_id
        return known.topics[0].partitions[0].leader_id

    def is_known_to_all(self) -> bool:
        asked = MetadataRequest(topics=[])
        return all(
            len(send_request(server, ApiKey.METADATA, 8, asked).brokers) == BROKERS
            for server in self.bootstrap_servers.split(",")
        )

    def leaders_of(self, topic: str) -> set[int | None]:
        return {partition.leader_id for partition in self._metadata([topic]).topics[0].partitions}

    def is_whole(self) -> bool:
        try:
            known = self._metadata(None)
        except OSError:
            return False
        return len(known.brokers) == BROKERS and all(
            partition.error_code == ErrorCode.NONE and len(partition.isr_nodes) == len(partition.replica_nodes)
            for topic in known.topics
            for partition in topic.partitions
        )

    def _metadata(self, topics: list[str] | None) -> MetadataResponse:
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        answer = send_request(self.bootstrap_servers, ApiKey.METADATA, 8, MetadataRequest(topics=wanted))
        assert isinstance(answer, MetadataResponse)
        return answer


@contextlib.contextmanager
def struck_cluster(folder: Path, strike: Strike) -> Iterator[StruckCluster]:
    """Run a cluster in this folder until the ``with`` block ends."""
    settings = {
        "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
        "transaction.state.log.num.partitions": 6,
        "offsets.topic.num.partitions": 6,
        "group.initial.rebalance.delay.ms": 0,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
    }
    command = [sys.executable, "-m", "semel", "cluster", "up", "--data-dir", str(folder), "--port", "0"]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = _READY.match(process.stdout.readline())
            assert ready is not None, "the cluster did not start"
            cluster = StruckCluster(folder, ready["servers"], strike)
            wait_until(cluster.is_known_to_all, "the brokers do not know each other")
            yield cluster
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
