"""Transactions over the wire, request by request, in every version."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from semel.errors import ErrorCode
from semel.testing import Broker
from semel.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from semel.wire.apis import APIS, ApiKey
from semel.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.wire.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from semel.wire.messages.fetch import PartitionData
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.list_transactions import ListTransactionsRequest
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.records import iterate_headers, iterate_records
from tests.broker.raw_client import RawClient, batch, fetch_request, values
from tests.broker.transactional_client import Transactional, find_coordinator
from tools.patience import BEYOND_PATIENCE_MS, PATIENCE_MS

NewProducer = Callable[..., Transactional]


def versions(key: ApiKey, *, since: int = 0, until: int = 99) -> list[int]:
    return [v for v in range(APIS[key].min_version, APIS[key].max_version + 1) if since <= v <= until]


@pytest.fixture
def new_producer(client: RawClient, name: str) -> NewProducer:
    """A producer with an id and an epoch, under this test's own transactional id unless another one is given."""

    def new(
        transactional_id: str = f"id of {name}", *, connection: RawClient | None = None, **how: bool
    ) -> Transactional:
        producer = Transactional(connection or client, transactional_id, **how)
        producer.find()
        assert producer.init().error_code == 0
        return producer

    return new


@pytest.fixture
def other(broker: Broker) -> Iterator[RawClient]:
    """A second connection."""
    with RawClient(broker.port) as connected:
        yield connected


def read(client: RawClient, topic: str, *, partition: int = 0, wait_ms: int = 0, offset: int = 0) -> PartitionData:
    return client.fetch(topic, offset, partition=partition, isolation_level=1, max_wait_ms=wait_ms)


def committed(client: RawClient, topic: str, *, partition: int = 0, count: int) -> list[bytes | None]:
    """The values below the last stable offset, once that is ``count``; of a topic in which nothing was aborted."""
    answer = read(client, topic, partition=partition)
    while answer.last_stable_offset < count:
        read(client, topic, partition=partition, offset=answer.last_stable_offset, wait_ms=500)
        answer = read(client, topic, partition=partition)
    assert answer.aborted_transactions == []
    records = answer.records or b""
    return [
        record.value
        for position, header in iterate_headers(records)
        if not header.is_control
        for record in iterate_records(records, position)
    ]


# The whole way, in both generations.


@pytest.mark.parametrize("is_v2", [False, True], ids=["V1", "V2"])
def test_a_commit_makes_all_partitions_visible_and_not_before(
    client: RawClient, name: str, new_producer: NewProducer, is_v2: bool
) -> None:
    topic = client.create_topic(name, 2)
    producer = new_producer(is_v2=is_v2)
    if not is_v2:
        assert producer.add(topic, 0, 1) == [0, 0]
    assert [producer.produce(topic, b"a", partition=partition).error_code for partition in (0, 1)] == [0, 0]
    for partition in (0, 1):
        answer = read(client, topic, partition=partition)
        assert (answer.high_watermark, answer.last_stable_offset, values(answer)) == (1, 0, [])
        assert values(client.fetch(topic, 0, partition=partition)) == [(0, b"a")], "read_uncommitted sees everything"
    assert producer.end(True).error_code == 0
    assert [committed(client, topic, partition=partition, count=2) for partition in (0, 1)] == [[b"a"], [b"a"]]


@pytest.mark.parametrize("is_v2", [False, True], ids=["V1", "V2"])
def test_an_abort_is_told_to_readers_with_the_records(
    client: RawClient, topic: str, new_producer: NewProducer, is_v2: bool
) -> None:
    producer = new_producer(is_v2=is_v2)
    if not is_v2:
        producer.add(topic, 0)
    producer.produce(topic, b"a")
    assert producer.end(False).error_code == 0
    answer = read(client, topic, wait_ms=PATIENCE_MS)
    assert answer.last_stable_offset == 2
    (aborted,) = answer.aborted_transactions or ()
    assert (aborted.producer_id, aborted.first_offset) == (producer.producer_id, 0)


