"""Kafka's own command line on a cluster of three brokers: it shows the cluster as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel import blocking
from semel.testing import Cluster
from tools.brokers import run_java
from tools.load import create_topic
from tools.patience import PATIENCE_S

pytestmark = [pytest.mark.kafka, pytest.mark.needs("kafka"), pytest.mark.xdist_group("cluster-tools")]

TRANSACTIONAL_ID = "open-over-three"
GROUP = "readers"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, group_initial_rebalance_delay_ms=0) as running:
        create_topic(running.bootstrap_servers, "orders", partitions=3, leaders=[2, 3, 1])
        yield running


def printed(cluster: Cluster, tool: str, *arguments: str) -> str:
    return run_java(f"org.apache.kafka.tools.{tool}", ["--bootstrap-server", cluster.bootstrap_servers, *arguments])


def fields(line: str) -> dict[str, str]:
    """``Topic: orders  Partition: 0  Leader: 2``"""
    cells = (cell.partition(":") for cell in line.split("\t"))
    return {name.strip(): value.strip() for name, colon, value in cells if colon}


def described(cluster: Cluster) -> list[tuple[str, str, str]]:
    """Partition, leader and replicas of each partition of the topic."""
    lines = map(fields, printed(cluster, "TopicCommand", "--describe", "--topic", "orders").splitlines())
    return [(line["Partition"], line["Leader"], line["Replicas"]) for line in lines if "Partition" in line]


def test_topics_show_their_leaders(cluster: Cluster) -> None:
    assert described(cluster) == [("0", "2", "2"), ("1", "3", "3"), ("2", "1", "1")]


def test_a_topic_is_made_over_the_brokers_with_as_many_replicas_as_there_are_brokers(cluster: Cluster) -> None:
    printed(cluster, "TopicCommand", "--create", "--topic", "spread", "--partitions", "3", "--replication-factor", "3")
    lines = map(fields, printed(cluster, "TopicCommand", "--describe", "--topic", "spread").splitlines())
    partitions = [line for line in lines if "Partition" in line]
    assert {line["Leader"] for line in partitions} == {"1", "2", "3"}
    assert all(sorted(line["Replicas"].split(",")) == ["1", "2", "3"] for line in partitions)
    with pytest.raises(Exception, match="InvalidReplicationFactorException"):
        printed(cluster, "TopicCommand", "--create", "--topic", "more", "--replication-factor", "4")


def test_groups_show_where_they_are_and_how_far_they_have_read(cluster: Cluster) -> None:
    with blocking.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for partition in range(3):
            producer.send("orders", b"value", partition=partition).result(PATIENCE_S)
    with blocking.Consumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=GROUP, auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(["orders"])
        read = 0
        while read < 3:
            read += len(consumer.poll(1000))
        consumer.commit()
    tool = "consumer.group.ConsumerGroupCommand"
    assert GROUP in printed(cluster, tool, "--list").splitlines()
    rows = [line.split() for line in printed(cluster, tool, "--describe", "--group", GROUP).splitlines()]
    assert sorted(row[2:6] for row in rows if row[:2] == [GROUP, "orders"]) == [
        [str(partition), "1", "1", "0"] for partition in range(3)
    ]
    state = printed(cluster, tool, "--describe", "--group", GROUP, "--state")
    coordinator = cluster.group_coordinator(GROUP)
    assert coordinator is not None
    assert f"{cluster.brokers[coordinator].bootstrap_servers}" in state
    assert f"({coordinator})" in state


def test_transactions_show_their_coordinator_and_partitions_of_all_brokers(cluster: Cluster) -> None:
    with blocking.Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=TRANSACTIONAL_ID) as producer:
        producer.begin()
        sent = [producer.send("orders", b"open", partition=partition) for partition in range(3)]
        for future in sent:
            future.result(PATIENCE_S)
        coordinator = cluster.transaction_coordinator(TRANSACTIONAL_ID)
        listed = printed(cluster, "TransactionsCommand", "list")
        (row,) = [line.split() for line in listed.splitlines() if line.startswith(TRANSACTIONAL_ID)]
        assert (row[1], row[3]) == (str(coordinator), "Ongoing")
        shown = printed(cluster, "TransactionsCommand", "describe", "--transactional-id", TRANSACTIONAL_ID)
        assert all(f"orders-{partition}" in shown for partition in range(3))
        for partition in range(3):
            arguments = ("describe-producers", "--topic", "orders", "--partition", str(partition))
            open_here = printed(cluster, "TransactionsCommand", *arguments)
            assert row[2] in open_here.split()  # The producer id.
        producer.abort()


def test_partitions_of_a_broker_that_is_gone_have_no_leader(cluster: Cluster) -> None:
    cluster.brokers[3].stop(kill=True)
    cluster.expire_session(3)
    assert described(cluster) == [("0", "2", "2"), ("1", "none", "3"), ("2", "1", "1")]
    unavailable = printed(cluster, "TopicCommand", "--describe", "--unavailable-partitions", "--topic", "orders")
    assert [fields(line)["Partition"] for line in unavailable.splitlines() if line.strip()] == ["1"]
    cluster.brokers[3].start()
    assert described(cluster) == [("0", "2", "2"), ("1", "3", "3"), ("2", "1", "1")]
