"""A record for a partition that its topic does not have is refused as soon as that is known, with how many there are.

The topic may have got more partitions since the metadata was asked for: so it is asked for once more before that.
"""

from __future__ import annotations

from semel.errors import AbortableError, ErrorCode
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from tests.unit.client.machine.model_cluster import ModelCluster, ModelLog
from tests.unit.client.machine.producer.bulks import send_bulk, settle_all
from tests.unit.client.machine.producer.producers import Producing, producing

SOON_MS = 500
"""Far below max.block.ms: a refusal within this time waited for nothing but an answer."""


def a_producer() -> Producing:
    return producing(ModelCluster(topics={"orders": 3}))


def add_partition(cluster: ModelCluster, partition: int) -> None:
    added = TopicPartition("orders", partition)
    cluster.logs[added], cluster.leaders[added], cluster.leader_epochs[added] = ModelLog(), 1, 0


def asked(producer: Producing) -> int:
    return len(producer.bench.requests(ApiKey.METADATA))


def test_a_topic_that_becomes_known_without_the_partition() -> None:
    producer = a_producer()
    producer.send(b"v", partition=9)
    producer.advance(SOON_MS)
    error = producer.errors[b"v"]
    assert isinstance(error, AbortableError)
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error.message == "a record was not sent: orders has no partition 9; it has 3, counted from 0"
    assert asked(producer) == 1 + 1, "the topic was asked for, and what was found missing is asked for in time"


def test_of_a_topic_that_is_known_the_metadata_is_renewed_first() -> None:
    producer = a_producer()
    producer.send(b"first", partition=0)
    producer.advance(SOON_MS)
    before = asked(producer)
    producer.send(b"v", partition=3)
    assert b"v" not in producer.errors or asked(producer) > before
    producer.advance(SOON_MS)
    assert "orders has no partition 3; it has 3, counted from 0" in str(producer.errors[b"v"])
    assert asked(producer) > before


def test_a_partition_that_was_added_meanwhile_is_written_to() -> None:
    producer = a_producer()
    producer.send(b"first", partition=0)
    producer.advance(SOON_MS)
    add_partition(producer.cluster, 3)
    producer.send(b"v", partition=3)
    producer.advance(SOON_MS)
    assert producer.errors == {}
    assert producer.cluster.log("orders", 3).values == [b"v"]


def test_an_answer_to_what_was_asked_before_the_record_came_is_not_believed() -> None:
    producer = a_producer()
    producer.send(b"first", partition=0)
    producer.advance(SOON_MS)
    producer.bench.held = lambda request: request.api_key is ApiKey.METADATA
    producer.machine.know_topic("others", producer.bench.now_ms)
    producer.advance(SOON_MS)
    (old,) = producer.bench.waiting(ApiKey.METADATA)
    answer = producer.cluster.answer(old)
    add_partition(producer.cluster, 3)
    producer.send(b"v", partition=3)
    producer.bench.answer(old, answer)
    assert producer.errors == {}
    producer.bench.release()
    producer.advance(SOON_MS)
    assert producer.errors == {}
    assert producer.cluster.log("orders", 3).values == [b"v"]


def test_records_behind_it_are_sent_all_the_same() -> None:
    producer = a_producer()
    producer.send(b"wrong", partition=9, turn=False)
    producer.send(b"right", partition=1, turn=False)
    producer.advance(SOON_MS)
    assert list(producer.errors) == [b"wrong"]
    assert producer.cluster.log("orders", 1).values == [b"right"]


def test_a_bulk_is_refused_as_a_whole() -> None:
    producer = a_producer()
    future = send_bulk(producer, [(None, b"%d" % number, number * 3, (), 0) for number in range(4)])
    producer.bench.advance(SOON_MS)
    settle_all(producer)
    assert isinstance(future.error, AbortableError)
    assert "4 records were not sent: orders has no partition 9; it has 3, counted from 0" in str(future.error)
    assert producer.machine.is_idle


def test_a_flush_does_not_wait_for_it() -> None:
    producer = a_producer()
    producer.send(b"v", partition=9, turn=False)
    flushed = producer.machine.flush()
    producer.advance(SOON_MS)
    assert flushed.settled
