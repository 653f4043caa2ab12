"""WriteTxnMarkers: markers from another coordinator, or from an administrator."""

from __future__ import annotations

import pytest

from semel.broker.coordinators.markers import append_marker
from semel.coordinator.partitioning import partition_for
from semel.errors import ErrorCode
from semel.testing import Broker
from semel.types import CONSUMER_OFFSETS_TOPIC, INT32_MAX, TRANSACTION_STATE_TOPIC, ProducerIdentity, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.control import EndTransactionMarker
from semel.wire.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from semel.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.broker.offset_client import fetch_offset
from tests.broker.raw_client import RawClient
from tests.broker.transactional_client import Transactional

VERSIONS = (1, 2)


def write_marker(
    client: RawClient,
    topic: str,
    producer: Transactional,
    *,
    committed: bool = False,
    epoch: int | None = None,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    partition: int = 0,
    version: int = 2,
) -> int:
    marker = WritableTxnMarker(
        producer.producer_id,
        producer.epoch if epoch is None else epoch,
        committed,
        [WritableTxnMarkerTopic(topic, [partition])],
        coordinator_epoch,
        transaction_version,
    )
    answer = client.call(ApiKey.WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest([marker]))
    (result,) = answer.markers
    assert result.producer_id == producer.producer_id
    ((partition_result,),) = (answered.partitions for answered in result.topics)
    code: int = partition_result.error_code
    return code


def forge_marker(broker: Broker, topic: str, producer: Transactional) -> None:
    """Put a marker into the log that the broker would refuse from outside."""

    async def forge() -> None:
        assert broker._broker is not None
        append_marker(
            broker._broker.node,
            TopicPartition(topic, 0),
            ProducerIdentity(producer.producer_id, producer.epoch),
            EndTransactionMarker(committed=False, coordinator_epoch=INT32_MAX),
            transaction_version=0,
        )

    broker._call(forge())


@pytest.fixture
def producer(client: RawClient, topic: str) -> Transactional:
    """With a transaction open on the topic."""
    producer = Transactional(client, f"id of {topic}")
    producer.find()
    producer.init()
    assert producer.produce(topic, b"a").error_code == 0
    return producer


def state(client: RawClient, topic: str) -> ProducerState:
    request = DescribeProducersRequest([TopicRequest(topic, [0])])
    (answered,) = client.call(ApiKey.DESCRIBE_PRODUCERS, 0, request).topics
    (found,) = answered.partitions[0].active_producers
    assert isinstance(found, ProducerState)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_an_administrator_aborts_a_transaction_that_hangs(
    client: RawClient, topic: str, producer: Transactional, version: int
) -> None:
    """What KIP-664's tool does: it reads the producer's state from the partition and sends a marker that fits it."""
    hanging = state(client, topic)
    assert hanging.current_txn_start_offset == 0
    code = write_marker(
        client, topic, producer, epoch=hanging.producer_epoch, coordinator_epoch=hanging.coordinator_epoch or 0
    )
    assert code == 0
    answer = client.fetch(topic, 0, isolation_level=1)
    assert (answer.last_stable_offset, answer.high_watermark) == (2, 2), "the answer came when the marker was safe"
    assert len(answer.aborted_transactions or ()) == 1
    assert state(client, topic).current_txn_start_offset is None
    assert producer.end(True).error_code == 0, "the coordinator's own marker then ends nothing"


def test_scenario_35_a_coordinator_that_was_deposed_writes_nothing(
    broker: Broker, client: RawClient, topic: str, producer: Transactional
) -> None:
    broker.faults.move_coordinator(producer.transactional_id)
    broker.faults.move_coordinator(producer.transactional_id)
    assert write_marker(client, topic, producer, coordinator_epoch=2) == 0
    end = client.fetch(topic, 0).high_watermark
    for committed in (False, True):
        code = write_marker(client, topic, producer, committed=committed, coordinator_epoch=1)
        assert code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert client.fetch(topic, 0).high_watermark == end


