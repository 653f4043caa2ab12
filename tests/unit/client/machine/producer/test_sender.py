"""How batches become requests: lingering, sizes, fairness, pipelining, retries."""

from __future__ import annotations

from itertools import pairwise

import pytest

from semel.errors import AbortableError, AuthorizationFailed, ErrorCode, RetriableError, TimedOut
from semel.wire.apis import ApiKey
from semel.wire.records import iterate_records, parse_header
from tests.unit.client.machine.machine_bench import Request
from tests.unit.client.machine.model_cluster import ModelCluster
from tests.unit.client.machine.producer.producers import Producing, producing


def values_of(request: Request) -> list[bytes | None]:
    return [
        record.value
        for topic in request.message.topic_data
        for partition in topic.partition_data
        for record in iterate_records(partition.records)
    ]


def numbers_of(request: Request) -> tuple[int, int, int]:
    header = parse_header(request.message.topic_data[0].partition_data[0].records)
    return header.producer_id, header.producer_epoch, header.base_sequence


def hold_produce(producer: Producing) -> None:
    producer.bench.held = lambda request: request.api_key is ApiKey.PRODUCE


def warmed_up(**settings: object) -> Producing:
    """A producer whose first batch is acknowledged, and whose Produce requests wait for the test from now on."""
    producer = producing(**settings)
    producer.send(b"first")
    assert producer.offsets == {b"first": 0}
    hold_produce(producer)
    return producer


def test_a_record_is_written_and_its_sender_told_where() -> None:
    producer = producing()
    producer.send(b"a")
    producer.send(b"b")
    assert producer.offsets == {b"a": 0, b"b": 1}
    assert producer.cluster.log("orders").values == [b"a", b"b"]


def test_records_linger_for_company_and_then_leave_together() -> None:
    producer = producing(linger_ms=20)
    producer.advance(1000)
    producer.send(b"a")
    producer.advance(10)
    producer.send(b"b")
    assert producer.bench.requests(ApiKey.PRODUCE) == []
    producer.advance(10)
    assert [values_of(request) for request in producer.bench.requests(ApiKey.PRODUCE)] == [[b"a", b"b"]]


def test_a_full_batch_does_not_linger() -> None:
    producer = producing(linger_ms=10_000, batch_size=200)
    producer.advance(1000)
    for number in range(8):
        producer.send(b"%d" % number + bytes(30))
    assert len(producer.bench.requests(ApiKey.PRODUCE)) == 2
    assert all(len(values_of(request)) == 3 for request in producer.bench.requests(ApiKey.PRODUCE))


def test_flush_does_not_linger() -> None:
    producer = producing(linger_ms=10_000)
    producer.send(b"a")
    promise = producer.machine.flush()
    producer.turn()
    assert promise.settled
    assert producer.offsets == {b"a": 0}


def test_flush_waits_for_what_was_there_and_not_for_what_comes_later() -> None:
    producer = warmed_up()
    producer.send(b"a")
    promise = producer.machine.flush()
    producer.send(b"b")
    first, second = producer.bench.waiting(ApiKey.PRODUCE)
    producer.bench.answer(first)
    assert promise.settled
    producer.bench.answer(second)


def test_flush_waits_for_records_that_wait_for_their_topic() -> None:
    producer = producing()
    producer.bench.held = lambda request: request.api_key is ApiKey.METADATA
    producer.send(b"a")
    promise = producer.machine.flush()
    producer.turn()
    assert not promise.settled
    producer.bench.release()
    producer.settle()
    assert promise.settled
    assert producer.offsets == {b"a": 0}


def test_five_requests_are_under_way_at_once_and_no_more() -> None:
    producer = warmed_up()
    for number in range(7):
        producer.send(b"%d" % number)
    assert len(producer.bench.waiting(ApiKey.PRODUCE)) == 5
    producer.bench.answer(producer.bench.waiting(ApiKey.PRODUCE)[0])
    assert len(producer.bench.waiting(ApiKey.PRODUCE)) == 5


def test_until_a_broker_knows_the_producer_one_batch_is_under_way() -> None:
    """Scenario 5: a broker without state takes any first sequence, so the second batch must not be able to be first."""
    producer = producing()
    hold_produce(producer)
    for number in range(3):
        producer.send(b"%d" % number)
    assert len(producer.bench.waiting(ApiKey.PRODUCE)) == 1
    producer.bench.answer(producer.bench.waiting(ApiKey.PRODUCE)[0])
    assert [values_of(request) for request in producer.bench.waiting(ApiKey.PRODUCE)] == [[b"1", b"2"]]


