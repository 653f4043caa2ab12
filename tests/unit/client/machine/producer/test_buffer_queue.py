"""Records that have to wait: for room in the buffer, for their topic, and not for longer than max.block.ms."""

from __future__ import annotations

import pytest

from semel.errors import AbortableError, ErrorCode, RetriableError, StateError, TimedOut
from semel.wire.apis import ApiKey
from tests.unit.client.machine.model_cluster import ModelCluster
from tests.unit.client.machine.producer.producers import Producing, producing


def full(**settings: object) -> Producing:
    """A producer whose buffer of 1000 bytes is used up by records that nobody acknowledges."""
    producer = producing(buffer_memory=1_000, **settings)
    producer.send(b"first")
    producer.bench.held = lambda request: request.api_key is ApiKey.PRODUCE
    for number in range(10):
        producer.send(b"full-%d" % number + bytes(100), turn=False)
        if producer.machine.is_full:
            break
    producer.turn()
    return producer


def test_a_record_waits_for_room_and_is_sent_when_there_is_some() -> None:
    producer = full()
    assert producer.machine.is_full
    producer.bench.release()
    producer.settle()
    assert not producer.machine.is_full
    assert len(producer.offsets) == len(producer.cluster.log("orders").values)
    assert producer.errors == {}


def test_records_that_waited_are_written_in_the_order_they_came() -> None:
    producer = full()
    for number in range(5):
        producer.send(b"late-%d" % number)
    producer.bench.release()
    producer.settle()
    log = producer.cluster.log("orders").values
    assert log[-5:] == [b"late-%d" % number for number in range(5)]


def test_a_record_that_waited_for_room_longer_than_max_block_ms_fails() -> None:
    producer = full(max_block_ms=700)
    producer.send(b"late")
    producer.advance(699)
    assert b"late" not in producer.errors
    producer.advance(1)
    assert isinstance(producer.errors[b"late"], TimedOut)
    assert "room in the buffer longer than max.block.ms (700 ms)" in str(producer.errors[b"late"])


def test_a_sender_that_never_pauses_is_told() -> None:
    producer = full()

    def send_without_pause() -> None:
        for number in range(100):
            producer.send(b"more-%d" % number + bytes(100))

    with pytest.raises(RetriableError, match=r"buffer\.memory .1000 bytes. is used up"):
        send_without_pause()
    assert producer.machine._accumulator.buffered_bytes < 1_200


def test_an_unknown_topic_fails_after_max_block_ms_with_what_the_broker_said() -> None:
    producer = producing(max_block_ms=5_000)
    producer.cluster.creates_topics = False
    producer.send(b"a", topic="nowhere")
    producer.advance(4_999)
    assert producer.errors == {}
    producer.advance(1)
    assert isinstance(producer.errors[b"a"], TimedOut)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(producer.errors[b"a"])


def test_one_unknown_topic_does_not_hold_up_the_others() -> None:
    producer = producing()
    producer.cluster.creates_topics = False
    producer.send(b"a", topic="nowhere")
    producer.send(b"b")
    assert producer.offsets == {b"b": 0}


def test_a_topic_that_is_forbidden_fails_at_once() -> None:
    producer = producing()
    producer.cluster.topic_errors["secret"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    producer.send(b"a", topic="secret")
    assert isinstance(producer.errors[b"a"], AbortableError)
    assert "TOPIC_AUTHORIZATION_FAILED" in str(producer.errors[b"a"])


def test_a_partition_that_is_not_known_yet_is_asked_for() -> None:
    producer = producing(ModelCluster(topics={"orders": 1}))
    producer.machine.know_topic("orders", 0.0)
    producer.advance(500)
    producer.cluster.create_topic("orders", 2)
    producer.send(b"a", partition=1)
    assert producer.offsets == {}
    producer.advance(2_000)
    assert producer.offsets == {b"a": 0}
    assert producer.cluster.log("orders", 1).values == [b"a"]


def test_a_record_larger_than_a_request_is_refused_at_once() -> None:
    producer = producing(max_request_size=500)
    with pytest.raises(AbortableError, match=r"max\.request\.size is 500") as refused:
        producer.send(bytes(500))
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    producer.send(b"a")
    assert producer.offsets == {b"a": 0}


def test_a_waiting_record_that_fails_aborts_its_transaction() -> None:
    producer = producing(transactional_id="copy-1", max_block_ms=3_000)
    transaction = producer.machine.transaction
    assert transaction is not None
    transaction.init()
    producer.advance(100)
    transaction.begin()
    producer.cluster.creates_topics = False
    producer.send(b"a", topic="nowhere")
    promise = transaction.commit()
    producer.advance(3_000)
    assert isinstance(promise.error, AbortableError)


def test_what_is_left_at_the_end_is_settled_too() -> None:
    producer = full()
    producer.send(b"late")
    producer.machine.shut(producer.bench.now_ms)
    producer.settle()
    assert isinstance(producer.errors[b"late"], AbortableError)
    assert producer.machine.is_idle
    with pytest.raises(StateError, match="closed"):
        producer.send(b"after")
