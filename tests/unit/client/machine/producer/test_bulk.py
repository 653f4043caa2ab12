"""A bulk in the producer's machine: it waits like a record, leaves piece by piece, and is settled once."""

from __future__ import annotations

from typing import Any

import pytest

from semel.client.machine.producer.batch import Acknowledged
from semel.client.values import BulkMetadata, WrittenRange
from semel.errors import AbortableError, RetriableError, TimedOut
from semel.wire.apis import ApiKey
from tests.unit.client.machine.model_cluster import ModelCluster
from tests.unit.client.machine.producer.bulks import Fields, send_bulk, settle_all
from tests.unit.client.machine.producer.producers import Producing, producing


def records(count: int, size: int = 100, partition: int | None = 0) -> list[Fields]:
    return [(None, b"%d " % number + bytes(size), partition, (), 0) for number in range(count)]


def ready(**settings: Any) -> Producing:
    producer = producing(**settings)
    producer.machine.know_topic("orders", 0.0)
    producer.turn()
    return producer


def holding(**settings: Any) -> Producing:
    """A producer whose batches nobody acknowledges yet."""
    producer = ready(**settings)
    producer.bench.held = lambda request: request.api_key is ApiKey.PRODUCE
    return producer


def test_a_topic_that_nobody_knows_is_asked_for_at_once() -> None:
    producer = ready()
    producer.cluster.create_topic("new")
    future = send_bulk(producer, records(3), topic="new")
    producer.bench.turn()  # Once: nothing else will wake the machine.
    settle_all(producer)
    assert future.result == BulkMetadata("new", 3, {0: WrittenRange(0, 2, 3)})


def test_no_more_is_buffered_than_allowed_and_a_piece() -> None:
    producer = holding(buffer_memory=100_000, batch_size=10_000)
    send_bulk(producer, records(40_000))
    producer.bench.advance(50)
    assert 100_000 <= producer.machine._accumulator.buffered_bytes <= 100_000 + 3 * 2**20
    assert producer.machine.is_full


def test_the_first_in_line_may_be_of_any_size_and_those_behind_it_are_limited() -> None:
    producer = holding(buffer_memory=1_000)
    send_bulk(producer, records(200))
    with pytest.raises(RetriableError, match="as much again waits for room"):
        send_bulk(producer, records(200))
    send_bulk(producer, records(3))
    producer.send(b"single")
    with pytest.raises(RetriableError, match="as much again waits for room"):
        producer.send(bytes(1_000))


def test_a_record_sent_behind_a_bulk_does_not_overtake_it() -> None:
    producer = ready(buffer_memory=1_000_000)
    send_bulk(producer, records(30_000))
    producer.send(b"last", turn=False)
    producer.bench.advance(1_000)
    assert producer.cluster.log("orders").values[-1] == b"last"
    assert len(producer.cluster.log("orders").values) == 30_001


def test_what_waited_longer_than_max_block_ms_fails_and_says_how_many_were_written() -> None:
    producer = holding(buffer_memory=1_000, max_block_ms=500, batch_size=1_000, max_request_size=10_000)
    future = send_bulk(producer, records(60_000))
    producer.bench.advance(400)
    settle_all(producer)
    assert not future.done()
    producer.bench.advance(200)
    producer.bench.release()
    settle_all(producer)
    written = len(producer.cluster.log("orders").values)
    assert isinstance(future.error, TimedOut)
    assert 0 < written < 60_000
    assert f"the last {60_000 - written} of 60000 records for orders were not sent" in str(future.error)
    assert f"{written} were written" in str(future.error)


def test_flush_waits_for_every_piece() -> None:
    producer = holding(buffer_memory=1_000)
    send_bulk(producer, records(60_000))
    flushed = producer.machine.flush()
    producer.bench.advance(10)
    assert not flushed.settled
    producer.bench.held = lambda request: False
    producer.bench.advance(10_000)
    assert flushed.settled
    assert len(producer.cluster.log("orders").values) == 60_000


def test_flush_waits_until_the_last_piece_is_acknowledged() -> None:
    producer = holding()
    send_bulk(producer, records(500))
    flushed = producer.machine.flush()
    producer.bench.advance(10)
    assert producer.machine.admission.is_empty
    assert not flushed.settled
    producer.bench.release()
    assert flushed.settled


def test_what_a_partitioner_raises_fails_the_bulk() -> None:
    def broken(*what: object) -> int:
        raise LookupError("no such customer")

    producer = ready(partitioner=broken)
    future = send_bulk(producer, records(5, partition=None))
    producer.bench.turn()
    settle_all(producer)
    assert isinstance(future.error, LookupError)
    assert producer.machine.is_idle


def test_a_partition_that_is_not_known_yet_is_asked_for() -> None:
    producer = ready()
    producer.cluster.create_topic("orders", 4)
    future = send_bulk(producer, records(5, partition=3))
    producer.bench.advance(2_000)
    settle_all(producer)
    assert future.result == BulkMetadata("orders", 5, {3: WrittenRange(0, 4, 5)})


def test_without_acknowledgements_no_offsets_are_told() -> None:
    producer = ready(acks=0)
    future = send_bulk(producer, records(5))
    producer.bench.turn()
    settle_all(producer)
    assert future.result == BulkMetadata("orders", 5, {0: WrittenRange(None, None, 5)})


def test_a_closed_producer_settles_what_it_did_not_send() -> None:
    producer = holding(buffer_memory=1_000)
    future = send_bulk(producer, records(60_000))
    producer.turn()
    producer.machine.close()
    producer.machine.shut(0.0)
    settle_all(producer)
    assert isinstance(future.error, AbortableError)


def test_one_delivery_counts_for_all_records_of_a_batch() -> None:
    producer = holding()
    send_bulk(producer, records(7))
    producer.bench.turn()
    producer.bench.release()
    (settlement,) = producer.machine.take_settled()
    assert isinstance(settlement.outcome, Acknowledged)
    assert settlement.bulk_count == 7
    assert producer.machine.metrics()["record-send-total"] == 7


def test_many_partitions_share_a_request() -> None:
    producer = producing(ModelCluster(topics={"orders": 4}))
    producer.machine.know_topic("orders", 0.0)
    producer.turn()
    send_bulk(producer, [(b"%d" % number, bytes(50), None, (), 0) for number in range(2_000)])
    producer.bench.turn()
    sent = producer.bench.requests(ApiKey.PRODUCE)
    assert max(len(request.message.topic_data[0].partition_data) for request in sent) == 4
