from __future__ import annotations

import threading
import time
from uuid import UUID

import pytest

from semel.errors import ErrorCode
from semel.testing import Broker
from semel.wire.apis import APIS, ApiKey
from semel.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.raw_client import RawClient, batch, fetch_request, values
from tools.patience import BEYOND_PATIENCE_MS, wait_until

VERSIONS = range(APIS[ApiKey.FETCH].min_version, APIS[ApiKey.FETCH].max_version + 1)
READ_COMMITTED = 1


def topic_id(client: RawClient, topic: str) -> UUID:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    found: UUID = client.call(ApiKey.METADATA, 12, asked).topics[0].topic_id
    return found


def only(client: RawClient, version: int, request: FetchRequest) -> PartitionData:
    response = client.call(ApiKey.FETCH, version, request)
    assert response.error_code == 0
    ((data,),) = (topic.partitions for topic in response.responses)
    assert isinstance(data, PartitionData)
    return data


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_reads_what_was_produced(client: RawClient, topic: str, version: int) -> None:
    client.produce(topic, batch(b"a", b"b"))
    request = fetch_request(topic, 0)
    identity = request.topics[0].topic_id = topic_id(client, topic)

    response = client.call(ApiKey.FETCH, version, request)

    (answered,) = response.responses
    assert (answered.topic, answered.topic_id) == ((topic, UUID(int=0)) if version < 13 else ("", identity))
    (data,) = answered.partitions
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 2, 2)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    assert data.aborted_transactions is None
    assert values(data) == [(0, b"a"), (1, b"b")]


@pytest.mark.parametrize("version", VERSIONS)
def test_read_committed_has_a_list_of_aborted_transactions_even_if_it_is_empty(
    client: RawClient, topic: str, version: int
) -> None:
    client.produce(topic, batch(b"a"))
    request = fetch_request(topic, 0)
    request.topics[0].topic_id = topic_id(client, topic)
    request.isolation_level = READ_COMMITTED

    data = only(client, version, request)

    assert data.aborted_transactions == []
    assert values(data) == [(0, b"a")]


def test_a_fetch_from_the_middle_of_a_batch_returns_the_whole_batch(client: RawClient, topic: str) -> None:
    client.produce(topic, batch(b"a", b"b", b"c"))

    assert values(client.fetch(topic, 1)) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_at_the_end_there_is_nothing_and_no_error(client: RawClient, topic: str) -> None:
    client.produce(topic, batch(b"a"))

    data = client.fetch(topic, 1)

    assert (data.error_code, data.records, data.high_watermark) == (0, b"", 1)


@pytest.mark.parametrize("offset", [-1, 2, 1000])
def test_an_offset_outside_the_log_is_out_of_range(client: RawClient, topic: str, offset: int) -> None:
    client.produce(topic, batch(b"a"))

    data = client.fetch(topic, offset)

    assert (data.error_code, data.high_watermark, data.records) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1, b"")


def test_an_offset_that_was_deleted_is_out_of_range(client: RawClient, topic: str) -> None:
    for value in (b"a", b"b"):
        client.produce(topic, batch(value))
    doomed = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, 1)])
    client.call(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=[doomed], timeout_ms=1000))

    assert client.fetch(topic, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (client.fetch(topic, 1).log_start_offset, values(client.fetch(topic, 1))) == (1, [(1, b"b")])


def test_an_unknown_partition_or_topic_is_an_error_of_its_own(client: RawClient, topic: str) -> None:
    assert client.fetch(topic, 0, partition=5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.fetch("absent", 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unknown_topic_id_is_an_error_of_its_own(client: RawClient) -> None:
    request = fetch_request("", 0)
    request.topics[0].topic_id = UUID(int=77)

    assert only(client, 13, request).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH), (-2, ErrorCode.FENCED_LEADER_EPOCH)],
)
def test_the_leader_epoch_that_a_client_knows_is_checked(client: RawClient, topic: str, epoch: int, code: int) -> None:
    request = fetch_request(topic, 0)
    request.topics[0].partitions[0].current_leader_epoch = epoch

    data = only(client, 12, request)

    assert data.error_code == code
    if code == ErrorCode.FENCED_LEADER_EPOCH:
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 0)


def test_a_position_in_an_epoch_that_ended_earlier_is_told_where(client: RawClient, topic: str) -> None:
    client.produce(topic, batch(b"a"))
    request = fetch_request(topic, 1)
    request.topics[0].partitions[0].last_fetched_epoch = 0
    assert only(client, 12, request).diverging_epoch.end_offset is None

    request.topics[0].partitions[0].fetch_offset = 5
    data = only(client, 12, request)

    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 1)
    assert (data.error_code, data.records) == (0, b"")


def test_a_last_fetched_epoch_that_nobody_knows_is_out_of_range(client: RawClient, topic: str) -> None:
    client.produce(topic, batch(b"a"))
    request = fetch_request(topic, 0)
    request.topics[0].partitions[0].last_fetched_epoch = 9

    assert only(client, 12, request).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", [4, 11, 14, 15, 18])
