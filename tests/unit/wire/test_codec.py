"""The rules of the codec one by one: bytes written by hand, and what exactly is refused."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from semel.errors import DecodeError
from semel.wire.codec import decode, decoder, encode, encoder
from semel.wire.encoding import RECORDS_BY_REFERENCE_SIZE_BYTES_MIN
from semel.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from semel.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from semel.wire.messages.end_txn import EndTxnResponse
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest
from semel.wire.schema import INT32, field, message
from tests.memory import peak_bytes
from tests.properties.wire.message_strategies import encode_parts

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


@message(versions=(0, 0), flexible_since=None)
class Numbers:
    index: int = field(INT32)
    epoch: int | None = field(INT32, absent=-1)


def produce(records: Any) -> ProduceRequest:
    partition = PartitionProduceData(3, records)
    return ProduceRequest(None, -1, 500, [TopicProduceData("orders", partition_data=[partition])])


@pytest.mark.parametrize(
    ("version", "encoded"),
    [
        (8, "ffff ffff 000001f4 00000001 0006 6f7264657273 00000001 00000003 00000002 abcd"),
        (9, "00 ffff 000001f4 02 07 6f7264657273 02 00000003 03 abcd 00 00 00"),
    ],
)
def test_a_produce_request_before_and_after_it_became_flexible(version: int, encoded: str) -> None:
    assert encode(produce(b"\xab\xcd"), version) == bytes.fromhex(encoded)
    assert decode(ProduceRequest, bytes.fromhex(encoded), version) == produce(b"\xab\xcd")


def test_a_field_that_a_version_does_not_carry_is_skipped_and_comes_back_as_its_default() -> None:
    response = EndTxnResponse(producer_id=1000, producer_epoch=7)
    assert decode(EndTxnResponse, encode(response, 4), 4) == EndTxnResponse(producer_id=None, producer_epoch=None)
    assert decode(EndTxnResponse, encode(response, 5), 5) == response


def test_a_topic_id_takes_the_place_of_the_name() -> None:
    request = FetchRequest(topics=[FetchTopic("orders", TOPIC_ID, [FetchPartition(0, fetch_offset=9)])])
    assert decode(FetchRequest, encode(request, 12), 12).topics[0].topic == "orders"
    newer = decode(FetchRequest, encode(request, 13), 13)
    assert (newer.topics[0].topic, newer.topics[0].topic_id) == ("", TOPIC_ID)
    assert TOPIC_ID.bytes in encode(request, 13)


# -- tagged fields


def test_tagged_fields_are_written_in_the_order_of_their_tags_if_they_differ_from_their_defaults() -> None:
    request = FetchRequest(cluster_id="c", replica_state=ReplicaState(5, 6))
    assert encode(request, 15).endswith(bytes.fromhex("02  00 02 0263  01 0d 00000005 0000000000000006 00"))
    assert encode(FetchRequest(), 15).endswith(bytes.fromhex("01 01 01 00"))
    assert decode(FetchRequest, encode(request, 15), 15) == request


def test_the_features_that_switch_clients_to_transactions_v2_are_tagged_fields() -> None:
    response = ApiVersionsResponse(
        finalized_features_epoch=1, finalized_features=[FinalizedFeatureKey("transaction.version", 2, 2)]
    )
    body = "0000 01 00000000 02  01 08 0000000000000001  02 1a 02 14" + b"transaction.version".hex() + "0002 0002 00"
    assert encode(response, 3) == bytes.fromhex(body)
    assert decode(ApiVersionsResponse, bytes.fromhex(body), 3) == response
    assert encode(response, 2) == bytes.fromhex("0000 00000000 00000000")


def test_unknown_tagged_fields_are_skipped_with_and_without_known_ones_beside_them() -> None:
    nobody_knows_any = bytes.fromhex("01 01  02  00 03 aabbcc  c801 00")
    assert decode(ApiVersionsRequest, nobody_knows_any, 3) == ApiVersionsRequest()
    known = bytes.fromhex("0000 01 00000000 03  01 08 0000000000000007  05 01 ff  06 00")
    assert decode(ApiVersionsResponse, known, 3) == ApiVersionsResponse(finalized_features_epoch=7)


def test_a_known_tagged_field_must_have_the_size_that_stands_before_it() -> None:
    for wrong_size in (7, 9):
        body = bytes.fromhex(f"0000 01 00000000 01  01 {wrong_size:02x} 0000000000000007 00")
        with pytest.raises(DecodeError, match=f"finalized_features_epoch: it is not {wrong_size} bytes"):
            decode(ApiVersionsResponse, body, 3)


def test_a_tagged_struct_is_absent_if_it_equals_its_default_and_not_only_if_it_is_the_default() -> None:
    def response(leader: LeaderIdAndEpoch) -> ProduceResponse:
        partition = PartitionProduceResponse(0, 6, current_leader=leader)
        return ProduceResponse([TopicProduceResponse("orders", partition_responses=[partition])])

    assert encode(response(LeaderIdAndEpoch(None, None)), 10) == encode(response(LeaderIdAndEpoch()), 10)
    moved = response(LeaderIdAndEpoch(2, 8))
    assert decode(ProduceResponse, encode(moved, 10), 10) == moved


# -- null


def test_null_and_empty_are_different_things() -> None:
    for version in (1, 9):
        for topics in (None, [], [MetadataRequestTopic(name="a")]):
            assert decode(MetadataRequest, encode(MetadataRequest(topics), version), version).topics == topics


def test_a_nullable_struct_has_a_marker_before_it() -> None:
    request = DescribeTopicPartitionsRequest(response_partition_limit=1, cursor=Cursor("t", 5))
    assert encode(request, 0) == bytes.fromhex("01 00000001 01 0274 00000005 00 00")
    assert decode(DescribeTopicPartitionsRequest, encode(request, 0), 0) == request
    assert encode(DescribeTopicPartitionsRequest(), 0) == bytes.fromhex("01 000007d0 ff 00")
    with pytest.raises(DecodeError, match="cursor: a marker that is not -1 or 1 but 2"):
        decode(DescribeTopicPartitionsRequest, bytes.fromhex("01 00000001 02 0274 00000005 00 00"), 0)


def test_a_number_that_stands_for_nothing_is_none_and_only_that_number_is() -> None:
    encoded = bytes.fromhex("00000000 0000  ffffffffffffffff ffff 00")
    assert encode(EndTxnResponse(producer_id=None, producer_epoch=None), 5) == encoded
    assert decode(EndTxnResponse, encoded, 5) == EndTxnResponse(producer_id=None, producer_epoch=None)
    for number in (0, 1, -2):
        response = EndTxnResponse(producer_id=number, producer_epoch=number)
        assert decode(EndTxnResponse, encode(response, 5), 5) == response


def test_a_tagged_number_that_stands_for_nothing_is_none_whether_it_was_written_or_left_out() -> None:
    left_out, written = "0000 01 00000000 00", "0000 01 00000000 01  01 08 ffffffffffffffff"
    assert encode(ApiVersionsResponse(finalized_features_epoch=None), 3) == bytes.fromhex(left_out)
    for encoded in (left_out, written):
        assert decode(ApiVersionsResponse, bytes.fromhex(encoded), 3) == ApiVersionsResponse()


def test_a_number_that_cannot_be_absent_is_not_encoded_from_none() -> None:
    with pytest.raises(ValueError, match="index is None: required argument is not an integer"):
        encode(Numbers(index=None), 0)  # type: ignore[arg-type]
    assert encode(Numbers(index=3), 0) == bytes.fromhex("00000003 ffffffff")
    with pytest.raises(ValueError, match="epoch is 'x': required argument is not an integer"):
        encode(Numbers(index=3, epoch="x"), 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message_class", "version", "encoded", "rule"),
    [
        (SaslHandshakeRequest, 0, "ffff", "SaslHandshakeRequest v0, byte 2: mechanism: length -1, 0 bytes left"),
        (ApiVersionsRequest, 3, "00 01 00", "client_software_name: length -1"),
        (MetadataRequest, 0, "ffffffff", "topics: count -1"),
        (MetadataRequest, 1, "fffffffe", "topics: count -2"),
        (ProduceRequest, 3, "fffe", "transactional_id: length -2"),
    ],
)
def test_a_negative_length_is_refused_where_null_is_not_allowed(
    message_class: type[Any], version: int, encoded: str, rule: str
) -> None:
    with pytest.raises(DecodeError, match=rule):
        decode(message_class, bytes.fromhex(encoded), version)


# -- lengths


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_382, 16_383, 32_767])
def test_strings_of_every_width_of_length(size: int) -> None:
    handshake = SaslHandshakeRequest("x" * size)
    assert decode(SaslHandshakeRequest, encode(handshake, 0), 0) == handshake
    compact = ApiVersionsRequest("x" * size)
    assert decode(ApiVersionsRequest, encode(compact, 3), 3) == compact


def test_a_string_longer_than_any_client_accepts_is_neither_written_nor_read() -> None:
    with pytest.raises(ValueError, match="client_software_name has 32768 bytes; a string has at most 32767"):
        encode(ApiVersionsRequest("x" * 32_768), 3)
    with pytest.raises(DecodeError, match="a string has at most 32767 bytes"):
        decode(ApiVersionsRequest, bytes.fromhex("818002") + b"x" * 32_768 + bytes.fromhex("0100"), 3)


def test_an_array_with_more_elements_than_a_one_byte_count_holds() -> None:
    request = MetadataRequest([MetadataRequestTopic(name=f"topic-{number}") for number in range(300)])
    for version in (8, 9):
        assert decode(MetadataRequest, encode(request, version), version) == request


@pytest.mark.parametrize(
    ("version", "encoded", "rule"),
    [
        (0, "7fffffff", "MetadataRequest v0, byte 4: topics: count 2147483647, 0 bytes left"),
        (0, "00000002 0001 61", "topics: count 2, 3 bytes left"),
        (0, "00000001 7fff 6162", r"topics\[\].name: length 32767, 2 bytes left"),
        (0, "00000001 0002 c3c3", "byte 6: text that is not UTF-8"),
        (0, "00000001 00", "count 1, 1 bytes left"),
        (9, "ffffffff0f", "topics: count 4294967294, 0 bytes left"),
        (9, "ffffffffff0f", "does not fit 32 bits"),
        (9, "ff", "byte 1: the bytes end inside the message"),
        (9, "02 02 61 00", "the bytes end inside the message"),
    ],
)
def test_a_refusal_says_where_and_which_rule(version: int, encoded: str, rule: str) -> None:
    with pytest.raises(DecodeError, match=rule):
        decode(MetadataRequest, bytes.fromhex(encoded), version)


def test_a_count_is_compared_with_what_its_elements_need_at_least_before_a_list_is_made() -> None:
    decoder(MetadataRequest, 8)
    claims = (1_000_000).to_bytes(4, "big") + bytes(1_500_000)

    def refused() -> None:
        with pytest.raises(DecodeError, match="topics: count 1000000"):
            decode(MetadataRequest, claims, 8)

    refused()
    assert peak_bytes(refused) < 10_000


# -- records


def test_records_are_decoded_as_a_slice_of_the_buffer_they_came_in() -> None:
    frame = encode(produce(b"batch"), 9)
    records = decode(ProduceRequest, frame, 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert records == b"batch"


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_large_records_are_parts_of_their_own_and_small_ones_are_copied(buffer: Any) -> None:
    large = buffer(bytes(RECORDS_BY_REFERENCE_SIZE_BYTES_MIN))
    for version in (8, 9):
        parts = encode_parts(produce(large), version)
        assert parts[1] is large
        assert b"".join(parts) == encode(produce(large), version)
    small = buffer(bytes(RECORDS_BY_REFERENCE_SIZE_BYTES_MIN - 1))
    assert len(encode_parts(produce(small), 9)) == 1


def test_null_records_are_null() -> None:
    for version in (8, 9):
        assert decode(ProduceRequest, encode(produce(None), version), version) == produce(None)


def test_a_message_may_begin_inside_its_buffer_and_ends_where_it_ends() -> None:
    body = encode(produce(b"batch"), 9)
    assert decode(ProduceRequest, b"header" + body, 9, len(b"header")) == produce(b"batch")
    with pytest.raises(DecodeError, match="the message is over and 2 bytes are left"):
        decode(ProduceRequest, body + b"..", 9)


# -- bugs of the caller


def test_a_version_that_a_message_does_not_have_is_named() -> None:
    for compiled in (encoder, decoder):
        with pytest.raises(ValueError, match="ProduceRequest has versions 3 to 13, and none that is 14"):
            compiled(ProduceRequest, 14)


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        (ProduceRequest(acks=70_000), "ProduceRequest v7: acks is 70000: 'h' format requires"),
        (produce("text"), r"topic_data\[0\].partition_data\[0\].records is 'text', not bytes"),
        (ProduceRequest(topic_data=[TopicProduceData(None)]), r"topic_data\[0\].name is None, not a string"),  # type: ignore[arg-type]
        (ProduceRequest(topic_data=None), "topic_data is None, not a list"),  # type: ignore[arg-type]
        (ProduceRequest(topic_data=["orders"]), r"topic_data\[0\] is 'orders', not a TopicProduceData"),  # type: ignore[list-item]
        (ProduceRequest(transactional_id="\ud800"), "transactional_id is not text"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_path_and_the_rule(message: ProduceRequest, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        encode(message, 7)


def test_functions_are_compiled_once() -> None:
    assert encoder(ProduceRequest, 9) is encoder(ProduceRequest, 9)
    assert decoder(ProduceRequest, 9) is decoder(ProduceRequest, 9)
