"""Batches whose records are not what their header claims. Each is a ``DecodeError`` that names the broken rule."""

from __future__ import annotations

import struct

import pytest

from semel.errors import DecodeError
from semel.wire.records import (
    HEADER_SIZE,
    LAST_OFFSET_DELTA_POSITION,
    RECORD_COUNT_POSITION,
    Codec,
    Record,
    UnsupportedCodec,
    build_batch,
    iterate_records,
    parse_header,
)
from semel.wire.records.header import HEADER
from tests.properties.wire.validated_records import validate_records

GOOD = b"\x0e\x00\x00\x00\x01\x01\x00\x00"
"""A record by hand: length 7, attributes, timestamp delta, offset delta, no key, no value, no headers, spare byte."""


def batch_of(payload: bytes, *, count: int = 1, last_offset_delta: int = 0, attributes: int = 0) -> bytes:
    """A batch around hand-made records. Its CRC is wrong, which is not the reader's business."""
    length = HEADER_SIZE - 12 + len(payload)
    return HEADER.pack(0, length, 0, 2, 0, attributes, last_offset_delta, 1000, 1000, -1, -1, -1, count) + payload


def record(*fields: bytes) -> bytes:
    """Fields behind their length, which is below 64 and so one byte."""
    body = b"".join(fields)
    return bytes([2 * len(body)]) + body


ATTRIBUTES = TIMESTAMP = OFFSET = NO_HEADERS = b"\x00"
NULL = b"\x01"


def test_the_smallest_record_is_read() -> None:
    smallest = record(ATTRIBUTES, TIMESTAMP, OFFSET, NULL, NULL, NO_HEADERS)
    assert list(iterate_records(batch_of(smallest))) == [Record(0, 1000)]


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        (b"", "records in 0 bytes"),
        (b"\x01" + bytes(6), "length -1"),
        (b"\x10" + bytes(7), "length 8"),
        (b"\xfe\xff\xff\xff\x0f" + bytes(6), "length 2147483647"),
        (b"\xff\xff\xff\xff\xff\x01" + bytes(6), "more than 32 bits"),
        (b"\x80\x80\x80\x80\x80\x01" + bytes(6), "more than 32 bits"),
        (b"\xff\xff\xff\xff\x1f" + bytes(6), "more than 32 bits"),
        (b"\x8c\x80\x80\x80\x80\x00" + bytes(6), "more than 32 bits"),
        (b"\x80" * 7, "more than 32 bits"),
        (record(ATTRIBUTES, b"\x80" * 10 + b"\x01", OFFSET, NULL, NULL, NO_HEADERS), "more than 64 bits"),
        (record(ATTRIBUTES, b"\xff" * 9 + b"\x02", OFFSET, NULL, NULL, NO_HEADERS), "more than 64 bits"),
        (record(ATTRIBUTES, TIMESTAMP, b"\x01", NULL, NULL, NO_HEADERS), "offset delta -1"),
        (record(ATTRIBUTES, TIMESTAMP, b"\x02", NULL, NULL, NO_HEADERS), "offset delta 1; the batch ends at 0"),
        (record(ATTRIBUTES, TIMESTAMP, OFFSET, b"\x03", NULL, NO_HEADERS), "key length -2"),
        (record(ATTRIBUTES, TIMESTAMP, OFFSET, b"\x02", NULL, NO_HEADERS), "the 7 bytes end in the middle of it"),
        (record(ATTRIBUTES, TIMESTAMP, OFFSET, b"\xfe\xff\xff\xff\x0f", NULL, NO_HEADERS), "end in the middle"),
        (record(ATTRIBUTES, TIMESTAMP, OFFSET, NULL, b"\x03", NO_HEADERS), "value length -2"),
        (record(ATTRIBUTES, TIMESTAMP, OFFSET, NULL, b"\x02", NO_HEADERS), "end in the middle"),
        (record(ATTRIBUTES, TIMESTAMP, OFFSET, NULL, NULL, NO_HEADERS, b"!"), "its length says 8"),
        (record(ATTRIBUTES, TIMESTAMP, OFFSET, NULL, NULL, b"\x01"), "header count -1"),
        (record(ATTRIBUTES, TIMESTAMP, OFFSET, NULL, NULL, b"\x02", b"\x00"), "header count 1; 1 bytes are left"),
        (record(ATTRIBUTES, TIMESTAMP, OFFSET, NULL, NULL, b"\xfe\xff\xff\xff\x0f"), "header count 2147483647"),
        (record(ATTRIBUTES, TIMESTAMP, OFFSET, NULL, NULL, b"\x02", b"\x01\x00"), "header key length -1"),
        (record(ATTRIBUTES, TIMESTAMP, OFFSET, NULL, NULL, b"\x02", b"\x00\x03"), "header value length -2"),
        (record(ATTRIBUTES, TIMESTAMP, OFFSET, NULL, NULL, b"\x02", b"\x00\x04"), "its fields end at byte"),
        (record(ATTRIBUTES, TIMESTAMP, OFFSET, NULL, NULL, NO_HEADERS) + b"!", "1 bytes behind the last of 1"),
    ],
)
def test_a_malformed_record_is_refused(payload: bytes, complaint: str) -> None:
    with pytest.raises(DecodeError, match=complaint):
        list(iterate_records(batch_of(payload)))


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 2)])
def test_offsets_that_do_not_grow_within_the_batch_are_refused(deltas: tuple[int, int]) -> None:
    payload = b"".join(record(ATTRIBUTES, TIMESTAMP, bytes([2 * delta]), NULL, NULL, NO_HEADERS) for delta in deltas)
    with pytest.raises(DecodeError, match="offset delta"):
        list(iterate_records(batch_of(payload, count=2, last_offset_delta=1)))