def test_scenario_46_a_long_poll_that_an_abort_completes_knows_of_the_abort(
    client: RawClient, other: RawClient, topic: str, new_producer: NewProducer
) -> None:
    producer = new_producer()
    producer.produce(topic, b"a")
    waiting = fetch_request(topic, 0, max_wait_ms=BEYOND_PATIENCE_MS)
    waiting.isolation_level = 1
    sent = other.send(ApiKey.FETCH, 11, waiting)
    assert not other.has_answer(0.05), "nothing is decided, so there is nothing to read"
    producer.end(False)
    ((answer,),) = (t.partitions for t in other.receive(ApiKey.FETCH, 11, sent).responses)
    assert [(entry.producer_id, entry.first_offset) for entry in answer.aborted_transactions] == [
        (producer.producer_id, 0)
    ]
    assert [offset for offset, _ in values(answer)] == [0, 1], "the record and the marker"


def test_transactions_of_one_producer_follow_each_other_without_a_pause(
    client: RawClient, topic: str, new_producer: NewProducer
) -> None:
    for is_v2 in (False, True):
        producer = new_producer(f"{topic} {is_v2}", is_v2=is_v2)
        for number in range(20):
            if not is_v2:
                assert producer.add(topic, 0) == [0]
            assert producer.produce(topic, b"%d" % number).error_code == 0
            assert producer.end(number % 2 == 0).error_code == 0


# InitProducerId


@pytest.mark.parametrize("version", versions(ApiKey.INIT_PRODUCER_ID))
def test_every_version_gives_a_transactional_id_its_producer_id_and_the_next_epoch(
    client: RawClient, name: str, version: int
) -> None:
    producer = Transactional(client, name)
    producer.find()
    first, second = producer.init(version), producer.init(version)
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert (second.error_code, second.producer_id, second.producer_epoch) == (0, first.producer_id, 1)


def test_scenario_16_a_second_instance_fences_the_first_and_aborts_what_it_left_open(
    client: RawClient, other: RawClient, topic: str, new_producer: NewProducer
) -> None:
    first = new_producer()
    first.produce(topic, b"lost")
    second = new_producer(connection=other)
    assert (second.producer_id, second.epoch > first.epoch) == (first.producer_id, True)
    assert first.produce(topic, b"late").error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert first.end(True).error_code == ErrorCode.PRODUCER_FENCED
    assert first.end(True, version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH, "an older client's word for it"
    assert len(read(client, topic, wait_ms=PATIENCE_MS).aborted_transactions or ()) == 1


@pytest.mark.parametrize("version", versions(ApiKey.INIT_PRODUCER_ID, since=3))
def test_a_producer_that_was_fenced_cannot_resume(client: RawClient, name: str, version: int) -> None:
    first, second = (Transactional(client, name) for _ in range(2))
    first.find()
    first.init(version)
    second.init(version)
    second.init(version)
    refused = first.init(version, resume=True).error_code
    assert refused == (ErrorCode.PRODUCER_FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH)


def test_scenario_29_a_timeout_that_is_too_long_is_refused(client: RawClient, name: str) -> None:
    producer = Transactional(client, name, timeout_ms=900_001)
    producer.find()
    assert producer.init().error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


# AddPartitionsToTxn


@pytest.mark.parametrize("version", versions(ApiKey.ADD_PARTITIONS_TO_TXN))
def test_every_version_adds_partitions(client: RawClient, name: str, new_producer: NewProducer, version: int) -> None:
    topic = client.create_topic(name, 3)
    producer = new_producer(is_v2=False)
    assert producer.add(topic, 0, 2, version=version) == [0, 0]
    assert producer.produce(topic, partition=2).error_code == 0
    assert producer.produce(topic, partition=1).error_code == ErrorCode.TRANSACTION_ABORTABLE


@pytest.mark.parametrize("version", versions(ApiKey.ADD_PARTITIONS_TO_TXN))
def test_one_partition_that_does_not_exist_spoils_the_others(
    topic: str, new_producer: NewProducer, version: int
) -> None:
    producer = new_producer(is_v2=False)
    assert producer.add(topic, 0, 7, version=version) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert producer.produce(topic).error_code == ErrorCode.TRANSACTION_ABORTABLE


@pytest.mark.parametrize("version", versions(ApiKey.ADD_PARTITIONS_TO_TXN))
def test_a_client_cannot_add_an_internal_topic(new_producer: NewProducer, version: int) -> None:
    """No marker is written there, so the transaction would never be complete."""
    producer = new_producer()
    assert producer.add(TRANSACTION_STATE_TOPIC, 0, version=version) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.parametrize("version", versions(ApiKey.ADD_PARTITIONS_TO_TXN))
def test_a_fenced_producer_adds_nothing(topic: str, new_producer: NewProducer, version: int) -> None:
    first = new_producer()
    new_producer()
    refused = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert first.add(topic, 0, version=version) == [refused]


@pytest.mark.parametrize("version", versions(ApiKey.ADD_PARTITIONS_TO_TXN, since=4))
def test_many_transactions_are_added_to_or_verified_in_one_request(
    client: RawClient, name: str, new_producer: NewProducer, version: int
) -> None:
    topic = client.create_topic(name, 2)
    first, second = new_producer("first " + name), new_producer("second " + name)
    first.add(topic, 0)

    def asked(producer: Transactional, verify_only: bool, *partitions: int) -> AddPartitionsToTxnTransaction:
        topics = [AddPartitionsToTxnTopic(topic, list(partitions))]
        return AddPartitionsToTxnTransaction(
            producer.transactional_id, producer.producer_id, producer.epoch, verify_only, topics
        )

    stranger = AddPartitionsToTxnTransaction("nobody", 1, 0, True, [AddPartitionsToTxnTopic(topic, [0])])
    answer = client.call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        version,
        AddPartitionsToTxnRequest([asked(first, True, 0, 1), asked(second, False, 1), stranger]),
    )
    assert [
        (
            result.transactional_id,
            [p.partition_error_code for t in result.topic_results for p in t.results_by_partition],
        )
        for result in answer.results_by_transaction
    ] == [
        (first.transactional_id, [0, ErrorCode.TRANSACTION_ABORTABLE]),
        (second.transactional_id, [0]),
        ("nobody", [ErrorCode.INVALID_PRODUCER_ID_MAPPING]),
    ]
    assert second.produce(topic, partition=1, version=11).error_code == 0


