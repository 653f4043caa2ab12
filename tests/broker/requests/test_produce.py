from __future__ import annotations

import struct
import time
from uuid import UUID

import pytest

from semel.errors import ErrorCode
from semel.testing import Broker
from semel.types import INTERNAL_TOPICS
from semel.wire.apis import APIS, ApiKey
from semel.wire.crc import crc32c
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.records import ATTRIBUTES_POSITION, CRC_POSITION, Codec
from tests.broker.raw_client import RawClient, batch, fetch_request, produce_request, values

VERSIONS = range(APIS[ApiKey.PRODUCE].min_version, APIS[ApiKey.PRODUCE].max_version + 1)


def topic_id(client: RawClient, topic: str) -> UUID:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (described,) = client.call(ApiKey.METADATA, 12, asked).topics
    found: UUID = described.topic_id
    return found


def with_attributes(records: bytes, set_bits: int = 0, clear_bits: int = 0) -> bytes:
    """The batch with other attributes and a CRC that agrees."""
    changed = bytearray(records)
    (attributes,) = struct.unpack_from(">h", changed, ATTRIBUTES_POSITION)
    struct.pack_into(">h", changed, ATTRIBUTES_POSITION, attributes & ~clear_bits | set_bits)
    struct.pack_into(">I", changed, CRC_POSITION, crc32c(changed[ATTRIBUTES_POSITION:]))
    return bytes(changed)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_every_version_appends_and_answers_with_the_offset(
    client: RawClient, topic: str, version: int, acks: int
) -> None:
    identity = topic_id(client, topic)
    for expected in (0, 2):
        request = produce_request(topic, batch(b"a", b"b"), acks=acks)
        request.topic_data[0].topic_id = identity
        response = client.call(ApiKey.PRODUCE, version, request)

        (answered,) = response.responses
        (partition,) = answered.partition_responses
        assert (answered.name, answered.topic_id) == ((topic, UUID(int=0)) if version < 13 else ("", identity))
        assert (partition.error_code, partition.base_offset, partition.log_append_time_ms) == (0, expected, None)
        assert partition.log_start_offset == (0 if version >= 5 else None)
        assert partition.error_message is None
    assert values(client.fetch(topic, 0)) == [(0, b"a"), (1, b"b"), (2, b"a"), (3, b"b")]


def test_acks_0_appends_and_answers_nothing(client: RawClient, topic: str) -> None:
    client.send(ApiKey.PRODUCE, 9, produce_request(topic, batch(b"silent"), acks=0))

    # The next answer on this connection is that of the next request.
    assert client.produce(topic, batch(b"loud")).base_offset == 1
    assert values(client.fetch(topic, 0)) == [(0, b"silent"), (1, b"loud")]


def test_acks_0_with_an_error_closes_the_connection(client: RawClient) -> None:
    client.send(ApiKey.PRODUCE, 9, produce_request("no-such-topic", batch(b"x"), acks=0))

    assert client.is_closed_by_broker()


def test_acks_0_with_a_batch_that_the_log_refuses_closes_the_connection(client: RawClient, topic: str) -> None:
    client.send(ApiKey.PRODUCE, 9, produce_request(topic, bad_crc(), acks=0))

    assert client.is_closed_by_broker()


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused_and_nothing_is_appended(client: RawClient, topic: str, acks: int) -> None:
    answer = client.produce(topic, batch(b"x"), acks=acks)

    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, None)
    assert client.fetch(topic, 0).high_watermark == 0


def test_one_bad_partition_leaves_the_others_alone(client: RawClient, name: str) -> None:
    client.create_topic(name, partitions=2)
    corrupt = bytearray(batch(b"bad"))
    corrupt[-1] ^= 1
    data = [
        PartitionProduceData(0, batch(b"good")),
        PartitionProduceData(1, corrupt),
        PartitionProduceData(7, batch(b"nowhere")),
    ]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=name, partition_data=data)])

    ((good, bad, nowhere),) = (topic.partition_responses for topic in client.call(ApiKey.PRODUCE, 9, request).responses)

    assert (good.error_code, good.base_offset) == (0, 0)
    assert (bad.error_code, bad.base_offset) == (ErrorCode.CORRUPT_MESSAGE, None)
    assert (nowhere.error_code, nowhere.base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    assert "fails its CRC" in bad.error_message


def bad_crc() -> bytes:
    records = bytearray(batch(b"x"))
    records[CRC_POSITION] ^= 0xFF
    return bytes(records)


def magic(number: int) -> bytes:
    records = bytearray(batch(b"x"))
    records[16] = number
    return bytes(records)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        pytest.param(None, ErrorCode.INVALID_RECORD, id="null"),
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="empty"),
        pytest.param(bad_crc(), ErrorCode.CORRUPT_MESSAGE, id="bad CRC"),
        pytest.param(batch(b"x")[:-1], ErrorCode.CORRUPT_MESSAGE, id="cut off"),
        pytest.param(batch(b"x")[:30], ErrorCode.CORRUPT_MESSAGE, id="cut off in the header"),
        pytest.param(magic(0), ErrorCode.INVALID_RECORD, id="magic 0"),
        pytest.param(magic(1), ErrorCode.INVALID_RECORD, id="magic 1"),
        pytest.param(batch(b"x") + batch(b"y"), ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(with_attributes(batch(b"x"), 6), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, id="unknown codec"),
        pytest.param(with_attributes(batch(b"x"), 0x20), ErrorCode.INVALID_RECORD, id="control batch (scenario 44)"),
        pytest.param(batch(b"x" * 1_100_000), ErrorCode.MESSAGE_TOO_LARGE, id="too large"),
        pytest.param(
            batch(b"x", timestamp=int(time.time() * 1000) + 7_200_000), ErrorCode.INVALID_TIMESTAMP, id="far future"
        ),
        pytest.param(
            batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            id="transactional, without a transactional id (CVE-2018-17196)",
        ),
    ],
)
def test_a_bad_batch_is_refused_with_kafka_s_error(
    client: RawClient, topic: str, records: bytes | None, code: ErrorCode
) -> None:
    for version in (3, 7, 9, 12):
        answer = client.produce(topic, records, version=version)
        assert (answer.error_code, answer.base_offset) == (code, None)
        assert bool(answer.error_message) == (version >= 8)
    assert client.fetch(topic, 0).high_watermark == 0


