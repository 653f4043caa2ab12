"""Large messages are decoded and encoded in slices: with the same result, and never more than a slice at once."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Generator
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semel.errors import DecodeError
from semel.wire.apis import APIS, ApiKey
from semel.wire.codec import decode, encode, sliced_decoder, sliced_encoder
from semel.wire.decoding import SLICE_ELEMENTS
from semel.wire.framing import decode_request_header, encode_request, encode_response, encode_response_in_slices
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.properties.wire.message_strategies import as_of, legal_in, message_classes, messages, versions

T = TypeVar("T")
MANY = 1_000_000


def run(steps: Generator[None, None, T]) -> tuple[T, int]:
    """What it returns, and after how many pauses."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


@pytest.mark.parametrize("message_class", message_classes(), ids=lambda message_class: message_class.__name__)
@settings(max_examples=5, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_message_is_the_same_in_slices(message_class: type[Any], data: st.DataObject) -> None:
    message = data.draw(messages(message_class))
    chance = random.Random(message_class.__name__)
    for version in versions(message_class):
        expected = as_of(message, version)
        encoded = encode(legal_in(message, version), version)
        parts: list[Any] = []
        (last, _) = run(sliced_encoder(message_class, version)(expected, bytearray(), parts))
        assert b"".join([*parts, last]) == encoded
        ((decoded, elements), _) = run(sliced_decoder(message_class, version)(encoded, 0, MANY))
        assert decoded == expected
        with contextlib.suppress(DecodeError):
            run(sliced_decoder(message_class, version)(chance.randbytes(60), 0, MANY))
        if elements:
            with pytest.raises(DecodeError, match=f"more than {elements - 1} elements"):
                run(sliced_decoder(message_class, version)(encoded, 0, elements - 1))


NAMES = MetadataRequest([MetadataRequestTopic(name="") for _ in range(30_000)])
PARTITIONS = FetchRequest(topics=[FetchTopic(partitions=[FetchPartition() for _ in range(10)]) for _ in range(2000)])
NUMBERS = OffsetFetchRequest(
    groups=[OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[1])] * 9000)]
)


@pytest.mark.parametrize(
    ("message", "version", "elements"),
    [(NAMES, 4, 30_000), (NAMES, 13, 30_000), (PARTITIONS, 17, 22_000), (NUMBERS, 9, 18_001)],
    ids=["names", "compact names", "partitions", "numbers"],
)
def test_no_slice_is_larger_than_it_may_be(message: Any, version: int, elements: int) -> None:
    encoded = encode(message, version)
    ((_, counted), pauses) = run(sliced_decoder(type(message), version)(encoded, 0, MANY))
    assert counted == elements
    structs = elements if not isinstance(message, OffsetFetchRequest) else elements - 9000
    assert pauses >= structs // (SLICE_ELEMENTS + 1)


def test_a_count_is_refused_before_anything_is_decoded() -> None:
    """50 million names in a frame of 100 MB took 148 s and 3 GB."""
    encoded = bytes(encode(MetadataRequest([MetadataRequestTopic(name="") for _ in range(30_000)]), 4))
    steps = sliced_decoder(MetadataRequest, 4)(encoded, 0, 29_999)
    with pytest.raises(DecodeError, match="topics: more than 29999 elements"):
        next(steps)


def test_tagged_fields_that_are_not_known_count_as_elements() -> None:
    body = bytes(encode(MetadataRequest(topics=[]), 12))
    assert body[-1] == 0
    tags = 5000
    flood = body[:-1] + bytes([tags & 0x7F | 0x80, tags >> 7]) + b"\x7f\0" * tags
    assert decode(MetadataRequest, flood, 12) == MetadataRequest(topics=[])
    with pytest.raises(DecodeError, match="tagged fields"):
        run(sliced_decoder(MetadataRequest, 12)(flood, 0, tags - 1))


def test_a_header_with_more_tagged_fields_than_anybody_has_is_refused() -> None:
    api = APIS[ApiKey.METADATA]
    frame = bytes(encode_request(1, api, 12, MetadataRequest(topics=[]), client_id="c"))[4:]
    position = decode_request_header(frame)[1]
    tags = 5000
    flood = frame[: position - 1] + bytes([tags & 0x7F | 0x80, tags >> 7]) + b"\x7f\0" * tags + frame[position:]
    with pytest.raises(DecodeError, match="5000 tagged fields"):
        decode_request_header(flood)


def test_a_large_answer_is_framed_in_slices() -> None:
    api = APIS[ApiKey.METADATA]
    partitions = [MetadataResponsePartition(partition_index=index, replica_nodes=[1]) for index in range(10_000)]
    response = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions)])
    for version in range(api.min_version, api.max_version + 1):
        parts, pauses = run(encode_response_in_slices(7, api, version, response))
        assert b"".join(parts) == encode_response(7, api, version, response)
        assert pauses >= 10_000 // (SLICE_ELEMENTS + 1)