def test_a_client_that_claims_to_be_a_replica_moves_and_sees_nothing(
    client: RawClient, topic: str, version: int
) -> None:
    """CVE-2018-1288."""
    client.produce(topic, batch(b"a"))
    request = fetch_request(topic, 1)
    request.topics[0].topic_id = topic_id(client, topic)
    request.replica_id = 7
    request.replica_state = ReplicaState(7, 1)

    assert only(client, version, request).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert client.fetch(topic, 0).high_watermark == 1


# Sizes


def test_the_first_batch_is_returned_whole_however_small_the_limits(client: RawClient, topic: str) -> None:
    client.produce(topic, batch(b"x" * 5000))
    client.produce(topic, batch(b"y" * 5000))
    request = fetch_request(topic, 0, max_bytes=1)
    request.max_bytes = 1

    assert values(only(client, 11, request)) == [(0, b"x" * 5000)]


def test_a_partition_gets_no_more_than_its_limit(client: RawClient, topic: str) -> None:
    for _ in range(10):
        client.produce(topic, batch(b"x" * 1000))
    whole = len(client.fetch(topic, 0).records or b"")

    data = only(client, 11, fetch_request(topic, 0, max_bytes=whole // 2))

    assert len(data.records or b"") <= whole // 2
    assert 4 <= len(values(data)) <= 5


def test_the_limit_of_the_request_counts_over_all_partitions_and_the_first_one_with_records_is_served(
    client: RawClient, name: str
) -> None:
    client.create_topic(name, partitions=3)
    for partition in (1, 2):
        client.produce(name, batch(b"x" * 1000), partition=partition)
    partitions = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=2**20) for n in range(3)]
    request = FetchRequest(min_bytes=1, max_bytes=500, topics=[FetchTopic(topic=name, partitions=partitions)])

    found = client.call(ApiKey.FETCH, 11, request).responses[0].partitions

    assert [len(values(data)) for data in found] == [0, 1, 0]


# Long polls


def produce_later(port: int, topic: str, records: bytes, delay_s: float) -> threading.Timer:
    def produce() -> None:
        with RawClient(port) as producer:
            producer.produce(topic, records)

    timer = threading.Timer(delay_s, produce)
    timer.start()
    return timer


def test_a_long_poll_returns_as_soon_as_there_is_a_record(broker: Broker, client: RawClient, topic: str) -> None:
    timer = produce_later(broker.port, topic, batch(b"late"), 0.05)

    data = client.fetch(topic, 0, max_wait_ms=BEYOND_PATIENCE_MS)

    assert values(data) == [(0, b"late")]
    timer.join()


def test_a_long_poll_without_records_ends_at_its_deadline(client: RawClient, topic: str) -> None:
    started = time.monotonic()

    data = client.fetch(topic, 0, max_wait_ms=60)

    assert (data.error_code, data.records) == (0, b"")
    assert time.monotonic() - started >= 0.055


def test_a_long_poll_waits_for_min_bytes(broker: Broker, client: RawClient, topic: str) -> None:
    size = len(batch(b"x" * 100))
    client.send(ApiKey.FETCH, 11, fetch_request(topic, 0, max_wait_ms=BEYOND_PATIENCE_MS, min_bytes=3 * size))
    with RawClient(broker.port) as producer:
        for _ in range(2):
            producer.produce(topic, batch(b"x" * 100))
        assert not client.has_answer(within_s=0.05)
        producer.produce(topic, batch(b"x" * 100))

    response = client.receive(ApiKey.FETCH, 11)
    assert len(values(response.responses[0].partitions[0])) == 3


def test_what_is_there_counts_towards_min_bytes(broker: Broker, client: RawClient, topic: str) -> None:
    size = len(batch(b"x" * 100))
    client.produce(topic, batch(b"x" * 100))
    client.send(ApiKey.FETCH, 11, fetch_request(topic, 0, max_wait_ms=BEYOND_PATIENCE_MS, min_bytes=2 * size))
    assert not client.has_answer(within_s=0.05)
    with RawClient(broker.port) as producer:
        producer.produce(topic, batch(b"x" * 100))

    response = client.receive(ApiKey.FETCH, 11)
    assert len(values(response.responses[0].partitions[0])) == 2


def test_min_bytes_larger_than_max_bytes_does_not_wait_for_ever(client: RawClient, topic: str) -> None:
    client.produce(topic, batch(b"x" * 100))
    request = fetch_request(topic, 0, max_wait_ms=BEYOND_PATIENCE_MS, min_bytes=2**30)
    request.max_bytes = 10

    assert len(values(only(client, 11, request))) == 1