def test_zstd_needs_version_7(client: RawClient, topic: str) -> None:
    records = batch(b"x" * 100, codec=Codec.ZSTD)

    assert client.produce(topic, records, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert client.produce(topic, records, version=7).error_code == ErrorCode.NONE


def test_a_record_without_key_is_refused_by_a_compacted_topic(client: RawClient, name: str) -> None:
    from semel.wire.records import Record, build_batch

    client.create_topic(name, cleanup_policy="compact")
    records = build_batch([Record(0, int(time.time() * 1000), key=None, value=b"v")])

    assert client.produce(name, records).error_code == ErrorCode.INVALID_RECORD


def test_log_append_time_is_told(client: RawClient, name: str) -> None:
    client.create_topic(name, message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)

    answer = client.produce(name, batch(b"x", timestamp=1))

    assert before_ms <= answer.log_append_time_ms <= int(time.time() * 1000)


@pytest.mark.parametrize("internal", sorted(INTERNAL_TOPICS))
def test_a_client_may_not_write_to_an_internal_topic(client: RawClient, internal: str) -> None:
    assert client.produce(internal, batch(b"x")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_an_unknown_topic_id_is_refused(client: RawClient) -> None:
    request = produce_request("", batch(b"x"))
    request.topic_data[0].topic_id = UUID(int=99)

    ((answer,),) = (topic.partition_responses for topic in client.call(ApiKey.PRODUCE, 13, request).responses)

    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_retried_batch_is_answered_with_its_first_offset_and_appended_once(client: RawClient, topic: str) -> None:
    """Scenario 1."""
    client.produce(topic, batch(b"other"))
    records = batch(b"a", b"b", producer_id=4000, producer_epoch=0, base_sequence=0)

    first, retried = client.produce(topic, records), client.produce(topic, records)

    assert (first.error_code, first.base_offset) == (0, 1)
    assert (retried.error_code, retried.base_offset) == (0, 1)
    assert client.fetch(topic, 0).high_watermark == 3


def test_a_sequence_gap_is_refused_and_nothing_is_appended(client: RawClient, topic: str) -> None:
    """Scenario 3."""
    client.produce(topic, batch(b"a", producer_id=4001, producer_epoch=0, base_sequence=0))

    answer = client.produce(topic, batch(b"c", producer_id=4001, producer_epoch=0, base_sequence=2))

    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert "expected 1" in (answer.error_message or "")
    assert client.fetch(topic, 0).high_watermark == 1


def test_pipelined_requests_are_appended_and_answered_in_order(client: RawClient, topic: str) -> None:
    count = 500
    sent = [client.send(ApiKey.PRODUCE, 9, produce_request(topic, batch(b"%d" % n))) for n in range(count)]

    for number, correlation_id in enumerate(sent):
        response = client.receive(ApiKey.PRODUCE, 9, correlation_id)
        assert response.responses[0].partition_responses[0].base_offset == number
    found = client.call(ApiKey.FETCH, 11, fetch_request(topic, 0)).responses[0].partitions[0]
    assert values(found) == [(n, b"%d" % n) for n in range(count)]


def test_a_large_batch_arrives_whole(client: RawClient, name: str) -> None:
    client.create_topic(name, max_message_bytes="20000000")
    value = bytes(range(256)) * 40_000

    assert client.produce(name, batch(value)).error_code == 0
    assert values(client.fetch(name, 0)) == [(0, value)]


def test_the_same_records_come_back_after_a_kill(name: str) -> None:
    with Broker() as broker:
        with RawClient(broker.port) as client:
            client.create_topic(name)
            client.produce(name, batch(b"kept", producer_id=1, producer_epoch=0, base_sequence=0))
        broker.restart(kill=True)
        with RawClient(broker.port) as client:
            again = client.produce(name, batch(b"kept", producer_id=1, producer_epoch=0, base_sequence=0))
            assert (again.error_code, again.base_offset) == (0, 0)
            assert values(client.fetch(name, 0)) == [(0, b"kept")]
