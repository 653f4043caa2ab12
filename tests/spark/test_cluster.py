"""What a pipeline asks a cluster for: topics that are named, found by a pattern, internal or refused. Without Spark."""

from __future__ import annotations

import pytest

from semel.blocking import Admin
from semel.spark.cluster import Cluster
from semel.spark.refusals import Refused, check_sink_topics
from semel.spark.source.options import Subscription
from semel.spark.source.reading import read_splits
from semel.spark.source.splits import Split
from semel.testing import Broker
from semel.types import CONSUMER_OFFSETS_TOPIC, TopicPartition
from tests.spark.topics import create


@pytest.fixture(autouse=True)
def offsets(broker: Broker) -> None:
    """A topic ``in``, and an offset that the group ``jobs`` has committed for it."""
    create(broker, "in")
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.groups.alter_offsets("jobs", {("in", 0): 7}).all()


def test_an_internal_topic_is_read_if_it_is_named_and_no_pattern_means_it(broker: Broker) -> None:
    with Cluster(bootstrap_servers=broker.bootstrap_servers) as cluster:
        partitions = Subscription(topics=(CONSUMER_OFFSETS_TOPIC,)).partitions(cluster)
        assert len(partitions) == 50
        splits = [Split(place, 0, end) for place, end in cluster.end_offsets(partitions).items() if end]
        read = read_splits(splits, cluster, include_headers=False, fail_on_data_loss=True)
        assert any(b"jobs" in (row["key"] or b"") for _, rows in read for row in rows.to_pylist())
        assigned = (TopicPartition(CONSUMER_OFFSETS_TOPIC, 49),)
        assert Subscription(assigned=assigned).partitions(cluster) == list(assigned)
        with pytest.raises(LookupError, match="there is no partition __consumer_offsets-50 to read from"):
            Subscription(assigned=(TopicPartition(CONSUMER_OFFSETS_TOPIC, 50),)).partitions(cluster)
        assert {topic for topic, _ in Subscription(pattern=".*").partitions(cluster)} == {"in"}


def test_a_sink_is_no_internal_topic(broker: Broker) -> None:
    with Cluster(bootstrap_servers=broker.bootstrap_servers) as cluster:
        check_sink_topics(["in"], cluster)
        with pytest.raises(Refused, match="'__consumer_offsets' is an internal topic: only brokers write to it"):
            check_sink_topics(["in", CONSUMER_OFFSETS_TOPIC], cluster)