def test_a_long_poll_on_a_partition_with_an_error_returns_at_once(client: RawClient, topic: str) -> None:
    answer = client.fetch(topic, 99, max_wait_ms=BEYOND_PATIENCE_MS)

    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_long_poll_ends_when_its_topic_is_deleted(broker: Broker, client: RawClient, topic: str) -> None:
    client.send(ApiKey.FETCH, 11, fetch_request(topic, 0, max_wait_ms=BEYOND_PATIENCE_MS))
    with RawClient(broker.port) as other:
        other.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000))

    response = client.receive(ApiKey.FETCH, 11)
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_client_that_leaves_during_a_long_poll_leaves_nothing_waiting(broker: Broker, topic: str) -> None:
    assert broker._broker is not None
    node = broker._broker.node
    with RawClient(broker.port) as leaving:
        leaving.send(ApiKey.FETCH, 11, fetch_request(topic, 0, max_wait_ms=BEYOND_PATIENCE_MS))
        wait_until(lambda: len(node.deadlines) == 1)

    wait_until(lambda: len(node.deadlines) == 0)
    partition = node.partitions.get(topic, 0)
    assert partition is not None
    assert not partition._watching


# Sessions


def session_request(topic: str, offsets: dict[int, int], session_id: int, epoch: int) -> FetchRequest:
    partitions = [
        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=2**20)
        for partition, offset in offsets.items()
    ]
    return FetchRequest(
        min_bytes=0,
        max_bytes=2**30,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic=topic, partitions=partitions)] if partitions else [],
    )


def told(response: object) -> dict[int, int]:
    """Which partitions are in an answer, and how many records each has."""
    return {
        data.partition_index: len(values(data))
        for topic in response.responses  # type: ignore[attr-defined]
        for data in topic.partitions
    }


def test_a_session_tells_everything_once_and_then_only_news(client: RawClient, name: str) -> None:
    client.create_topic(name, partitions=3)
    client.produce(name, batch(b"a"), partition=1)

    first = client.call(ApiKey.FETCH, 11, session_request(name, {0: 0, 1: 0, 2: 0}, 0, 0))
    assert first.session_id != 0
    assert told(first) == {0: 0, 1: 1, 2: 0}

    second = client.call(ApiKey.FETCH, 11, session_request(name, {1: 1}, first.session_id, 1))
    assert (second.session_id, told(second)) == (first.session_id, {})

    client.produce(name, batch(b"b", b"c"), partition=2)
    third = client.call(ApiKey.FETCH, 11, session_request(name, {}, first.session_id, 2))
    assert told(third) == {2: 2}

    forgetting = session_request(name, {}, first.session_id, 3)
    forgetting.forgotten_topics_data = [ForgottenTopic(topic=name, partitions=[2])]
    assert told(client.call(ApiKey.FETCH, 11, forgetting)) == {}


def test_a_session_waits_for_news_of_partitions_that_the_request_does_not_name(
    broker: Broker, client: RawClient, topic: str
) -> None:
    first = client.call(ApiKey.FETCH, 11, session_request(topic, {0: 0}, 0, 0))
    waiting = session_request(topic, {}, first.session_id, 1)
    waiting.max_wait_ms, waiting.min_bytes = BEYOND_PATIENCE_MS, 1
    timer = produce_later(broker.port, topic, batch(b"a"), 0.05)

    assert told(client.call(ApiKey.FETCH, 11, waiting)) == {0: 1}
    timer.join()


def test_a_wrong_epoch_and_an_unknown_session_are_refused(client: RawClient, topic: str) -> None:
    first = client.call(ApiKey.FETCH, 11, session_request(topic, {0: 0}, 0, 0))

    wrong = client.call(ApiKey.FETCH, 11, session_request(topic, {}, first.session_id, 5))
    assert (wrong.error_code, wrong.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])
    unknown = client.call(ApiKey.FETCH, 11, session_request(topic, {}, first.session_id ^ 1, 1))
    assert (unknown.error_code, unknown.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


def test_the_final_epoch_closes_the_session_and_serves_the_request(client: RawClient, topic: str) -> None:
    client.produce(topic, batch(b"a"))
    first = client.call(ApiKey.FETCH, 11, session_request(topic, {0: 0}, 0, 0))

    last = client.call(ApiKey.FETCH, 11, session_request(topic, {0: 0}, first.session_id, -1))

    assert (last.session_id, told(last)) == (0, {0: 1})
    again = client.call(ApiKey.FETCH, 11, session_request(topic, {}, first.session_id, 1))
    assert again.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_new_session_takes_the_place_of_the_one_it_names(client: RawClient, topic: str) -> None:
    first = client.call(ApiKey.FETCH, 11, session_request(topic, {0: 0}, 0, 0))

    second = client.call(ApiKey.FETCH, 11, session_request(topic, {0: 0}, first.session_id, 0))

    assert second.session_id not in (0, first.session_id)
    again = client.call(ApiKey.FETCH, 11, session_request(topic, {}, first.session_id, 1))
    assert again.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_does_not_change_between_names_and_ids(client: RawClient, topic: str) -> None:
    first = client.call(ApiKey.FETCH, 12, session_request(topic, {0: 0}, 0, 0))

    changed = client.call(ApiKey.FETCH, 13, session_request("", {}, first.session_id, 1))

    assert changed.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_without_room_for_sessions_every_fetch_is_full(name: str) -> None:
    with Broker(max_incremental_fetch_session_cache_slots=0) as broker, RawClient(broker.port) as client:
        client.create_topic(name)

        assert client.call(ApiKey.FETCH, 11, session_request(name, {0: 0}, 0, 0)).session_id == 0
