"""``semel.testing.Cluster``: several brokers in a test, stopped, killed, expelled and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel import Producer, blocking
from semel.testing import Cluster
from tools.patience import PATIENCE_S, wait_until

PARTITIONS = 6
NUMBERS = [b"%d" % number for number in range(2 * PARTITIONS)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, num_partitions=PARTITIONS) as running:
        yield running


def send(cluster: Cluster, values: list[bytes], *, topic: str = "orders", transactional_id: str | None = None) -> None:
    """In one transaction, if a transactional id is given. The partitions are taken in turn."""
    with blocking.Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=transactional_id) as producer:
        if transactional_id is not None:
            producer.begin()
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % PARTITIONS)
        producer.flush()
        if transactional_id is not None:
            producer.commit()


def values_of(cluster: Cluster, topic: str = "orders") -> list[bytes]:
    return sorted((record.value or b"" for record in cluster.committed(topic)), key=int)


def test_partitions_are_spread_and_a_transaction_spans_them(cluster: Cluster) -> None:
    send(cluster, NUMBERS, transactional_id="spanning")
    assert sorted(cluster.leader("orders", partition) or 0 for partition in range(PARTITIONS)) == [1, 1, 2, 2, 3, 3]
    assert values_of(cluster) == NUMBERS
    assert not cluster.has_open_transaction("orders")


def test_a_killed_broker_leaves_its_partitions_to_others_and_comes_back_on_its_port(cluster: Cluster) -> None:
    send(cluster, NUMBERS)
    led = [partition for partition in range(PARTITIONS) if cluster.leader("orders", partition) == 2]
    port = cluster.brokers[2].port
    cluster.brokers[2].stop(kill=True)
    assert values_of(cluster) == NUMBERS
    assert {cluster.leader("orders", partition) for partition in led} <= {1, 3}
    cluster.brokers[2].start()
    assert cluster.brokers[2].port == port
    assert values_of(cluster) == NUMBERS


@pytest.mark.parametrize("_again", range(5))
def test_what_was_committed_is_seen_at_once_after_a_kill(cluster: Cluster, _again: int) -> None:
    """Markers that the dead coordinator still owed are written by the one that takes over."""
    send(cluster, NUMBERS, transactional_id="spanning")
    coordinator = cluster.transaction_coordinator("spanning")
    assert coordinator is not None
    cluster.brokers[coordinator].stop(kill=True)
    assert values_of(cluster) == NUMBERS


def test_a_topic_is_made_while_a_broker_is_away_and_spread_over_the_others(cluster: Cluster) -> None:
    cluster.brokers[1].stop()
    send(cluster, NUMBERS)
    assert {cluster.leader("orders", partition) for partition in range(PARTITIONS)} == {2, 3}


def test_a_broker_whose_session_expires_leads_under_a_new_broker_epoch(cluster: Cluster) -> None:
    send(cluster, NUMBERS)
    before = cluster.brokers[3].node.image.brokers[3].epoch
    cluster.expire_session(3)

    def epoch() -> int:
        known = cluster.brokers[1].node.image.brokers.get(3)
        return 0 if known is None else known.epoch

    wait_until(lambda: epoch() > before, "broker 3 does not join again")
    send(cluster, [b"%d" % (number + len(NUMBERS)) for number in range(PARTITIONS)], transactional_id="after")
    assert values_of(cluster) == [b"%d" % number for number in range(3 * PARTITIONS)]


def test_the_session_of_a_killed_broker_expires_on_demand(cluster: Cluster) -> None:
    cluster.brokers[2].stop(kill=True)
    assert 2 in cluster.brokers[1].node.image.brokers
    cluster.expire_session(2)
    assert all(2 not in cluster.brokers[node_id].node.image.brokers for node_id in (1, 3))


def test_time_that_passes_ends_transactions_and_no_session(cluster: Cluster) -> None:
    with blocking.Producer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id="slow", transaction_timeout_ms=60_000
    ) as producer:
        producer.begin()
        producer.send("orders", b"1", partition=0).result(PATIENCE_S)
        assert cluster.has_open_transaction("orders")
        cluster.clock.advance(minutes=5)
        wait_until(lambda: not cluster.has_open_transaction("orders"), "the transaction does not time out")
    assert values_of(cluster) == []
    assert all(broker.node.is_member for broker in cluster.brokers.values())


def test_faults_strike_one_broker(cluster: Cluster) -> None:
    send(cluster, NUMBERS)
    lost = cluster.brokers[2].faults.drop_response("Produce")
    send(cluster, [b"%d" % (number + len(NUMBERS)) for number in range(PARTITIONS)])
    assert lost.hits == 1
    assert values_of(cluster) == [b"%d" % number for number in range(3 * PARTITIONS)]


@pytest.mark.parametrize("drop", ["drop_request", "drop_response"])
@pytest.mark.parametrize("api", ["WriteTxnMarkers", "AddPartitionsToTxn"])
def test_faults_strike_what_brokers_ask_each_other_and_transactions_hold(cluster: Cluster, api: str, drop: str) -> None:
    send(cluster, NUMBERS, transactional_id="spanning")
    assert values_of(cluster) == NUMBERS
    coordinator = cluster.transaction_coordinator("spanning")
    # Markers go to the leaders of partitions, questions about admission to the coordinator.
    struck = [broker for broker in cluster.brokers.values() if (broker.node_id == coordinator) == (api[0] == "A")]
    faults = [getattr(broker.faults, drop)(api) for broker in struck]
    send(cluster, [b"%d" % (number + len(NUMBERS)) for number in range(PARTITIONS)], transactional_id="spanning")
    assert values_of(cluster) == [b"%d" % number for number in range(3 * PARTITIONS)]
    assert [fault.hits for fault in faults] == [1] * len(struck)


def test_data_in_a_folder_is_below_it_by_node_id(tmp_path: Path) -> None:
    with Cluster(brokers=2, data_dir=tmp_path, num_partitions=PARTITIONS) as cluster:
        send(cluster, NUMBERS, transactional_id="on-disk")
        cluster.brokers[1].restart(kill=True)
        assert values_of(cluster) == NUMBERS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]


def test_it_works_in_a_coroutine() -> None:
    async def run() -> list[bytes]:
        async with (
            Cluster(brokers=1) as cluster,
            Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="one") as producer,
        ):
            async with producer.transaction():
                producer.send("orders", b"1")
            return await asyncio.to_thread(values_of, cluster)

    assert asyncio.run(run()) == [b"1"]


@pytest.mark.semel_cluster(brokers=2, num_partitions=2)
def test_pytest_finds_the_fixture(semel_cluster: Cluster) -> None:
    assert sorted(semel_cluster.brokers) == [1, 2]
    send(semel_cluster, [b"0"])
    assert values_of(semel_cluster) == [b"0"]


def test_a_cluster_has_at_least_one_broker() -> None:
    with pytest.raises(ValueError, match="brokers=0"):
        Cluster(brokers=0)