# EndTxn


@pytest.mark.parametrize("version", versions(ApiKey.END_TXN))
def test_every_version_ends_a_transaction_and_5_goes_on_with_the_next_epoch(
    topic: str, new_producer: NewProducer, version: int
) -> None:
    producer = new_producer(is_v2=version >= 5)
    producer.add(topic, 0)
    before = (producer.producer_id, producer.epoch)
    answer = producer.end(True, version)
    assert answer.error_code == 0
    went_on = (answer.producer_id, answer.producer_epoch)
    assert went_on == ((before[0], before[1] + 1) if version >= 5 else (None, None))


def test_scenario_20_a_commit_that_is_asked_for_twice_is_answered_twice_and_done_once(
    client: RawClient, topic: str, new_producer: NewProducer
) -> None:
    producer = new_producer(is_v2=False)
    producer.add(topic, 0)
    producer.produce(topic)
    assert producer.end(True).error_code == 0
    assert producer.end(True).error_code == 0
    assert producer.end(False).error_code == ErrorCode.INVALID_TXN_STATE
    assert client.fetch(topic, 0).high_watermark == 2, "one record, one marker"


def test_scenario_21_an_end_that_comes_late_does_not_touch_the_next_transaction(
    client: RawClient, topic: str, new_producer: NewProducer
) -> None:
    producer = new_producer()
    producer.produce(topic, b"a")
    late_epoch = producer.epoch
    producer.end(True)
    assert producer.end(True, epoch=late_epoch).error_code == 0, "before the next one begins it is a repetition"
    producer.produce(topic, b"b")
    assert producer.end(True, epoch=late_epoch).error_code == ErrorCode.PRODUCER_FENCED
    assert read(client, topic, offset=2).last_stable_offset == 2
    assert producer.end(False).error_code == 0


@pytest.mark.parametrize("version", versions(ApiKey.END_TXN))
def test_scenario_23_who_has_no_transaction_ends_none(
    client: RawClient, name: str, new_producer: NewProducer, version: int
) -> None:
    producer = new_producer()
    assert producer.end(True, version).error_code == ErrorCode.INVALID_TXN_STATE
    stranger = Transactional(client, f"nobody {name}")
    assert stranger.end(True, version).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


