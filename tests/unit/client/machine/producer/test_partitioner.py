"""Which partition a record goes to: as Kafka's Java client says, or stuck to one for a while, or as its owner likes."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from semel.client.machine.connection.cluster_view import PartitionView, TopicView
from semel.client.machine.producer.murmur2 import murmur2, positive_murmur2
from semel.client.machine.producer.partitioner import StickyPartition
from tests.unit.client.machine.model_cluster import ModelCluster
from tests.unit.client.machine.producer.producers import producing


@given(st.binary(max_size=200))
def test_murmur2_is_that_of_another_implementation(data: bytes) -> None:
    assert murmur2(data) == kafka_python_murmur2(data) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_the_java_client(key: bytes, hashed: int) -> None:
    """Values that Apache Kafka's own tests expect."""
    assert murmur2(key) == hashed & 0xFFFFFFFF


def test_equal_keys_go_to_one_partition_and_different_ones_spread() -> None:
    spread = Counter(positive_murmur2(b"key-%d" % number) % 8 for number in range(4_000))
    assert set(spread) == set(range(8))
    assert min(spread.values()) > 300
    producer = producing(ModelCluster(topics={"orders": 8}))
    for number in range(20):
        producer.send(b"%d" % number, key=b"key-1", partition=None)
    written = producer.cluster.log("orders", positive_murmur2(b"key-1") % 8).values
    assert written == [b"%d" % number for number in range(20)]


def topic(*leaders: int | None) -> TopicView:
    return TopicView("orders", partitions=tuple(PartitionView(leader, 0) for leader in leaders))


def test_records_without_a_key_stay_together_until_a_batch_is_full() -> None:
    sticky = StickyPartition(Random(1), 1_000)
    view = topic(*[1] * 8)
    chosen = []
    for _ in range(100):
        chosen.append(sticky.choose(view))
        sticky.sent(100)
    runs = [chosen[start : start + 10] for start in range(0, 100, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert len({run[0] for run in runs}) > 3


@pytest.mark.parametrize("key", [None, b"ignored"])
def test_the_short_way_into_a_batch_leads_to_the_same_partition(key: bytes | None) -> None:
    written, taken_at_once = [], 0
    for is_short in (True, False):
        cluster = ModelCluster(topics={"orders": 8})
        producer = producing(cluster, batch_size=1_000, linger_ms=1_000, partitioner_ignore_keys=True, seed=3)
        for number in range(300):
            value = b"%03d" % number + bytes(number % 70)
            if is_short and producer.machine.admission.add_to_open("orders", value, key, None, 0, value):
                taken_at_once += 1
            else:
                producer.send(value, key=key, partition=None)
        producer.advance(2_000)
        written.append([cluster.log("orders", index).values for index in range(8)])
        assert sum(map(len, written[-1])) == 300
    assert written[0] == written[1]
    assert taken_at_once > 200


def test_records_without_a_key_avoid_partitions_that_have_no_leader() -> None:
    sticky = StickyPartition(Random(1), 1)
    view = topic(None, 1, None, 2)
    chosen = set()
    for _ in range(50):
        chosen.add(sticky.choose(view))
        sticky.sent(1)
    assert chosen == {1, 3}


def test_a_partitioner_of_one_s_own_decides() -> None:
    producer = producing(
        ModelCluster(topics={"orders": 4}), partitioner=lambda topic, key, value, count: (value or b"")[0] % count
    )
    for number in range(8):
        producer.send(bytes([number]), partition=None)
    assert [producer.cluster.log("orders", index).values for index in range(4)] == [
        [bytes([index]), bytes([index + 4])] for index in range(4)
    ]


def test_a_partitioner_that_leaves_the_range_is_told() -> None:
    producer = producing(ModelCluster(topics={"orders": 4}), partitioner=lambda topic, key, value, count: count)
    producer.send(b"known", partition=0)
    with pytest.raises(ValueError, match="chose 4 for a record of orders, which has 4 partitions"):
        producer.send(b"a", partition=None)


def test_keys_can_be_ignored() -> None:
    producer = producing(ModelCluster(topics={"orders": 4}), partitioner_ignore_keys=True, batch_size=1, seed=3)
    for number in range(40):
        producer.send(b"%d" % number, key=b"same", partition=None)
    used = [index for index in range(4) if producer.cluster.log("orders", index).values]
    assert len(used) > 1
