"""What a consumer reads, from where, and what it does when the log, the leader or the bytes are not as expected."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from semel.client.config.consumer import ConsumerConfig
from semel.client.machine.consumer.consumer import ConsumerMachine
from semel.client.values import OffsetAndTimestamp
from semel.errors import AbortableError, DecodeError, ErrorCode, StateError
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.control import EndTransactionMarker, build_marker_batch
from semel.wire.messages.fetch import AbortedTransaction
from semel.wire.messages.list_offsets import EARLIEST, LATEST, ListOffsetsResponse
from semel.wire.records import Record, build_batch
from tests.unit.client.machine.machine_bench import Bench, Request
from tests.unit.client.machine.model_cluster import ModelCluster, ModelLog

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Consuming:
    """A consumer machine in a bench whose brokers answer a fetch at once, unless there is nothing to read."""

    def __init__(self, cluster: ModelCluster | None = None, **settings: Any) -> None:
        self.cluster = cluster or ModelCluster(topics={"orders": 2})
        config = ConsumerConfig.load({"bootstrap_servers": self.cluster.bootstrap_servers, **settings})
        self.machine = ConsumerMachine(config, Random(0))
        self.bench = Bench(self.machine, self.cluster, held=self.has_nothing_new, due_ms=self.answer_ms)

    def answer_ms(self, request: Request) -> float:
        return request.at_ms + (request.message.max_wait_ms if request.api_key is ApiKey.FETCH else 0)

    def has_nothing_new(self, request: Request) -> bool:
        """A fetch at the end of every log waits, as it does at a broker, for as long as it may."""
        if request.api_key is not ApiKey.FETCH or self.bench.now_ms >= self.answer_ms(request):
            return False
        answer: Any = self.cluster.answer(request)
        data = [partition for topic in answer.responses for partition in topic.partitions]
        return not any(partition.records or partition.error_code for partition in data)

    def assign(self, *partitions: TopicPartition) -> None:
        self.machine.assign(partitions, self.bench.now_ms)
        self.bench.turn()

    def take(self, count: int = 1_000) -> list[tuple[int, int, bytes | None]]:
        self.bench.advance(600)
        records = self.machine.take(count)
        self.bench.turn()
        return [(record.partition, record.offset, record.value) for record in records]

    def fill(self, partition: int, *values: bytes) -> ModelLog:
        log = self.cluster.log("orders", partition)
        for value in values:
            append(log, [value])
        for request in tuple(self.bench.pending):
            if request in self.bench.pending and not self.has_nothing_new(request):
                self.bench.answer(request)
        return log


def append(log: ModelLog, values: list[bytes], **options: Any) -> int:
    base_offset = len(log.values)
    records = [Record(base_offset + index, 7, None, value) for index, value in enumerate(values)]
    log.batches.append(build_batch(records, base_offset=base_offset, **options))
    log.values += values
    return base_offset


def mark(log: ModelLog, producer_id: int, *, committed: bool) -> None:
    marker = EndTransactionMarker(committed=committed, coordinator_epoch=0)
    offset = len(log.values)
    log.batches.append(
        build_marker_batch(marker, producer_id=producer_id, producer_epoch=0, timestamp=7, base_offset=offset)
    )
    log.values.append(None)


def test_a_consumer_begins_at_the_end_unless_told_otherwise() -> None:
    consumer = Consuming()
    consumer.fill(0, b"old")
    consumer.assign(ORDERS_0)
    consumer.take()
    consumer.fill(0, b"new")
    assert consumer.take() == [(0, 1, b"new")]


def test_auto_offset_reset_earliest_begins_at_the_first_record_that_is_left() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    consumer.fill(0, b"a", b"b", b"c").start_offset = 1
    consumer.assign(ORDERS_0)
    assert consumer.take() == [(0, 1, b"b"), (0, 2, b"c")]


def test_records_of_all_partitions_are_read_in_order_within_each() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    consumer.fill(0, b"a", b"b")
    consumer.fill(1, b"c", b"d")
    consumer.assign(ORDERS_0, ORDERS_1)
    assert sorted(consumer.take()) == [(0, 0, b"a"), (0, 1, b"b"), (1, 0, b"c"), (1, 1, b"d")]


def test_the_position_follows_what_was_taken_and_not_what_was_fetched() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    consumer.fill(0, b"a", b"b", b"c")
    consumer.assign(ORDERS_0)
    consumer.bench.advance(100)
    assert consumer.machine.position(ORDERS_0).value == 0
    consumer.take(2)
    assert consumer.machine.position(ORDERS_0).value == 2


def test_a_position_that_is_not_known_yet_is_promised() -> None:
    consumer = Consuming()
    consumer.fill(0, b"a", b"b")
    consumer.assign(ORDERS_0)
    consumer.machine.seek_to_time(ORDERS_0, LATEST)
    promise = consumer.machine.position(ORDERS_0)
    assert not promise.settled
    consumer.bench.turn()
    assert promise.value == 2


def test_after_a_seek_nothing_of_what_was_fetched_before_is_handed_out() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    consumer.fill(0, b"a", b"b", b"c")
    consumer.assign(ORDERS_0)
    consumer.bench.advance(100)
    consumer.machine.seek(ORDERS_0, 2)
    assert consumer.take() == [(0, 2, b"c")]
    consumer.machine.seek(ORDERS_0, 0)
    assert consumer.take(1) == [(0, 0, b"a")]


def test_a_fetch_that_was_under_way_when_somebody_sought_is_thrown_away() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    consumer.bench.held = lambda request: request.api_key is ApiKey.FETCH
    consumer.fill(0, b"a", b"b", b"c")
    consumer.assign(ORDERS_0)
    late = consumer.bench.waiting(ApiKey.FETCH)[0]
    consumer.machine.seek(ORDERS_0, 1)
    consumer.bench.answer(late)
    assert consumer.machine.take(10) == []
    consumer.bench.held = consumer.has_nothing_new
    consumer.bench.answer(consumer.bench.waiting(ApiKey.FETCH)[0])
    assert consumer.take() == [(0, 1, b"b"), (0, 2, b"c")]


def test_a_partition_that_is_paused_keeps_its_records() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    consumer.fill(0, b"a")
    consumer.fill(1, b"b")
    consumer.assign(ORDERS_0, ORDERS_1)
    consumer.machine.pause(ORDERS_0, paused=True)
    assert consumer.take() == [(1, 0, b"b")]
    consumer.machine.pause(ORDERS_0, paused=False)
    assert consumer.take() == [(0, 0, b"a")]


def test_those_that_stay_assigned_keep_their_position() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    consumer.fill(0, b"a", b"b")
    consumer.assign(ORDERS_0)
    consumer.take(1)
    consumer.assign(ORDERS_1, ORDERS_0)
    assert consumer.take() == [(0, 1, b"b")]
    consumer.assign(ORDERS_1)
    with pytest.raises(StateError, match="orders-0 is not assigned"):
        consumer.machine.seek(ORDERS_0, 0)


def transactions(log: ModelLog) -> None:
    """Committed by 1, aborted by 2, plain, and open by 3 behind the last stable offset."""
    append(log, [b"one"], producer_id=1, producer_epoch=0, is_transactional=True)
    first = append(log, [b"two"], producer_id=2, producer_epoch=0, is_transactional=True)
    mark(log, 1, committed=True)
    append(log, [b"plain"])
    mark(log, 2, committed=False)
    log.aborted = [AbortedTransaction(2, first)]
    log.last_stable_offset = append(log, [b"open"], producer_id=3, producer_epoch=0, is_transactional=True)


def test_read_committed_sees_neither_what_was_aborted_nor_what_is_open() -> None:
    """Scenarios 39 and 41, from the reader's side."""
    consumer = Consuming(auto_offset_reset="earliest", isolation_level="read_committed")
    transactions(consumer.cluster.log("orders"))
    consumer.assign(ORDERS_0)
    assert [value for _, _, value in consumer.take()] == [b"one", b"plain"]
    assert consumer.machine.position(ORDERS_0).value == 5