@pytest.mark.parametrize("topic_name", ["", CONSUMER_OFFSETS_TOPIC])
def test_an_epoch_that_no_coordinator_has_yet_is_refused_and_the_true_marker_still_comes(
    client: RawClient, topic: str, producer: Transactional, topic_name: str
) -> None:
    """Forged: once in the log, it would keep out every marker of the coordinator, and readers of read_committed."""
    end = client.fetch(topic, 0).high_watermark
    for version in VERSIONS:
        code = write_marker(client, topic_name or topic, producer, coordinator_epoch=INT32_MAX, version=version)
        assert code == ErrorCode.INVALID_REQUEST
    assert client.fetch(topic, 0).high_watermark == end

    assert producer.produce(topic, b"b").error_code == 0
    assert producer.end(True).error_code == 0
    answer = client.fetch(topic, 0, isolation_level=1)
    assert answer.last_stable_offset == answer.high_watermark == end + 2


def test_what_a_forged_epoch_has_left_behind_does_not_keep_out_the_coordinator(
    broker: Broker, client: RawClient, topic: str, producer: Transactional
) -> None:
    forge_marker(broker, topic, producer)
    assert producer.produce(topic, b"b").error_code == 0

    assert producer.end(True).error_code == 0

    answer = client.fetch(topic, 0, isolation_level=1)
    assert answer.last_stable_offset == answer.high_watermark == 4, "a, forged marker, b, true marker"


def test_an_administrator_can_end_what_a_forged_epoch_keeps_open(
    broker: Broker, client: RawClient, topic: str, producer: Transactional
) -> None:
    """The tool sends the epoch that it reads from the partition."""
    forge_marker(broker, topic, producer)
    assert producer.produce(topic, b"b").error_code == 0
    assert write_marker(client, topic, producer, coordinator_epoch=state(client, topic).coordinator_epoch) == 0
    assert state(client, topic).current_txn_start_offset is None


def test_scenario_45_a_marker_of_an_older_epoch_is_refused_and_one_that_ends_nothing_changes_nothing(
    client: RawClient, topic: str, producer: Transactional
) -> None:
    assert write_marker(client, topic, producer, epoch=producer.epoch + 1) == 0
    assert write_marker(client, topic, producer, epoch=producer.epoch) == ErrorCode.INVALID_PRODUCER_EPOCH
    before = client.fetch(topic, 0, isolation_level=1)
    assert write_marker(client, topic, producer, epoch=producer.epoch + 1) == 0
    after = client.fetch(topic, 0, isolation_level=1)
    assert after.aborted_transactions == before.aborted_transactions
    assert after.last_stable_offset == after.high_watermark == before.high_watermark + 1


def test_with_transactions_v2_a_marker_must_raise_the_epoch_of_what_it_ends(
    client: RawClient, topic: str, producer: Transactional
) -> None:
    """KAFKA-19999: a repeated marker must not end the next transaction, which has the epoch that the marker raised."""
    code = write_marker(client, topic, producer, committed=True, transaction_version=2)
    assert code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert state(client, topic).current_txn_start_offset == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_what_cannot_be_marked_is_said_of_each_partition(
    client: RawClient, topic: str, producer: Transactional, version: int
) -> None:
    marker = WritableTxnMarker(
        producer.producer_id,
        producer.epoch,
        False,
        [
            WritableTxnMarkerTopic(topic, [0, 9]),
            WritableTxnMarkerTopic("no-such-topic", [0]),
            WritableTxnMarkerTopic(TRANSACTION_STATE_TOPIC, [0]),
        ],
    )
    answer = client.call(ApiKey.WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest([marker]))
    assert [[p.error_code for p in t.partitions] for t in answer.markers[0].topics] == [
        [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.INVALID_TOPIC_EXCEPTION],
    ]


def test_a_marker_without_a_producer_is_refused(client: RawClient, topic: str, producer: Transactional) -> None:
    assert write_marker(client, topic, producer, epoch=-1) == ErrorCode.INVALID_REQUEST


def test_a_marker_in_the_offsets_topic_decides_about_pending_offsets(client: RawClient, topic: str) -> None:
    producer = Transactional(client, f"offsets of {topic}")
    producer.find()
    producer.init()
    group = f"group of {topic}"
    assert producer.commit_offset(group, topic, 5) == 0
    partition = partition_for(group, 50)
    assert write_marker(client, CONSUMER_OFFSETS_TOPIC, producer, committed=True, partition=partition) == 0
    assert fetch_offset(client, group, topic) == (0, 5)