# Produce


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
def test_scenario_42_a_write_outside_of_a_transaction_is_refused_or_opens_one_that_ends(
    client: RawClient, name: str, new_producer: NewProducer, version: int
) -> None:
    topic = client.create_topic(name)
    producer = new_producer()
    if version == 13:
        return  # Names topics by id; the same path as 12.
    answer = producer.produce(topic, version=version)
    if version >= 12:
        assert answer.error_code == 0
        assert producer.end(False).error_code == 0
    else:
        assert answer.error_code == (ErrorCode.TRANSACTION_ABORTABLE if version == 11 else ErrorCode.INVALID_TXN_STATE)
        assert client.fetch(topic, 0).high_watermark == 0


def test_scenario_42_a_write_that_comes_after_the_end_is_refused(
    client: RawClient, topic: str, new_producer: NewProducer
) -> None:
    older = new_producer(f"older {topic}", is_v2=False)
    older.add(topic, 0)
    older.produce(topic)
    older.end(False)
    assert older.produce(topic).error_code == ErrorCode.TRANSACTION_ABORTABLE
    newer = new_producer(f"newer {topic}")
    newer.produce(topic)
    epoch = newer.epoch
    newer.end(False)
    assert newer.produce(topic, epoch=epoch, sequence=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert client.fetch(topic, 0).high_watermark == 4, "two records, two markers"


def test_a_batch_whose_producer_is_not_that_of_the_transactional_id_is_refused(
    client: RawClient, topic: str, new_producer: NewProducer
) -> None:
    """CVE-2018-17196, and also when the producer has a transaction open there."""
    victim, attacker = new_producer(f"victim {topic}"), new_producer(f"attacker {topic}")
    for _ in range(2):
        refused = victim.produce(topic, transactional_id=attacker.transactional_id)
        assert refused.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        refused = victim.produce(topic, transactional_id=None)
        assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert victim.produce(topic).error_code == 0
    assert client.fetch(topic, 0).high_watermark == 2


def test_batches_of_two_producers_in_one_request_are_refused(
    client: RawClient, name: str, new_producer: NewProducer
) -> None:
    topic = client.create_topic(name, 2)
    first, second = new_producer(f"first {name}"), new_producer(f"second {name}")
    request = ProduceRequest(
        transactional_id=first.transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(
                        index,
                        batch(
                            b"x",
                            producer_id=producer.producer_id,
                            producer_epoch=producer.epoch,
                            base_sequence=0,
                            is_transactional=True,
                        ),
                    )
                    for index, producer in enumerate((first, second))
                ],
            )
        ],
    )
    ((one, two),) = (t.partition_responses for t in client.call(ApiKey.PRODUCE, 12, request).responses)
    assert (one.error_code, two.error_code) == (ErrorCode.INVALID_PRODUCER_ID_MAPPING,) * 2


def test_a_request_that_waits_for_the_coordinator_keeps_its_records_and_its_place(
    client: RawClient, name: str, new_producer: NewProducer
) -> None:
    """The buffer that a request arrived in is used for the next one: what must wait is copied."""
    topic = client.create_topic(name, 2)
    producer = new_producer()
    sent = []
    for sequence in range(5):
        for partition in (0, 1):
            records = batch(
                b"%d" % sequence * 1000,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
            data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, records)])
            request = ProduceRequest(producer.transactional_id, -1, 10_000, [data])
            sent.append(client.send(ApiKey.PRODUCE, 12, request))
    answers = [client.receive(ApiKey.PRODUCE, 12, correlation_id).responses[0] for correlation_id in sent]
    assert [a.partition_responses[0].error_code for a in answers] == [0] * 10
    for partition in (0, 1):
        found = values(client.fetch(topic, 0, partition=partition))
        assert found == [(number, b"%d" % number * 1000) for number in range(5)]


def test_the_first_batch_of_an_epoch_begins_at_sequence_0(topic: str, new_producer: NewProducer) -> None:
    """KAFKA-18202: with transactions V2 a partition that does not know the producer does not take its word for it."""
    producer = new_producer()
    assert producer.produce(topic, sequence=3).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.produce(topic, sequence=0).error_code == 0