def test_partitions_of_one_broker_share_requests_and_nobody_is_starved() -> None:
    cluster = ModelCluster(topics={"orders": 4})
    producer = producing(cluster, max_request_size=300, batch_size=100)
    for partition in range(4):
        producer.send(b"first-%d" % partition, partition=partition)
    hold_produce(producer)
    for round_number in range(3):
        for partition in range(4):
            producer.send(b"%d-%d" % (partition, round_number) + bytes(60), partition=partition, turn=False)
    producer.turn()
    order: list[int] = []
    while producer.bench.waiting(ApiKey.PRODUCE):
        request = producer.bench.waiting(ApiKey.PRODUCE)[0]
        order += [data.index for data in request.message.topic_data[0].partition_data]
        producer.bench.answer(request)
    assert len(order) == 12
    for start in range(0, 12, 4):
        assert sorted(order[start : start + 4]) == [0, 1, 2, 3], f"one partition was served twice in {order}"


def test_a_request_is_not_larger_than_max_request_size() -> None:
    cluster = ModelCluster(topics={"orders": 6})
    producer = producing(cluster, max_request_size=400, batch_size=150)
    producer.advance(10)
    for partition in range(6):
        producer.send(bytes(100), partition=partition, turn=False)
    producer.bench.turn()
    assert [
        len(request.message.topic_data[0].partition_data) for request in producer.bench.requests(ApiKey.PRODUCE)
    ] == [
        2,
        2,
        2,
    ]


def test_a_lost_answer_is_repeated_with_the_same_numbers_and_written_once() -> None:
    """Scenario 1."""
    producer = warmed_up()
    producer.send(b"a")
    request = producer.bench.waiting(ApiKey.PRODUCE)[0]
    producer.cluster.answer(request)  # Written, but nobody hears of it.
    producer.bench.drop_connection(request.connection)
    producer.bench.release()
    producer.advance(1_000)
    again = producer.bench.requests(ApiKey.PRODUCE)[-1]
    assert numbers_of(again) == numbers_of(request)
    assert producer.cluster.log("orders").values == [b"first", b"a"]
    assert producer.offsets == {b"first": 0, b"a": 1}


def with_the_first_refused(count: int) -> Producing:
    """So many batches are under way, and the first is refused for a moment."""
    producer = warmed_up()
    for number in range(count):
        producer.send(b"%d" % number)
    producer.cluster.log("orders").refuse_with = [ErrorCode.NOT_ENOUGH_REPLICAS]
    for request in producer.bench.waiting(ApiKey.PRODUCE):
        producer.bench.answer(request)
    return producer


def test_batches_behind_one_that_failed_for_a_moment_arrive_in_order() -> None:
    """Scenario 6: the first of several batches under way is refused; the others come back out of order, and wait."""
    producer = with_the_first_refused(4)
    producer.bench.release()
    producer.advance(5_000)
    assert producer.cluster.log("orders").values == [b"first", b"0", b"1", b"2", b"3"]
    assert producer.offsets == {b"first": 0, b"0": 1, b"1": 2, b"2": 3, b"3": 4}


def test_a_retried_batch_waits_for_its_predecessors() -> None:
    producer = with_the_first_refused(3)
    producer.advance(200)
    producer.send(b"new")
    assert [values_of(request) for request in producer.bench.waiting(ApiKey.PRODUCE)] == [[b"0"]]


def test_new_batches_wait_while_one_is_to_be_sent_again() -> None:
    producer = warmed_up()
    producer.send(b"a")
    producer.cluster.log("orders").refuse_with = [ErrorCode.NOT_ENOUGH_REPLICAS]
    producer.bench.answer(producer.bench.waiting(ApiKey.PRODUCE)[0])
    producer.send(b"b")
    assert producer.bench.waiting(ApiKey.PRODUCE) == []


def test_retries_back_off_from_retry_backoff_ms_to_its_maximum() -> None:
    producer = warmed_up(retry_backoff_ms=100, retry_backoff_max_ms=400)
    producer.cluster.log("orders").refuse_with = [ErrorCode.NOT_ENOUGH_REPLICAS] * 6
    producer.bench.release()
    producer.send(b"a")
    producer.advance(10_000)
    moments = [request.at_ms for request in producer.bench.requests(ApiKey.PRODUCE)][1:]
    pauses = [later - earlier for earlier, later in pairwise(moments)]
    assert len(pauses) == 6
    for pause, expected in zip(pauses, (100, 200, 400, 400, 400, 400), strict=True):
        assert 0.8 * expected <= pause <= min(1.2 * expected, 400)


