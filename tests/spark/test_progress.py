"""How far a pipeline has come, as its brokers tell it."""

from __future__ import annotations

from semel.blocking import Producer
from semel.spark.cluster import Cluster
from semel.spark.progress import PartitionProgress, progress_of, total_lag
from semel.spark.source.options import SourceOptions
from semel.testing import Broker
from semel.types import TopicPartition
from tests.spark.topics import create

FIRST, SECOND = TopicPartition("in", 0), TopicPartition("in", 1)


def test_the_lag_is_what_is_stable_and_not_committed(broker: Broker) -> None:
    create(broker, "in")
    servers = broker.bootstrap_servers
    source = SourceOptions.parse(
        {"kafka.bootstrap.servers": servers, "subscribe": "in", "kafka.group.id": "jobs"}, is_streaming=True
    )
    with Cluster(bootstrap_servers=servers) as cluster, Producer(bootstrap_servers=servers) as producer:
        for _ in range(5):
            producer.send("in", b"v", partition=0).result()
        assert progress_of([source], cluster) == [
            PartitionProgress("jobs", FIRST, None, 5),
            PartitionProgress("jobs", SECOND, None, 0),
        ]
        with Producer(bootstrap_servers=servers, transactional_id="t") as other:
            with other.transaction():
                other.send_offsets({FIRST: 3, SECOND: 0}, "jobs")
            other.begin()
            other.send("in", b"undecided", partition=1).result()
            found = progress_of([source], cluster)
            other.abort()
        assert [(one.committed, one.last_stable_offset, one.lag) for one in found] == [(3, 5, 2), (0, 0, 0)]
        assert total_lag(found) == 2
