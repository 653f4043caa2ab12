"""A topic copied in transactions over three brokers while they are killed, one after the other."""

from __future__ import annotations

import contextlib
from itertools import count, cycle, islice
from pathlib import Path

import pytest

from semel import blocking
from semel.errors import AbortableError
from semel.testing import Cluster
from semel.wire.apis import ApiKey
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from tools.copier_process import JAVA_COPIER, OWN, PYTHON_COPIERS, Copier
from tools.copy_run import PARTITIONS, Placement, copy_under_kills, fill, transactional_id_of, values_of
from tools.load import create_topic
from tools.patience import PATIENCE_MS, PATIENCE_S, wait_until
from tools.run_result import to_json
from tools.single_requests import send_request

JAVA = pytest.param(JAVA_COPIER, id="java", marks=[pytest.mark.kafka, pytest.mark.needs("kafka", "javac")])
SETTINGS = {"transaction_state_log_num_partitions": 6, "offsets_topic_num_partitions": 6}


class EachInTurn:
    """The brokers of a cluster, of which the next one is killed each time."""

    def __init__(self, cluster: Cluster) -> None:
        self.bootstrap_servers = cluster.bootstrap_servers
        self._brokers = cycle(cluster.brokers.values())
        self._killed = next(self._brokers)

    def kill(self) -> None:
        self._killed.stop(kill=True)

    def launch_process(self) -> None:
        self._killed.start()  # The same one is killed again.

    def start(self) -> None:
        self._killed.start()
        self._killed = next(self._brokers)


@pytest.mark.parametrize("copier", [*PYTHON_COPIERS, JAVA], ids=str)
def test_kills_of_each_broker_leave_a_copy_that_equals_its_source(tmp_path: Path, copier: Copier) -> None:
    """Source and copy of each partition are on different brokers, and so are the two coordinators."""
    with Cluster(brokers=3, **SETTINGS) as cluster:
        group = _group_coordinated_elsewhere(cluster, transactional_id_of(copier))
        verdict = copy_under_kills(
            EachInTurn(cluster),
            copier,
            tmp_path,
            seed=1,
            records=3_000,
            kills=3,
            # Ours must not hang, and is given the time of a busy machine. Others do, and are started again:
            # kafka-python drops a request if its coordinator, as another broker names it, refuses connections.
            hang_s_max=PATIENCE_S if copier.name == OWN else 10.0,
            transaction_timeout_ms=PATIENCE_MS,
            sweep_ms_max=PATIENCE_MS,
            placement=Placement(_leaders(1), _leaders(2), group),
        )
    assert verdict.passed, to_json(verdict)
    assert verdict.kills == 3


def test_the_blocking_client_copies_over_brokers_that_die_within_transactions() -> None:
    values = values_of(400)
    with Cluster(brokers=3, group_initial_rebalance_delay_ms=0, **SETTINGS) as cluster:
        servers = cluster.bootstrap_servers
        create_topic(servers, "source", partitions=PARTITIONS, leaders=_leaders(1))
        create_topic(servers, "copy", partitions=PARTITIONS, leaders=_leaders(2))
        fill(servers, "source", values, range(400))
        group = _group_coordinated_elsewhere(cluster, "copying")
        dying = iter(cluster.brokers.values())
        with (
            blocking.Producer(bootstrap_servers=servers, transactional_id="copying") as producer,
            blocking.Consumer(
                bootstrap_servers=servers,
                group_id=group,
                enable_auto_commit=False,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
            ) as consumer,
        ):
            consumer.subscribe(["source"])
            copied = 0
            while copied < 400:
                records = consumer.poll(200, max_records=25)
                if not records:
                    continue
                with contextlib.suppress(AbortableError), producer.transaction(consumer=consumer):
                    for record in records:
                        producer.send("copy", record.value, partition=record.partition)
                    if (broker := next(dying, None)) is not None:
                        broker.restart(kill=True)
                copied = sum(len(cluster.committed("copy", partition)) for partition in range(PARTITIONS))
        found = [[record.value for record in cluster.committed("copy", partition)] for partition in range(PARTITIONS)]
    assert found == values


def _leaders(first: int) -> list[int]:
    return list(islice(cycle((1, 2, 3)), first - 1, first - 1 + PARTITIONS))


def _group_coordinated_elsewhere(cluster: Cluster, transactional_id: str) -> str:
    def are_there() -> bool:
        for key_type in (0, 1):
            asked = FindCoordinatorRequest(key=transactional_id, key_type=key_type)
            if send_request(cluster.bootstrap_servers, ApiKey.FIND_COORDINATOR, 3, asked).error_code:
                return False
        return cluster.transaction_coordinator(transactional_id) is not None

    wait_until(are_there, "there are no coordinators")
    names = (f"copiers-{number}" for number in count())
    coordinator = cluster.transaction_coordinator(transactional_id)
    return next(name for name in names if cluster.group_coordinator(name) not in (None, coordinator))