def test_a_client_s_control_batch_is_refused(client: RawClient, topic: str, new_producer: NewProducer) -> None:
    """Scenario 44: only coordinators end transactions."""
    producer = new_producer()
    producer.produce(topic)
    marker = batch(
        b"x",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        is_transactional=True,
        is_control=True,
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, marker)])
    request = ProduceRequest(producer.transactional_id, -1, 10_000, [data])
    answer = client.call(ApiKey.PRODUCE, 12, request).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.INVALID_RECORD


def test_acks_0_in_a_transaction_is_appended_and_not_answered(
    client: RawClient, topic: str, new_producer: NewProducer
) -> None:
    producer = new_producer()
    records = batch(b"x", producer_id=producer.producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, records)])
    client.send(ApiKey.PRODUCE, 12, ProduceRequest(producer.transactional_id, 0, 10_000, [data]))
    assert producer.end(True).error_code == 0
    assert client.fetch(topic, 0).high_watermark >= 1


# Topics that are deleted


@pytest.mark.parametrize("is_v2", [False, True], ids=["V1", "V2"])
def test_scenario_30_a_topic_that_is_deleted_does_not_hang_the_transaction(
    client: RawClient, name: str, new_producer: NewProducer, is_v2: bool
) -> None:
    doomed, kept = client.create_topic(f"doomed-{name}"), client.create_topic(f"kept-{name}")
    producer = new_producer(is_v2=is_v2)
    for topic in (doomed, kept):
        if not is_v2:
            producer.add(topic, 0)
        assert producer.produce(topic, b"a").error_code == 0
    delete_topic(client, doomed)
    assert producer.end(True).error_code == 0
    assert committed(client, kept, count=2) == [b"a"]
    state = described(client, producer.transactional_id)
    assert state.transaction_state == "CompleteCommit"


def delete_topic(client: RawClient, topic: str) -> None:
    (result,) = client.call(ApiKey.DELETE_TOPICS, 4, DeleteTopicsRequest(topic_names=[topic])).responses
    assert result.error_code == 0


def described(client: RawClient, transactional_id: str) -> TransactionState:
    request = DescribeTransactionsRequest([transactional_id])
    (state,) = client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, request).transaction_states
    assert isinstance(state, TransactionState)
    return state


# Looking


def test_transactions_are_described(client: RawClient, name: str, new_producer: NewProducer) -> None:
    topic = client.create_topic(name, 3)
    producer = new_producer()
    for partition in (2, 0):
        producer.produce(topic, partition=partition)
    state = described(client, producer.transactional_id)
    assert (state.error_code, state.transaction_state, state.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert (state.producer_id, state.producer_epoch) == (producer.producer_id, producer.epoch)
    assert [(t.topic, t.partitions) for t in state.topics] == [(topic, [0, 2])]
    assert state.transaction_start_time_ms > 0
    unknown = described(client, f"nobody {name}")
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.parametrize("version", versions(ApiKey.LIST_TRANSACTIONS))
def test_transactions_are_listed_with_filters(
    client: RawClient, name: str, new_producer: NewProducer, version: int
) -> None:
    topic = client.create_topic(name)
    opened, ended = new_producer(f"{name}-open"), new_producer(f"{name}-ended")
    for producer in (opened, ended):
        producer.produce(topic)
    ended.end(True)

    def listed(**filters: object) -> list[tuple[str, str]]:
        answer = client.call(ApiKey.LIST_TRANSACTIONS, version, ListTransactionsRequest(**filters))
        assert answer.error_code == 0
        return sorted(
            (state.transactional_id, state.transaction_state)
            for state in answer.transaction_states
            if state.transactional_id.startswith(f"{name}-")
        )

    assert listed(state_filters=["Ongoing"]) == [(f"{name}-open", "Ongoing")]
    assert listed(producer_id_filters=[opened.producer_id]) == [(f"{name}-open", "Ongoing")]
    assert [key for key, _ in listed()] == [f"{name}-ended", f"{name}-open"]
    if version >= 1:
        assert listed(duration_filter=3_600_000, state_filters=["Ongoing"]) == []
    if version >= 2:
        assert [key for key, _ in listed(transactional_id_pattern=f"{name}-e.*")] == [f"{name}-ended"]


def test_a_filter_that_means_nothing_is_reported(client: RawClient) -> None:
    answer = client.call(ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest(["Ongoing", "Sleeping"]))
    assert (answer.error_code, answer.unknown_state_filters) == (0, ["Sleeping"])
    answer = client.call(ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest(transactional_id_pattern="("))
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


# Coordinators


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR, since=4))
def test_many_coordinators_are_found_in_one_request(broker: Broker, client: RawClient, version: int) -> None:
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["a", "b", "c"])
    found = client.call(ApiKey.FIND_COORDINATOR, version, request).coordinators
    assert [(c.key, c.error_code, c.node_id, c.port) for c in found] == [
        (key, 0, 1, broker.port) for key in ("a", "b", "c")
    ]