def test_retries_limits_how_often_a_batch_is_sent() -> None:
    producer = producing(retries=2, retry_backoff_ms=1)
    producer.cluster.log("orders").refuse_with = [ErrorCode.NOT_ENOUGH_REPLICAS] * 10
    producer.send(b"a")
    producer.advance(1_000)
    assert len(producer.bench.requests(ApiKey.PRODUCE)) == 3
    assert isinstance(producer.errors[b"a"], RetriableError)


def test_a_record_that_is_not_acknowledged_in_time_fails_and_says_that_it_may_have_been_written() -> None:
    producer = warmed_up(delivery_timeout_ms=5_000, request_timeout_ms=4_000)
    producer.send(b"a")
    producer.advance(4_999)
    assert b"a" not in producer.errors
    producer.advance(1)
    assert isinstance(producer.errors[b"a"], TimedOut)
    assert "may have been written" in str(producer.errors[b"a"])
    assert "delivery.timeout.ms (5000 ms)" in str(producer.errors[b"a"])


def test_a_record_that_was_refused_until_its_time_was_over_says_with_what() -> None:
    producer = warmed_up(delivery_timeout_ms=5_000, request_timeout_ms=4_000)
    producer.cluster.log("orders").refuse_with = [ErrorCode.KAFKA_STORAGE_ERROR] * 1000
    producer.bench.release()
    producer.send(b"a")
    producer.advance(5_000)
    assert isinstance(producer.errors[b"a"], TimedOut)
    assert "attempts; the last one ended with KAFKA_STORAGE_ERROR" in str(producer.errors[b"a"])


def test_a_record_that_never_left_fails_as_not_written() -> None:
    producer = warmed_up(delivery_timeout_ms=5_000, request_timeout_ms=4_000)
    producer.bench.refusing = {1}
    for connection in tuple(producer.bench.connections):
        producer.bench.drop_connection(connection)
    producer.send(b"a")
    producer.advance(5_000)
    assert "1 records to orders-0 not written" in str(producer.errors[b"a"])


def test_a_batch_that_is_too_large_for_the_broker_is_split_and_keeps_its_sequences() -> None:
    producer = warmed_up()
    for number in range(4):
        producer.send(b"%d" % number, turn=False)
    producer.cluster.log("orders").refuse_with = [ErrorCode.MESSAGE_TOO_LARGE]
    producer.bench.release()
    producer.advance(100)
    _, whole, *halves = producer.bench.requests(ApiKey.PRODUCE)
    assert [values_of(half) for half in halves] == [[b"0", b"1"], [b"2", b"3"]]
    producer_id, epoch, sequence = numbers_of(whole)
    assert [numbers_of(half) for half in halves] == [
        (producer_id, epoch, sequence),
        (producer_id, epoch, sequence + 2),
    ]
    assert producer.cluster.log("orders").values == [b"first", b"0", b"1", b"2", b"3"]
    assert [producer.offsets[b"%d" % number] for number in range(4)] == [1, 2, 3, 4]


def test_a_single_record_that_is_too_large_fails_and_the_others_go_on() -> None:
    producer = warmed_up()
    producer.send(b"a")
    producer.send(b"b")
    producer.cluster.log("orders").refuse_with = [ErrorCode.MESSAGE_TOO_LARGE]
    for request in producer.bench.waiting(ApiKey.PRODUCE):
        producer.bench.answer(request)
    producer.bench.release()
    producer.advance(5_000)
    assert isinstance(producer.errors[b"a"], AbortableError)
    assert "max.message.bytes" in str(producer.errors[b"a"])
    assert producer.cluster.log("orders").values == [b"first", b"b"]
    assert numbers_of(producer.bench.requests(ApiKey.PRODUCE)[-1]) == (1, 1, 0), "b begins a new epoch"


def test_unresolved_sequences_bump_the_epoch() -> None:
    """KIP-360: nobody knows whether the batch was written; what comes next must not depend on it."""
    producer = warmed_up(delivery_timeout_ms=3_000, request_timeout_ms=2_000)
    producer.send(b"a")
    producer.advance(3_000)
    assert isinstance(producer.errors[b"a"], TimedOut)
    producer.send(b"b")
    producer.bench.release()
    producer.advance(5_000)
    assert numbers_of(producer.bench.requests(ApiKey.PRODUCE)[-1]) == (1, 1, 0)
    assert producer.offsets[b"b"] == len(producer.cluster.log("orders").values) - 1


