"""Frames and headers, against bytes written by hand and against kio's headers."""

from __future__ import annotations

import io
from typing import Any

import pytest
from kio.schema.request_header.v1.header import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioHeaderV2
from kio.serial import entity_writer

from semel.errors import DecodeError
from semel.wire.apis import APIS, ApiKey
from semel.wire.codec import decode, encode
from semel.wire.framing import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_request_parts,
    encode_response,
    encode_response_parts,
)
from semel.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from semel.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from semel.wire.messages.metadata import MetadataRequest
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

API_VERSIONS, PRODUCE, FETCH, METADATA = (
    APIS[key] for key in (ApiKey.API_VERSIONS, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA)
)


def test_a_flexible_request_is_what_librdkafka_sends_first() -> None:
    frame = encode_request(1, API_VERSIONS, 3, ApiVersionsRequest("librdkafka", "2.6"), client_id="rdkafka")
    assert frame == bytes.fromhex(
        "00000022"  # size
        "0012 0003 00000001"  # key, version, correlation id
        "0007 72646b61666b61"  # the client id is not compact
        "00"  # no tagged fields in the header
        "0b 6c696272646b61666b61"  # compact: ten bytes
        "04 322e36"
        "00"
    )


def test_a_request_that_is_not_flexible_has_header_v1() -> None:
    frame = encode_request(7, METADATA, 1, MetadataRequest(topics=None), client_id=None)
    assert frame == bytes.fromhex("0000000e 0003 0001 00000007 ffff ffffffff")


@pytest.mark.parametrize("client_id", ["kcat", "", "é", None])
@pytest.mark.parametrize(("version", "kio_class"), [(8, KioHeaderV1), (9, KioHeaderV2)])
def test_kio_writes_the_same_request_header(client_id: str | None, version: int, kio_class: Any) -> None:
    out = io.BytesIO()
    theirs = {"request_api_key": 0, "request_api_version": version, "correlation_id": -5, "client_id": client_id}
    entity_writer(kio_class)(out, kio_class(**theirs))
    body = encode(ProduceRequest(), version)
    assert encode_request(-5, PRODUCE, version, ProduceRequest(), client_id=client_id)[4:] == out.getvalue() + body
    assert decode_request_header(out.getvalue() + body) == (
        RequestHeader(0, version, -5, client_id),
        len(out.getvalue()),
    )


def test_tagged_fields_of_a_request_header_are_skipped() -> None:
    header = bytes.fromhex("0000 0009 00000001 ffff 02 00 01 aa 81 01 00")
    assert decode_request_header(memoryview(header + b"body")) == (RequestHeader(0, 9, 1, None), len(header))


@pytest.mark.parametrize("frame", ["0012 0063 0000002a", "0012 0063 0000002a 7fff ff", "03e7 0000 0000002a 8000"])
def test_of_an_unknown_key_or_version_only_the_fixed_part_is_read(frame: str) -> None:
    header, position = decode_request_header(bytes.fromhex(frame))
    assert (header.correlation_id, header.client_id, position) == (42, None, 8)


def test_a_produce_version_that_is_only_advertised_is_unknown() -> None:
    header, _ = decode_request_header(bytes.fromhex("0000 0002 00000001 0001 61"))
    assert header == RequestHeader(0, 2, 1, None)


def test_a_request_header_cut_anywhere_is_refused() -> None:
    header = bytes.fromhex("0000 0009 00000001 0003 616263 01 00 02 aabb")
    assert decode_request_header(header)[1] == len(header)
    for size in range(len(header)):
        with pytest.raises(DecodeError):
            decode_request_header(header[:size])


@pytest.mark.parametrize(
    ("client_id", "rule"),
    [
        ("fffe", "client id: length -2"),
        ("7fff 61", "client id: length 32767, 1 bytes left"),
        ("0001 ff", "client id: text that is not UTF-8"),
    ],
)
def test_a_bad_client_id_is_refused_with_its_place_and_the_rule(client_id: str, rule: str) -> None:
    with pytest.raises(DecodeError, match=f"request header, byte 10: {rule}"):
        decode_request_header(bytes.fromhex("0000 0003 00000001" + client_id))


def test_the_response_to_api_versions_has_header_v0_in_every_version() -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(0, 0, 13)])
    for version in range(5):
        frame = encode_response(9, API_VERSIONS, version, response)
        assert frame[4:8] == bytes.fromhex("00000009")
        assert frame[8:] == encode(response, version)
        assert decode_response_header(frame[4:], API_VERSIONS, version) == (9, 4)


def test_an_unknown_api_versions_version_can_be_answered_in_a_body_of_version_zero() -> None:
    header, _ = decode_request_header(bytes.fromhex("0012 0063 0000002a 0000 00"))
    frame = encode_response(header.correlation_id, API_VERSIONS, 0, ApiVersionsResponse(error_code=35))
    assert frame == bytes.fromhex("0000000a 0000002a 0023 00000000")


@pytest.mark.parametrize(("version", "header"), [(8, "0000002a"), (9, "0000002a 00")])
def test_other_flexible_responses_have_tagged_fields_in_the_header(version: int, header: str) -> None:
    frame = encode_response(42, PRODUCE, version, ProduceResponse())
    assert frame[4 : 4 + len(bytes.fromhex(header))] == bytes.fromhex(header)
    correlation_id, position = decode_response_header(frame[4:], PRODUCE, version)
    assert correlation_id == 42
    assert decode(ProduceResponse, frame, version, 4 + position) == ProduceResponse()


def test_a_response_header_cut_anywhere_is_refused() -> None:
    header = bytes.fromhex("0000002a 01 00 02 aabb")
    assert decode_response_header(header, PRODUCE, 9) == (42, len(header))
    for size in range(len(header)):
        with pytest.raises(DecodeError):
            decode_response_header(header[:size], PRODUCE, 9)


def test_a_response_in_parts_holds_the_records_themselves_and_the_size_of_everything() -> None:
    records = bytes(100_000)
    response = FetchResponse(
        responses=[FetchableTopicResponse("orders", partitions=[PartitionData(0, records=records) for _ in range(2)])]
    )
    parts = encode_response_parts(3, FETCH, 12, response)
    assert [part is records for part in parts] == [False, True, False, True, False]
    assert b"".join(parts) == encode_response(3, FETCH, 12, response)
    assert int.from_bytes(parts[0][:4], "big") == sum(map(len, parts)) - 4


def test_a_request_in_parts_holds_the_records_themselves() -> None:
    records = memoryview(bytes(100_000))
    request = ProduceRequest(topic_data=[TopicProduceData("orders", partition_data=[PartitionProduceData(0, records)])])
    parts = encode_request_parts(3, PRODUCE, 9, request, client_id="semel")
    assert parts[1] is records
    assert b"".join(parts) == encode_request(3, PRODUCE, 9, request, client_id="semel")