@pytest.mark.parametrize(
    ("topic", "key_type", "setting"),
    [
        (TRANSACTION_STATE_TOPIC, 1, "transaction_state_log_num_partitions"),
        (CONSUMER_OFFSETS_TOPIC, 0, "offsets_topic_num_partitions"),
    ],
)
def test_the_internal_topic_is_made_on_first_use_and_its_size_is_then_fixed(
    topic: str, key_type: int, setting: str
) -> None:
    def partitions(client: RawClient) -> tuple[int, bool]:
        asked = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
        (found,) = client.call(ApiKey.METADATA, 9, asked).topics
        return len(found.partitions), found.is_internal

    with Broker(**{setting: 7}) as broker:
        with RawClient(broker.port) as client:
            assert partitions(client) == (0, True), "nobody has used it"
            assert find_coordinator(client, "x", key_type).error_code == 0
            assert partitions(client) == (7, True)
            resource = DescribeConfigsResource(2, topic, ["cleanup.policy", "compression.type", "segment.bytes"])
            (result,) = client.call(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest([resource])).results
            assert {config.name: config.value for config in result.configs} == {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(100 * 2**20),
            }
        broker.restart()
        with RawClient(broker.port) as client:
            assert partitions(client) == (7, True)


def test_an_internal_topic_cannot_grow(client: RawClient, new_producer: NewProducer) -> None:
    """The partition of an id follows from their number: with more of them all ids would be looked for elsewhere."""
    new_producer()
    request = CreatePartitionsRequest([CreatePartitionsTopic(TRANSACTION_STATE_TOPIC, 60, None)], timeout_ms=1000)
    (result,) = client.call(ApiKey.CREATE_PARTITIONS, 3, request).results
    assert result.error_code == ErrorCode.INVALID_REQUEST


def test_before_the_topic_exists_nobody_is_the_coordinator() -> None:
    with Broker() as broker, RawClient(broker.port) as client:
        assert Transactional(client, "x").init().error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_protocol_that_is_offered_is_a_setting(level: int) -> None:
    with Broker(transaction_version=level) as broker, RawClient(broker.port) as client:
        answer = client.call(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("raw", "1"))
        assert answer.finalized_features_epoch >= 0
        finalized = {f.name: (f.min_version_level, f.max_version_level) for f in answer.finalized_features}
        assert finalized.get("transaction.version") == ((level, level) if level else None)
        supported = {f.name: (f.min_version, f.max_version) for f in answer.supported_features}
        assert supported["transaction.version"] == (0, 2)
        older = client.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("raw", "1"))
        assert older.supported_features == [], "older clients take a range from 0 for an error"
        topic = client.create_topic("t")
        producer = Transactional(client, "x", is_v2=level == 2)
        producer.find()
        producer.init()
        if level < 2:
            producer.add(topic, 0)
        assert producer.produce(topic).error_code == 0
        assert producer.end(True).error_code == 0


def test_open_transactions_are_measured(name: str) -> None:
    with Broker() as broker, RawClient(broker.port) as client:
        topic = client.create_topic(name)
        producer = Transactional(client, "x")
        producer.find()
        producer.init()
        for value in (b"a", b"b"):
            producer.produce(topic, value)
        assert broker._broker is not None
        page = broker._broker.metrics.render()
    found = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    assert found["semel_transactions_open"] == "1"
    assert found["semel_transactional_ids"] == "1"
    assert float(found["semel_transaction_oldest_seconds"]) >= 0
    assert found["semel_last_stable_offset_lag_max"] == "2"