def test_what_was_numbered_behind_a_record_that_timed_out_cannot_be_written_without_it() -> None:
    """Found by the simulation. It is in doubt, too, so it is not numbered anew; what comes later is, and goes on."""
    producer = warmed_up(delivery_timeout_ms=3_000, request_timeout_ms=2_000)
    producer.send(b"a")
    producer.advance(1_000)
    producer.send(b"b")
    producer.bench.drop_connection(producer.bench.waiting(ApiKey.PRODUCE)[0].connection)
    producer.advance(2_000)
    assert isinstance(producer.errors[b"a"], TimedOut)
    producer.bench.drop_connection(producer.bench.waiting(ApiKey.PRODUCE)[0].connection)
    producer.bench.release()
    producer.advance(900)
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in str(producer.errors[b"b"])
    assert "may have been written" in str(producer.errors[b"b"])
    producer.send(b"c")
    producer.advance(1_000)
    assert producer.cluster.log("orders").values == [b"first", b"c"]
    assert numbers_of(producer.bench.requests(ApiKey.PRODUCE)[-1]) == (1, 1, 0)


def test_an_acknowledgement_that_comes_after_all_resolves_the_sequences() -> None:
    producer = warmed_up(delivery_timeout_ms=3_000, request_timeout_ms=2_000)
    producer.send(b"a")
    producer.advance(3_000)
    assert isinstance(producer.errors[b"a"], TimedOut)
    producer.bench.release()
    producer.send(b"b")
    assert numbers_of(producer.bench.requests(ApiKey.PRODUCE)[-1]) == (1, 0, 2)
    assert producer.cluster.log("orders").values == [b"first", b"a", b"b"]


def test_an_epoch_that_is_used_up_is_followed_by_a_new_producer_id() -> None:
    producer = warmed_up(delivery_timeout_ms=3_000, request_timeout_ms=2_000)
    producer_id = producer.machine._producer_id
    assert producer_id is not None
    queue = producer.machine._accumulator.queue(next(iter(producer.cluster.logs)))
    last = producer_id.identity()._replace(producer_epoch=2**15 - 1)  # type: ignore[union-attr]
    producer_id._identity = queue.sequences.identity = last
    producer.send(b"a")
    producer.advance(3_000)
    producer.send(b"b")
    producer.bench.release()
    producer.advance(5_000)
    assert numbers_of(producer.bench.requests(ApiKey.PRODUCE)[-1]) == (2, 0, 0)


def test_a_broker_that_lost_the_producer_s_state_gets_the_batch_under_a_new_epoch() -> None:
    producer = warmed_up()
    producer.cluster.log("orders").refuse_with = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    producer.bench.release()
    producer.send(b"a")
    producer.advance(1_000)
    assert producer.cluster.log("orders").values == [b"first", b"a"]
    assert numbers_of(producer.bench.requests(ApiKey.PRODUCE)[-1]) == (1, 1, 0)


