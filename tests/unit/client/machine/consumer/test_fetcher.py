"""How a consumer fetches: how much, from whom, in sessions, and what it does when a leader has another log."""

from __future__ import annotations

from typing import Any

import pytest

from semel.client.machine.consumer.positions import Position
from semel.errors import AbortableError, DecodeError, ErrorCode
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from semel.wire.records import Record, build_batch
from tests.unit.client.machine.consumer.test_consumer import ORDERS_0, ORDERS_1, Consuming, append, mark
from tests.unit.client.machine.machine_bench import Request
from tests.unit.client.machine.model_cluster import ModelCluster


def asked(request: Request) -> dict[int, int]:
    """Offsets by partition."""
    return {one.partition: one.fetch_offset for topic in request.message.topics for one in topic.partitions}


def holding_fetches(consumer: Consuming) -> Consuming:
    consumer.bench.held = lambda request: request.api_key is ApiKey.FETCH
    return consumer


def position_of(consumer: Consuming, topic_partition: TopicPartition = ORDERS_0) -> Position:
    return consumer.machine._positions[topic_partition]


# Sessions


def answer_in_session(consumer: Consuming, *data: PartitionData, session_id: int = 5, code: int = 0) -> None:
    topic = FetchableTopicResponse("orders", consumer.cluster.topic_id("orders"), list(data))
    response = FetchResponse(session_id=session_id, error_code=code, responses=[topic] if data else [])
    consumer.bench.answer(consumer.bench.waiting(ApiKey.FETCH)[0], response)


def nothing(partition: int) -> PartitionData:
    return PartitionData(partition, high_watermark=0, last_stable_offset=0, log_start_offset=0, records=b"")


def test_within_a_session_only_what_has_changed_is_asked_and_silence_is_an_answer() -> None:
    consumer = holding_fetches(Consuming(auto_offset_reset="earliest"))
    consumer.assign(ORDERS_0, ORDERS_1)
    assert asked(consumer.bench.waiting(ApiKey.FETCH)[0]) == {0: 0, 1: 0}
    answer_in_session(consumer, nothing(0), nothing(1))
    second = consumer.bench.waiting(ApiKey.FETCH)[0]
    assert (second.message.session_id, second.message.session_epoch, asked(second)) == (5, 1, {})
    records = build_batch([Record(0, 7, None, b"a")], base_offset=0)
    answer_in_session(consumer, PartitionData(1, high_watermark=1, last_stable_offset=1, records=records))
    third = consumer.bench.waiting(ApiKey.FETCH)[0]
    assert (third.message.session_epoch, asked(third)) == (2, {1: 1})


def test_a_partition_that_is_paused_leaves_the_session_and_comes_back() -> None:
    consumer = holding_fetches(Consuming(auto_offset_reset="earliest"))
    consumer.assign(ORDERS_0, ORDERS_1)
    consumer.machine.pause(ORDERS_1, paused=True)
    answer_in_session(consumer, nothing(0), nothing(1))
    second = consumer.bench.waiting(ApiKey.FETCH)[0]
    assert [topic.partitions for topic in second.message.forgotten_topics_data] == [[1]]
    consumer.machine.pause(ORDERS_1, paused=False)
    answer_in_session(consumer)
    assert asked(consumer.bench.waiting(ApiKey.FETCH)[0]) == {1: 0}


