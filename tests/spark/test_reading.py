"""Splits read from a real broker, without Spark around them (scenario 72)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from datetime import UTC, datetime

import pytest

from semel.blocking import Producer
from semel.client.admin.batches import RawBatches
from semel.errors import KafkaError
from semel.spark.cluster import Cluster
from semel.spark.source.reading import DataLost, read_split, read_splits
from semel.spark.source.splits import Split
from semel.testing import Broker
from semel.types import TopicPartition
from tests.spark.topics import create, fill

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(bootstrap_servers=broker.bootstrap_servers) as running:
        yield running


def read(cluster: Cluster, start: int, end: int, **changes: bool) -> list[dict[str, object]]:
    chosen = {"include_headers": False, "fail_on_data_loss": True, **changes}
    return [row for rows in read_split(Split(ORDERS, start, end), cluster, **chosen) for row in rows.to_pylist()]


def offsets(rows: list[dict[str, object]]) -> list[object]:
    return [row["offset"] for row in rows]


def test_rows_have_the_columns_of_sparks_own_source(broker: Broker, cluster: Cluster) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        sent = producer.send(
            "orders", b"v", None, partition=0, headers=[("trace", b"7"), ("empty", None)], timestamp=1500
        )
        sent.result()
    assert read(cluster, 0, 1, include_headers=True) == [
        {
            "key": None,
            "value": b"v",
            "topic": "orders",
            "partition": 0,
            "offset": 0,
            "timestamp": datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
            "timestampType": 0,
            "headers": [{"key": "trace", "value": b"7"}, {"key": "empty", "value": None}],
        }
    ]


def test_aborted_records_and_markers_are_passed_over_also_at_the_end_of_a_split(
    broker: Broker, cluster: Cluster
) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="t") as producer:
        for outcome in ("commit", "abort", "commit", "abort"):
            producer.begin()
            for _ in range(3):
                producer.send("orders", outcome.encode(), partition=0)
            producer.flush()
            getattr(producer, outcome)()
    end = cluster.end_offsets([ORDERS])[ORDERS]
    assert end == 16
    assert offsets(read(cluster, 0, end)) == [0, 1, 2, 8, 9, 10]
    assert {row["value"] for row in read(cluster, 0, end)} == {b"commit"}
    # A split that holds nothing but what nobody may see ends, too.
    assert read(cluster, 11, end) == []
    assert read(cluster, 3, 4) == []


def test_an_open_transaction_is_not_read(broker: Broker, cluster: Cluster) -> None:
    fill(broker, "orders", [0])
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="t") as producer:
        producer.begin()
        producer.send("orders", b"undecided", partition=0).result()
        assert cluster.end_offsets([ORDERS, TopicPartition("orders", 1)])[ORDERS] in (0, 1)
        producer.abort()


def test_a_split_begins_and_ends_in_the_middle_of_batches(broker: Broker, cluster: Cluster) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=50) as producer:
        for future in [producer.send("orders", b"%d" % number, partition=0) for number in range(50)]:
            future.result()
    rows = read(cluster, 7, 31)
    assert [row["value"] for row in rows] == [b"%d" % number for number in range(7, 31)]


def test_splits_are_read_one_after_the_other_each_up_to_its_end(broker: Broker, cluster: Cluster) -> None:
    other = TopicPartition("orders", 1)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for future in [producer.send("orders", b"%d" % number, partition=number % 2) for number in range(40)]:
            future.result()
    splits = [Split(ORDERS, 3, 6), Split(other, 2, 4), Split(ORDERS, 6, 8)]
    found = read_splits(iter(splits), cluster, include_headers=False, fail_on_data_loss=True)
    assert [(split, row["offset"]) for split, rows in found for row in rows.to_pylist()] == [
        (split, offset) for split in splits for offset in range(split.start, split.end)
    ]


class RecordingCluster(Cluster):
    """Remembers how many bytes were wanted."""

    def fetch(self, topic_partition: TopicPartition, offset: int, bytes_wanted: int) -> Future[RawBatches]:
        self.wanted = [*getattr(self, "wanted", []), bytes_wanted]
        return super().fetch(topic_partition, offset, bytes_wanted)


@pytest.mark.parametrize(("size", "count"), [(10, 500), (200_000, 20)])
def test_no_more_is_asked_for_than_a_split_needs(broker: Broker, size: int, count: int) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5) as producer:
        for future in [producer.send("orders", bytes(size), partition=0) for _ in range(count)]:
            future.result()
    with RecordingCluster(bootstrap_servers=broker.bootstrap_servers) as cluster:
        assert [row["value"] for row in read(cluster, 0, 5)] == [bytes(size)] * 5
        # A record and a batch more: what was guessed for the first answer, what was seen for those that follow.
        assert cluster.wanted[0] <= 5 * 1024 + 64 * 1024
        assert all(wanted <= 6 * (size + 100) for wanted in cluster.wanted[1:])


def test_a_limit_that_was_set_is_kept(broker: Broker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for _ in range(8):
            producer.send("orders", bytes(1000), partition=0).result()
    with RecordingCluster(bootstrap_servers=broker.bootstrap_servers, max_partition_fetch_bytes=1) as cluster:
        assert offsets(read(cluster, 0, 8)) == list(range(8))
        assert len(cluster.wanted) == 8  # One batch each.


def test_data_that_is_gone_is_an_error_unless_it_may_be(broker: Broker, cluster: Cluster) -> None:
    create(broker, "orders")
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for future in [producer.send("orders", b"v", partition=0) for _ in range(3)]:
            future.result()
    with pytest.raises(DataLost, match=r"offsets 9 to 12 of orders-0 are not all there: the log begins at 0"):
        read(cluster, 9, 12)
    assert read(cluster, 9, 12, fail_on_data_loss=False) == []


class CutCluster(Cluster):
    """Whose log ends at offset 3, before the end of what was planned, and says so at once."""

    def fetch(self, topic_partition: TopicPartition, offset: int, bytes_wanted: int) -> Future[RawBatches]:
        answer: Future[RawBatches] = Future()
        answer.set_result(RawBatches(b"", (), 3, 3, 0))
        return answer


def test_the_end_of_a_split_that_was_cut_off_is_an_error_unless_it_may_be(broker: Broker) -> None:
    with CutCluster(bootstrap_servers=broker.bootstrap_servers) as cut:
        with pytest.raises(DataLost, match="offsets 3 to 12 of orders-0 are not all there: the log is stable up to 3"):
            read(cut, 3, 12)
        assert read(cut, 3, 12, fail_on_data_loss=False) == []


def test_a_topic_that_was_deleted_before_it_was_read_is_an_error_unless_it_may_be(
    broker: Broker, cluster: Cluster
) -> None:
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        read(cluster, 0, 3)
    assert read(cluster, 0, 3, fail_on_data_loss=False) == []


def test_reading_goes_on_when_the_broker_was_killed_in_between(broker: Broker, cluster: Cluster) -> None:
    fill(broker, "orders", range(20), key_count=1)
    ends = cluster.end_offsets([ORDERS, TopicPartition("orders", 1)])
    place = next(place for place, end in ends.items() if end)
    broker.restart(kill=True)
    rows = [
        row
        for rows in read_split(Split(place, 0, 20), cluster, include_headers=False, fail_on_data_loss=True)
        for row in rows.to_pylist()
    ]
    assert [row["value"] for row in rows] == [b"%d" % number for number in range(20)]
