"""What tests put into topics and find there."""

from __future__ import annotations

from collections.abc import Iterable

from semel import ConsumerRecord
from semel.blocking import Producer
from semel.client.config.consumer import IsolationLevel
from semel.spark.cluster import Cluster
from semel.spark.source.splits import Split
from semel.testing import Broker
from semel.types import TopicPartition


def create(broker: Broker, *topics: str) -> None:
    """Made by asking for them, with as many partitions as the broker gives."""
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for topic in topics:
            producer.partitions_for(topic)


def fill(broker: Broker, topic: str, values: Iterable[int], *, key_count: int = 7) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        sent = [producer.send(topic, b"%d" % value, b"key-%d" % (value % key_count)) for value in values]
        for future in sent:
            future.result()


def committed(broker: Broker, topic: str) -> list[ConsumerRecord]:
    """All records that a read_committed reader sees, partition by partition. There must be nothing undecided."""
    from semel.spark.source.reading import read_split

    with (
        Cluster(bootstrap_servers=broker.bootstrap_servers) as stable,
        Cluster(
            bootstrap_servers=broker.bootstrap_servers, isolation_level=IsolationLevel.READ_UNCOMMITTED
        ) as unstable,
    ):
        count = stable.topics([topic]).partition_counts[topic]
        partitions = [TopicPartition(topic, index) for index in range(count)]
        ends = stable.end_offsets(partitions)
        assert ends == unstable.end_offsets(partitions), "a transaction is open"
        return [
            ConsumerRecord(topic, index, row["offset"], 0, row["key"], row["value"], ())
            for (_, index), end in ends.items()
            for rows in read_split(
                Split(TopicPartition(topic, index), 0, end), stable, include_headers=False, fail_on_data_loss=True
            )
            for row in rows.to_pylist()
        ]


def is_open(servers: str, topic: str) -> bool:
    """Whether a transaction on the topic is undecided."""
    with (
        Cluster(bootstrap_servers=servers) as stable,
        Cluster(bootstrap_servers=servers, isolation_level=IsolationLevel.READ_UNCOMMITTED) as all_of,
    ):
        partitions = [TopicPartition(topic, index) for index in range(stable.topics([topic]).partition_counts[topic])]
        return stable.end_offsets(partitions) != all_of.end_offsets(partitions)


def values(broker: Broker, topic: str) -> list[int]:
    """The committed values as sorted numbers: a multiset."""
    return sorted(int(record.value or b"") for record in committed(broker, topic))


def group_offsets(broker: Broker, group_id: str, topic: str) -> dict[int, int]:
    with Cluster(bootstrap_servers=broker.bootstrap_servers) as cluster:
        count = cluster.topics([topic]).partition_counts[topic]
        found = cluster.committed(group_id, [TopicPartition(topic, index) for index in range(count)])
        return {partition: at.offset for (_, partition), at in found.items()}