def test_a_record_may_not_borrow_from_the_next() -> None:
    """The value of the first reaches into the second; both end within the payload."""
    first = record(ATTRIBUTES, TIMESTAMP, OFFSET, NULL, b"\x06", NO_HEADERS)
    second = record(ATTRIBUTES, TIMESTAMP, b"\x02", NULL, NULL, NO_HEADERS)
    with pytest.raises(DecodeError, match="its length says 7"):
        list(iterate_records(batch_of(first + second, count=2, last_offset_delta=1)))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("wrong_by", [-1, 1])
def test_a_record_count_that_is_not_the_count_is_refused(codec: Codec, wrong_by: int) -> None:
    batch = bytearray(build_batch([Record(n, 1, b"key", b"value") for n in range(5)], codec=codec))
    struct.pack_into(">i", batch, RECORD_COUNT_POSITION, 5 + wrong_by)
    with pytest.raises(DecodeError):
        list(iterate_records(batch))


def test_a_huge_record_count_is_refused_before_anything_is_read() -> None:
    batch = bytearray(build_batch([Record(0, 1)]))
    struct.pack_into(">i", batch, RECORD_COUNT_POSITION, 2**31 - 1)
    with pytest.raises(DecodeError, match="last offset delta 0 and record count 2147483647"):
        list(iterate_records(batch))
    struct.pack_into(">i", batch, LAST_OFFSET_DELTA_POSITION, 2**31 - 2)
    with pytest.raises(DecodeError, match="2147483647 records in 7 bytes"):
        iterate_records(batch)


def test_a_batch_cut_anywhere_is_refused() -> None:
    for codec in Codec:
        batch = build_batch([Record(n, 1, b"key", b"value" * 20) for n in range(5)], codec=codec)
        for size in range(len(batch)):
            with pytest.raises(DecodeError):
                list(iterate_records(batch[:size]))


def test_offsets_beyond_64_bits_are_refused() -> None:
    batch = build_batch([Record(0, 1), Record(1, 1)])
    with pytest.raises(DecodeError, match="overflow"):
        iterate_records(struct.pack(">q", 2**63 - 1) + batch[8:])


def test_timestamps_overflow_as_they_do_in_kafka() -> None:
    records = [Record(0, 2**63 - 1), Record(1, -(2**63))]
    assert list(iterate_records(build_batch(records))) == records


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_records_that_decompress_to_more_than_the_limit_are_refused(codec: Codec) -> None:
    records = [Record(0, 1, b"key", b"v" * 100_000)]
    batch = build_batch(records, codec=codec)
    size = len(build_batch(records)) - HEADER_SIZE
    assert list(iterate_records(batch, size_max=size)) == records
    for read in (iterate_records, validate_records):
        with pytest.raises(DecodeError, match=codec.name):
            read(batch, size_max=size - 1)


def test_an_unknown_codec_is_refused_by_its_number() -> None:
    with pytest.raises(UnsupportedCodec):
        iterate_records(batch_of(GOOD, attributes=7))


def test_a_producers_batch_is_validated() -> None:
    validate_records(build_batch([Record(5, 1, None), Record(6, 1, b"k")], base_offset=5))
    validate_records(build_batch([Record(5, 1, b""), Record(6, 1, b"k")], base_offset=5), key_required=True)


def test_a_compacted_topic_requires_keys() -> None:
    batch = build_batch([Record(0, 1, b"k"), Record(1, 1, None, b"v")])
    with pytest.raises(DecodeError, match="record 1 has no key"):
        validate_records(batch, key_required=True)


@pytest.mark.parametrize(
    ("records", "last_offset_delta"), [([Record(0, 1), Record(2, 1)], 2), ([Record(0, 1)], 1), ([], 0)]
)
def test_a_producer_leaves_no_gaps(records: list[Record], last_offset_delta: int) -> None:
    batch = build_batch(records, last_offset_delta=last_offset_delta)
    assert list(iterate_records(batch)) == records
    with pytest.raises(DecodeError, match="expected"):
        validate_records(batch)


def test_validation_finds_what_the_header_does_not_show() -> None:
    batch = build_batch([Record(0, 1, b"k", b"v")])
    damaged = batch[:-1] + b"\x05"
    assert parse_header(damaged) == parse_header(batch)
    with pytest.raises(DecodeError):
        validate_records(damaged)