def test_read_uncommitted_sees_everything_but_the_markers() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    transactions(consumer.cluster.log("orders"))
    consumer.assign(ORDERS_0)
    assert [value for _, _, value in consumer.take()] == [b"one", b"two", b"plain", b"open"]


def test_a_position_moves_over_markers_at_the_end_of_the_log() -> None:
    """Scenario 72: whoever waits for the end must reach it."""
    consumer = Consuming(auto_offset_reset="earliest", isolation_level="read_committed")
    log = consumer.cluster.log("orders")
    append(log, [b"a"], producer_id=1, producer_epoch=0, is_transactional=True)
    mark(log, 1, committed=True)
    consumer.assign(ORDERS_0)
    assert len(consumer.take()) == 1
    assert consumer.machine.position(ORDERS_0).value == 2


def test_a_leader_that_moved_is_followed() -> None:
    consumer = Consuming(ModelCluster(nodes=2, topics={"orders": 1}), auto_offset_reset="earliest")
    consumer.fill(0, b"a")
    consumer.assign(ORDERS_0)
    assert consumer.take() == [(0, 0, b"a")]
    consumer.cluster.move_leader("orders", 0, 2)
    consumer.fill(0, b"b")
    consumer.bench.advance(2_000)
    assert consumer.take() == [(0, 1, b"b")]