def test_a_batch_in_doubt_is_never_numbered_anew() -> None:
    """redpanda #3039: it may be in the log; under another epoch it would be there twice."""
    producer = warmed_up()
    producer.send(b"a")
    request = producer.bench.waiting(ApiKey.PRODUCE)[0]
    producer.bench.drop_connection(request.connection)
    producer.cluster.log("orders").refuse_with = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    producer.bench.release()
    producer.advance(2_000)
    assert "may have been written" in str(producer.errors[b"a"])
    assert {numbers_of(request) for request in producer.bench.requests(ApiKey.PRODUCE)[1:]} == {(1, 0, 1)}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_an_answer_that_does_not_rule_out_a_write_leaves_the_batch_in_doubt(code: ErrorCode) -> None:
    """KAFKA-13574, KAFKA-14034."""
    producer = warmed_up()
    producer.send(b"a")
    producer.cluster.log("orders").refuse_with = [code, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    producer.bench.release()
    producer.advance(2_000)
    assert "may have been written" in str(producer.errors[b"a"])
    assert {numbers_of(request) for request in producer.bench.requests(ApiKey.PRODUCE)[1:]} == {(1, 0, 1)}


def test_batches_that_lost_their_numbers_keep_their_order() -> None:
    producer = warmed_up()
    for number in range(3):
        producer.send(b"%d" % number)
    first, second, third = producer.bench.waiting(ApiKey.PRODUCE)
    refuse = producer.cluster.log("orders").refuse_with
    refuse += [ErrorCode.NOT_ENOUGH_REPLICAS]
    for request in (first, second, third):
        producer.bench.answer(request)
    # The two behind it came too early and wait; now the first one is disowned, and they must not go before it.
    refuse += [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    producer.bench.release()
    producer.advance(2_000)
    assert [
        (values_of(request), numbers_of(request)[1:]) for request in producer.bench.requests(ApiKey.PRODUCE)[5:]
    ] == [
        ([b"0"], (1, 0)),
        ([b"1"], (1, 1)),
        ([b"2"], (1, 2)),
    ]
    assert producer.cluster.log("orders").values == [b"first", b"0", b"1", b"2"]


def test_a_partition_takes_on_a_new_epoch_only_when_the_old_one_is_settled_there() -> None:
    """Else a batch of the old epoch that has to be sent again would be fenced by our own newer one."""
    producer = warmed_up_on_two_partitions()
    producer.send(b"a", partition=0)
    producer.send(b"b", partition=1)
    refused, other = producer.bench.waiting(ApiKey.PRODUCE)
    producer.cluster.log("orders", 0).refuse_with = [ErrorCode.INVALID_RECORD]
    producer.bench.answer(refused)
    producer.send(b"c", partition=0)
    producer.send(b"d", partition=1)
    assert [values_of(request) for request in producer.bench.waiting(ApiKey.PRODUCE)] == [[b"b"], [b"c"]]
    assert numbers_of(producer.bench.waiting(ApiKey.PRODUCE)[1])[1:] == (1, 0)
    producer.bench.answer(other)
    assert [values_of(request) for request in producer.bench.waiting(ApiKey.PRODUCE)] == [[b"c"], [b"d"]]
    assert numbers_of(producer.bench.waiting(ApiKey.PRODUCE)[1])[1:] == (1, 0)


def warmed_up_on_two_partitions() -> Producing:
    producer = producing(ModelCluster(topics={"orders": 2}))
    for partition in range(2):
        producer.send(b"first-%d" % partition, partition=partition)
    hold_produce(producer)
    return producer


def test_a_duplicate_that_the_broker_remembers_no_more_counts_as_written() -> None:
    """Scenario 2: older than the five batches that a broker remembers."""
    producer = warmed_up()
    producer.cluster.log("orders").refuse_with = [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
    producer.send(b"a")
    producer.bench.answer(producer.bench.waiting(ApiKey.PRODUCE)[0])
    producer.settle()
    assert producer.offsets[b"a"] is None


def test_without_acknowledgements_a_record_is_settled_when_it_is_sent() -> None:
    producer = producing(acks=0)
    producer.send(b"a")
    assert producer.offsets == {b"a": None}
    assert producer.cluster.log("orders").values == [b"a"]


def test_without_idempotence_batches_have_no_numbers() -> None:
    producer = producing(enable_idempotence=False)
    producer.send(b"a")
    assert numbers_of(producer.bench.requests(ApiKey.PRODUCE)[0]) == (-1, -1, -1)
    assert producer.bench.requests(ApiKey.INIT_PRODUCER_ID) == []


def test_sequences_wrap_from_the_largest_number_to_zero() -> None:
    """Scenario 4."""
    producer = warmed_up()
    sequences = producer.machine._accumulator.queue(next(iter(producer.cluster.logs))).sequences
    sequences.next_sequence = sequences.acknowledged_end = 2**31 - 1
    remembered = producer.cluster.log("orders").remembered[1][-1]
    remembered.first = remembered.last = 2**31 - 2
    producer.bench.release()
    for value in (b"a", b"b"):
        producer.send(value)
    assert [numbers_of(request)[2] for request in producer.bench.requests(ApiKey.PRODUCE)[1:]] == [2**31 - 1, 0]
    assert producer.offsets == {b"first": 0, b"a": 1, b"b": 2}


def test_a_producer_that_has_failed_for_good_says_so_when_it_is_asked_for_a_topic() -> None:
    producer = producing()
    producer.machine.refused("the password is wrong")
    producer.turn()
    promise = producer.machine.know_topic("another", producer.bench.now_ms)
    producer.turn()
    assert isinstance(promise.error, AuthorizationFailed)