@pytest.mark.parametrize("code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
def test_a_session_that_the_broker_does_not_know_is_begun_anew_at_once(code: ErrorCode) -> None:
    consumer = holding_fetches(Consuming(auto_offset_reset="earliest"))
    consumer.assign(ORDERS_0, ORDERS_1)
    answer_in_session(consumer, nothing(0), nothing(1))
    answer_in_session(consumer, code=code, session_id=0)
    anew = consumer.bench.waiting(ApiKey.FETCH)[0]
    assert (anew.message.session_epoch, asked(anew)) == (0, {0: 0, 1: 0})


def test_a_session_does_not_survive_a_fetch_that_was_lost() -> None:
    consumer = holding_fetches(Consuming(auto_offset_reset="earliest"))
    consumer.assign(ORDERS_0, ORDERS_1)
    answer_in_session(consumer, nothing(0), nothing(1))
    consumer.bench.drop_connection(consumer.bench.waiting(ApiKey.FETCH)[0].connection)
    consumer.bench.advance(1_000)
    anew = consumer.bench.waiting(ApiKey.FETCH)[0]
    assert (anew.message.session_id, anew.message.session_epoch, asked(anew)) == (5, 0, {0: 0, 1: 0})


def test_an_old_broker_is_asked_without_sessions() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    consumer.cluster.versions[ApiKey.FETCH] = (4, 6)
    consumer.fill(0, b"a")
    consumer.assign(ORDERS_0)
    assert consumer.take() == [(0, 0, b"a")]
    assert {request.version for request in consumer.bench.requests(ApiKey.FETCH)} == {6}


# How much


def test_brokers_share_what_may_be_held_ready() -> None:
    consumer = holding_fetches(
        Consuming(ModelCluster(nodes=2, topics={"orders": 2}), auto_offset_reset="earliest", fetch_max_bytes=1_000)
    )
    consumer.assign(ORDERS_0, ORDERS_1)
    consumer.bench.advance(100)
    assert [request.message.max_bytes for request in consumer.bench.waiting(ApiKey.FETCH)] == [500, 500]


def test_nothing_more_is_asked_while_as_much_is_ready_as_may_be() -> None:
    consumer = Consuming(auto_offset_reset="earliest", fetch_max_bytes=150)
    consumer.fill(0, b"x" * 200)
    consumer.fill(1, b"y")
    consumer.assign(ORDERS_0)
    consumer.bench.advance(100)
    consumer.assign(ORDERS_0, ORDERS_1)
    consumer.bench.advance(100)
    assert len(consumer.bench.requests(ApiKey.FETCH)) == 1
    assert [offset for _, offset, _ in consumer.take()] == [0]
    assert consumer.take() == [(1, 0, b"y")]


def test_a_limit_of_no_bytes_brings_one_batch_at_a_time() -> None:
    consumer = Consuming(auto_offset_reset="earliest", fetch_max_bytes=0, max_partition_fetch_bytes=0)
    consumer.fill(0, b"a", b"b")
    consumer.assign(ORDERS_0)
    assert [value for _, _, value in consumer.take()] == [b"a", b"b"]


def test_what_paused_partitions_hold_is_kept_and_does_not_stop_the_others() -> None:
    consumer = Consuming(auto_offset_reset="earliest", fetch_max_bytes=150)
    consumer.fill(0, b"x" * 200)
    consumer.assign(ORDERS_0, ORDERS_1)
    consumer.bench.advance(100)
    consumer.machine.pause(ORDERS_0, paused=True)
    consumer.fill(1, b"y")
    consumer.bench.advance(600)
    assert consumer.take() == [(1, 0, b"y")]
    consumer.machine.pause(ORDERS_0, paused=False)
    before = len(consumer.bench.requests(ApiKey.FETCH))
    assert [record.offset for record in consumer.machine.take(10)] == [0]
    assert len(consumer.bench.requests(ApiKey.FETCH)) == before, "it was kept, not fetched again"


def test_a_partition_that_brought_records_stands_behind_the_others_next_time() -> None:
    consumer = holding_fetches(Consuming(auto_offset_reset="earliest"))
    append(consumer.cluster.log("orders"), [b"a"])
    consumer.assign(ORDERS_0, ORDERS_1)
    for order in ([0, 1], [1, 0]):
        request = consumer.bench.waiting(ApiKey.FETCH)[0]
        assert list(asked(request)) == order
        consumer.bench.answer(request)


def test_a_consumer_that_is_sent_to_a_replica_nearby_goes_on_reading_the_leader() -> None:
    """KIP-392: the leader answers without records, as long as it is told a rack."""
    consumer = Consuming(auto_offset_reset="earliest", client_rack="here")
    consumer.cluster.replica_nearby = 9
    consumer.fill(0, b"a")
    consumer.assign(ORDERS_0)
    assert consumer.take() == [(0, 0, b"a")]
    assert [request.message.rack_id for request in consumer.bench.requests(ApiKey.FETCH)[:2]] == ["here", ""]


def test_bytes_that_are_no_batch_are_an_error_and_are_not_asked_for_without_a_pause() -> None:
    consumer = Consuming(auto_offset_reset="earliest")
    consumer.cluster._fetched = lambda request, partition, asked: PartitionData(0, records=b"cut")  # type: ignore[method-assign]
    consumer.assign(ORDERS_0)
    with pytest.raises(DecodeError, match="3 bytes at offset 0 hold no whole batch"):
        consumer.take()
    assert len(consumer.bench.requests(ApiKey.FETCH)) < 10


def test_a_fetch_for_a_partition_that_was_taken_away_meanwhile_counts_for_nothing() -> None:
    consumer = holding_fetches(Consuming(auto_offset_reset="earliest"))
    append(consumer.cluster.log("orders"), [b"a", b"b"])
    consumer.assign(ORDERS_0, ORDERS_1)
    consumer.assign(ORDERS_1)
    consumer.bench.answer(consumer.bench.waiting(ApiKey.FETCH)[0])
    assert consumer.machine.take(10) == []


@pytest.mark.parametrize("is_here_already", [True, False])
def test_a_partition_that_comes_back_is_not_given_what_was_fetched_for_it_before(is_here_already: bool) -> None:
    consumer = holding_fetches(Consuming(auto_offset_reset="earliest"))
    append(consumer.cluster.log("orders"), [b"a"])
    append(consumer.cluster.log("orders"), [b"b"])
    consumer.assign(ORDERS_0)
    late = consumer.bench.waiting(ApiKey.FETCH)[0]
    if is_here_already:
        consumer.bench.answer(late)
    consumer.machine.assign([], consumer.bench.now_ms)
    consumer.machine.assign([ORDERS_0], consumer.bench.now_ms)
    consumer.machine.seek(ORDERS_0, 1)
    if not is_here_already:
        consumer.bench.answer(late)
    consumer.bench.held = consumer.has_nothing_new
    assert consumer.take() == [(0, 1, b"b")]


# Lag


def test_the_lag_comes_to_zero_behind_the_marker_of_the_last_transaction() -> None:
    consumer = Consuming(auto_offset_reset="earliest", isolation_level="read_committed")
    log = consumer.cluster.log("orders")
    append(log, [b"a", b"b"], producer_id=1, producer_epoch=0, is_transactional=True)
    mark(log, 1, committed=True)
    holding_fetches(consumer).assign(ORDERS_0)
    assert position_of(consumer).lag(committed_only=True) is None
    consumer.bench.held = consumer.has_nothing_new
    consumer.bench.advance(100)
    assert position_of(consumer).lag(committed_only=True) == 3
    assert len(consumer.take(1)) == 1
    assert position_of(consumer).lag(committed_only=True) == 2
    consumer.take()
    assert position_of(consumer).lag(committed_only=True) == 0


def test_what_is_undecided_does_not_count_for_who_reads_only_what_is_committed() -> None:
    consumer = Consuming(auto_offset_reset="earliest", isolation_level="read_committed")
    log = consumer.cluster.log("orders")
    append(log, [b"a"])
    log.last_stable_offset = append(log, [b"open"], producer_id=1, producer_epoch=0, is_transactional=True)
    consumer.assign(ORDERS_0)
    consumer.take()
    assert position_of(consumer).lag(committed_only=True) == 0
    assert position_of(consumer).lag(committed_only=False) == 1


# Leaders and their epochs


class Moving(Consuming):
    """Two brokers; the first leads orders-0 with epoch 0, under which two records were read."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(ModelCluster(nodes=2, topics={"orders": 1}), **{"auto_offset_reset": "earliest", **settings})
        self.log = self.cluster.log("orders")
        self.append(b"a", epoch=0)
        self.append(b"b", epoch=0)
        self.assign(ORDERS_0)

    def append(self, value: bytes, *, epoch: int) -> None:
        append(self.log, [value], partition_leader_epoch=epoch)

    def elect(self, *kept: bytes) -> None:
        """The second one leads, with a log that has only so many records."""
        self.log.batches[:] = self.log.batches[: len(kept)]
        self.log.values[:] = self.log.values[: len(kept)]
        self.cluster.move_leader("orders", 0, 2)


def test_the_epoch_of_the_leader_is_sent_with_every_fetch() -> None:
    consumer = Moving()
    consumer.cluster.move_leader("orders", 0, 2)
    consumer.take()
    epochs = {
        one.current_leader_epoch
        for request in consumer.bench.requests(ApiKey.FETCH)
        for topic in request.message.topics
        for one in topic.partitions
    }
    assert epochs == {0, 1}


def test_a_new_leader_is_asked_whether_it_has_what_was_read_before_more_is_fetched() -> None:
    consumer = Moving()
    assert len(consumer.take()) == 2
    consumer.elect(b"a", b"b")
    consumer.append(b"c", epoch=1)
    consumer.bench.advance(2_000)
    assert consumer.take() == [(0, 2, b"c")]
    (request,) = consumer.bench.requests(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    (question,) = request.message.topics[0].partitions
    assert (request.node_id, request.message.replica_id) == (2, None)
    assert (question.leader_epoch, question.current_leader_epoch) == (0, 1)
    first_to_the_new_one = next(fetch for fetch in consumer.bench.requests(ApiKey.FETCH) if fetch.node_id == 2)
    assert consumer.bench.seen.index(request) < consumer.bench.seen.index(first_to_the_new_one)


def test_records_that_are_gone_with_the_old_leader_are_read_anew_where_the_logs_part() -> None:
    """An unclean election: what was read from offset 1 on exists no more, and there are others in its place."""
    consumer = Moving()
    assert len(consumer.take()) == 2
    consumer.elect(b"a")
    consumer.append(b"other", epoch=1)
    consumer.append(b"another", epoch=1)
    consumer.bench.advance(2_000)
    assert consumer.take() == [(0, 1, b"other"), (0, 2, b"another")]


def test_without_a_reset_policy_that_is_an_error_which_says_where_the_logs_part() -> None:
    consumer = Moving(auto_offset_reset="none")
    consumer.machine.seek(ORDERS_0, 0)
    assert len(consumer.take()) == 2
    consumer.elect(b"a")
    consumer.append(b"other", epoch=1)
    consumer.append(b"another", epoch=1)
    consumer.bench.advance(2_000)
    with pytest.raises(
        AbortableError, match=r"read up to offset 2; .* \(epoch 1\) has none from offset 1 on.*seek to 1"
    ):
        consumer.take()
    consumer.machine.seek(ORDERS_0, 1)
    assert consumer.take() == [(0, 1, b"other"), (0, 2, b"another")]


def test_what_was_only_held_ready_is_read_again_and_nobody_has_to_know() -> None:
    consumer = Moving(auto_offset_reset="none")
    consumer.machine.seek(ORDERS_0, 0)
    consumer.bench.advance(100)
    consumer.elect(b"a")
    consumer.append(b"other", epoch=1)
    consumer.bench.advance(2_000)
    assert consumer.take() == [(0, 0, b"a"), (0, 1, b"other")]


def test_a_fetch_that_is_under_way_to_the_old_leader_is_waited_for_and_checked_too() -> None:
    consumer = Moving(auto_offset_reset="none")
    consumer.machine.seek(ORDERS_0, 0)
    assert len(consumer.take()) == 2
    holding_fetches(consumer)
    consumer.elect(b"a", b"b")
    consumer.append(b"c", epoch=1)
    consumer.machine.know_topic("orders", consumer.bench.now_ms)
    consumer.bench.advance(100)
    (late,) = consumer.bench.waiting(ApiKey.FETCH)
    assert (late.node_id, consumer.bench.requests(ApiKey.OFFSET_FOR_LEADER_EPOCH)) == (1, [])
    lost = build_batch([Record(2, 7, None, b"lost")], base_offset=2, partition_leader_epoch=0)
    data = PartitionData(0, high_watermark=3, last_stable_offset=3, log_start_offset=0, records=lost)
    consumer.bench.answer(
        late, FetchResponse(responses=[FetchableTopicResponse("orders", consumer.cluster.topic_id("orders"), [data])])
    )
    consumer.bench.held = consumer.has_nothing_new
    consumer.bench.advance(2_000)
    assert consumer.take() == [(0, 2, b"c")]


def test_a_leader_that_knows_nothing_so_old_is_an_offset_out_of_range() -> None:
    consumer = Moving()
    assert len(consumer.take()) == 2
    consumer.elect()
    consumer.append(b"new", epoch=1)
    consumer.bench.advance(2_000)
    assert consumer.take() == [(0, 0, b"new")]


def test_an_answer_that_does_not_come_is_asked_for_again() -> None:
    consumer = Moving()
    assert len(consumer.take()) == 2
    consumer.bench.held = lambda request: request.api_key is ApiKey.OFFSET_FOR_LEADER_EPOCH
    consumer.elect(b"a", b"b")
    consumer.append(b"c", epoch=1)
    consumer.bench.advance(2_000)
    consumer.bench.drop_connection(consumer.bench.waiting(ApiKey.OFFSET_FOR_LEADER_EPOCH)[0].connection)
    consumer.bench.held = consumer.has_nothing_new
    consumer.bench.advance(2_000)
    assert consumer.take() == [(0, 2, b"c")]


def test_a_position_from_a_commit_is_checked_if_its_epoch_is_known() -> None:
    consumer = Moving()
    consumer.cluster.move_leader("orders", 0, 2)
    position_of(consumer).seek(9, 0)  # As if nine records had been read of a log that has two.
    consumer.bench.advance(2_000)
    assert position_of(consumer).offset == 2
    assert len(consumer.bench.requests(ApiKey.OFFSET_FOR_LEADER_EPOCH)) >= 1


def test_a_leader_that_is_older_than_a_committed_offset_is_not_believed() -> None:
    """It is cut off from the cluster, and so is the metadata. The member before has read from its successor already."""
    consumer = Moving()
    assert len(consumer.take()) == 2
    position_of(consumer).seek(3, 1)
    fetches = len(consumer.bench.requests(ApiKey.FETCH))
    consumer.bench.advance(10_000)
    assert position_of(consumer).offset == 3
    assert len(consumer.bench.requests(ApiKey.FETCH)) == fetches
    consumer.elect(b"a", b"b")
    consumer.append(b"c", epoch=1)
    consumer.append(b"d", epoch=1)
    consumer.bench.advance(2_000)
    assert consumer.take() == [(0, 3, b"d")]


def test_epochs_that_begin_again_with_a_new_topic_are_believed_in_the_end() -> None:
    consumer = Moving(default_api_timeout_ms=5_000)
    assert len(consumer.take()) == 2
    position_of(consumer).seek(9, 7)
    consumer.bench.advance(4_000)
    assert position_of(consumer).offset == 9
    consumer.bench.advance(3_000)
    assert position_of(consumer).offset == 2


def test_the_epoch_follows_the_records_that_were_handed_out() -> None:
    consumer = Moving()
    consumer.append(b"c", epoch=3)
    consumer.cluster.leader_epochs[ORDERS_0] = 3
    consumer.take(1)
    assert (position_of(consumer).offset, position_of(consumer).offset_epoch) == (1, 0)
    consumer.take()
    assert (position_of(consumer).offset, position_of(consumer).offset_epoch) == (3, 3)