def test_an_offset_that_the_log_no_longer_has_is_reset() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    consumer.fill(0, b"a", b"b", b"c").start_offset = 2
    consumer.assign(ORDERS_0)
    consumer.machine.seek(ORDERS_0, 0)
    consumer.bench.advance(1_000)
    assert consumer.take() == [(0, 2, b"c")]


def test_a_seek_after_the_answer_that_an_offset_is_missing_is_not_undone() -> None:
    """The answer and the seek come within the same turn of the loop; the answer is about the offset before."""
    consumer = Consuming(auto_offset_reset="latest")
    consumer.fill(0, b"a", b"b", b"c").start_offset = 1
    is_held, consumer.bench.held = consumer.bench.held, lambda request: request.api_key is ApiKey.FETCH
    consumer.machine.assign([ORDERS_0], 0.0)
    consumer.machine.seek(ORDERS_0, 0)
    consumer.bench.turn()
    (fetch,) = consumer.bench.waiting(ApiKey.FETCH)
    consumer.bench.answer(fetch, turn=False)
    consumer.machine.seek(ORDERS_0, 1)
    consumer.bench.held = is_held
    assert consumer.take() == [(0, 1, b"b"), (0, 2, b"c")]


def test_without_auto_offset_reset_a_missing_offset_is_an_error_that_says_where() -> None:
    consumer = Consuming(auto_offset_reset="none")
    consumer.fill(0, b"a", b"b").start_offset = 1
    consumer.assign(ORDERS_0)
    consumer.bench.turn()
    with pytest.raises(AbortableError, match="orders-0 has no position"):
        consumer.machine.take(10)
    consumer.machine.seek(ORDERS_0, 0)
    consumer.bench.advance(500)
    with pytest.raises(AbortableError, match="orders-0 has no record at offset 0"):
        consumer.machine.take(10)
    consumer.machine.seek(ORDERS_0, 1)
    assert consumer.take() == [(0, 1, b"b")]


def test_a_batch_whose_checksum_is_wrong_is_an_error_and_nothing_is_skipped() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    log = consumer.fill(0, b"a", b"b", b"c")
    sound = log.batches[1]
    log.batches[1] = sound[:-2] + b"x" + sound[-1:]
    consumer.assign(ORDERS_0)
    assert consumer.take() == [(0, 0, b"a")]
    consumer.bench.advance(1_000)
    with pytest.raises(DecodeError, match="batch at offset 1 fails its checksum"):
        consumer.take()
    assert consumer.machine.position(ORDERS_0).value == 1
    log.batches[1] = sound
    consumer.machine.seek(ORDERS_0, 1)
    assert consumer.take() == [(0, 1, b"b"), (0, 2, b"c")]


def test_checksums_can_be_passed_over() -> None:
    consumer = Consuming(auto_offset_reset="earliest", check_crcs=False)
    log = consumer.fill(0, b"abc")
    log.batches[0] = log.batches[0][:-2] + b"X" + log.batches[0][-1:]
    consumer.assign(ORDERS_0)
    assert consumer.take() == [(0, 0, b"abX")]


def test_a_topic_that_may_not_be_read_is_an_error() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    consumer.cluster.topic_errors["orders"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    consumer.assign(ORDERS_0)
    with pytest.raises(AbortableError, match="TOPIC_AUTHORIZATION_FAILED"):
        consumer.take()


class OffsetsNotGiven(ModelCluster):
    """Its brokers refuse to look up offsets, until they are allowed to."""

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def _list_offsets(self, request: Any) -> ListOffsetsResponse:
        response = super()._list_offsets(request)
        for topic in response.topics:
            for answer in topic.partitions:
                answer.error_code = self.code
        return response


def test_a_lookup_that_is_refused_is_an_error_and_is_tried_again_after_pauses() -> None:
    cluster = OffsetsNotGiven(topics={"orders": 2})
    consumer = Consuming(cluster, auto_offset_reset="earliest")
    consumer.fill(0, b"a")
    consumer.assign(ORDERS_0)
    consumer.bench.advance(10_000)
    assert 10 < len(consumer.bench.requests(ApiKey.LIST_OFFSETS)) < 20
    with pytest.raises(AbortableError, match="TOPIC_AUTHORIZATION_FAILED"):
        consumer.take()
    cluster.code = ErrorCode.NONE
    consumer.bench.advance(1_000)
    assert consumer.take() == [(0, 0, b"a")]


def test_no_more_is_fetched_ahead_than_two_answers() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    consumer.bench.held = lambda request: request.api_key is ApiKey.FETCH
    consumer.fill(0, b"a")
    consumer.assign(ORDERS_0)
    for value in (b"b", b"c"):
        consumer.bench.answer(consumer.bench.waiting(ApiKey.FETCH)[0])
        append(consumer.cluster.log("orders"), [value])
    assert consumer.bench.waiting(ApiKey.FETCH) == []
    assert len(consumer.bench.requests(ApiKey.FETCH)) == 2
    consumer.machine.take(1)
    consumer.bench.turn()
    assert len(consumer.bench.requests(ApiKey.FETCH)) == 2, "one was taken of an answer, which is not used up yet"
    consumer.machine.take(1)
    consumer.bench.turn()
    assert len(consumer.bench.requests(ApiKey.FETCH)) == 3


def test_offsets_are_found_by_time() -> None:
    consumer = Consuming()
    consumer.fill(0, b"a", b"b").start_offset = 1
    promise = consumer.machine.find_offsets({ORDERS_0: EARLIEST, ORDERS_1: LATEST}, 0.0)
    consumer.bench.advance(1_000)
    assert promise.value == {ORDERS_0: OffsetAndTimestamp(1, None), ORDERS_1: OffsetAndTimestamp(0, None)}


def test_a_leader_that_does_not_answer_is_asked_again() -> None:
    consumer = Consuming(ModelCluster(nodes=2, topics={"orders": 2}))
    consumer.assign(ORDERS_0, ORDERS_1)
    consumer.bench.advance(100)
    consumer.cluster.move_leader("orders", 1, 1)
    promise = consumer.machine.find_offsets({ORDERS_0: LATEST, ORDERS_1: LATEST}, consumer.bench.now_ms)
    consumer.bench.advance(5_000)
    assert promise.settled
    assert promise.error is None


def test_a_reader_is_woken_when_there_is_something_to_read() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    consumer.assign(ORDERS_0)
    consumer.bench.advance(100)
    promise = consumer.machine.readable()
    assert not promise.settled
    consumer.fill(0, b"a")
    consumer.bench.turn()
    assert promise.settled


def test_a_partition_that_comes_back_is_not_given_what_was_fetched_for_it_before() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    consumer.cluster.log("orders").batches.append(
        build_batch([Record(index, 7, None, b"%d" % index) for index in range(3)], base_offset=0)
    )
    consumer.cluster.log("orders").values += [b"0", b"1", b"2"]
    consumer.assign(ORDERS_0)
    assert consumer.take(1) == [(0, 0, b"0")]
    consumer.machine.assign((), consumer.bench.now_ms)
    consumer.assign(ORDERS_0)
    assert consumer.take() == [(0, 0, b"0"), (0, 1, b"1"), (0, 2, b"2")]
