"""The batch header: read, walked over and patched in place."""

from __future__ import annotations

import struct

import pytest

from semel.errors import DecodeError
from semel.wire.compression import compress, decompress
from semel.wire.records import (
    ATTRIBUTES_POSITION,
    BASE_TIMESTAMP_POSITION,
    BATCH_LENGTH_POSITION,
    HEADER_SIZE,
    LAST_OFFSET_DELTA_POSITION,
    MAGIC_POSITION,
    NO_SEQUENCE,
    RECORD_COUNT_POSITION,
    BatchHeader,
    Codec,
    Record,
    TimestampType,
    UnsupportedCodec,
    UnsupportedMagic,
    build_batch,
    iterate_headers,
    iterate_records,
    parse_header,
    patch_codec,
    patch_log_append_time,
    patch_offset_and_epoch,
    verify_crc,
)

RECORDS = [Record(7, 1000, b"k", b"v"), Record(8, 1005, None, b"w", (("h", b"x"),))]
BATCH = build_batch(
    RECORDS,
    base_offset=7,
    partition_leader_epoch=3,
    producer_id=4000,
    producer_epoch=2,
    base_sequence=9,
    is_transactional=True,
)
PLAIN = BatchHeader(
    base_offset=100,
    batch_length=200,
    partition_leader_epoch=0,
    magic=2,
    crc=0,
    attributes=0,
    last_offset_delta=9,
    base_timestamp=5,
    max_timestamp=6,
    producer_id=-1,
    producer_epoch=-1,
    base_sequence=NO_SEQUENCE,
    record_count=10,
)


def changed(position: int, layout: str, value: int, batch: bytes = BATCH) -> bytearray:
    buffer = bytearray(batch)
    struct.pack_into(layout, buffer, position, value)
    return buffer


def old_message(magic: int) -> bytes:
    """A whole message of format 0 or 1, without key and value: shorter than a header of format 2."""
    timestamp = b"" if magic == 0 else struct.pack(">q", 1000)
    body = struct.pack(">IbB", 0, magic, 0) + timestamp + struct.pack(">ii", -1, -1)
    return struct.pack(">qi", 0, len(body)) + body


def test_every_field_is_read_from_its_place() -> None:
    header = parse_header(BATCH)
    assert header == BatchHeader(
        base_offset=7,
        batch_length=len(BATCH) - 12,
        partition_leader_epoch=3,
        magic=2,
        crc=header.crc,
        attributes=0x10,
        last_offset_delta=1,
        base_timestamp=1000,
        max_timestamp=1005,
        producer_id=4000,
        producer_epoch=2,
        base_sequence=9,
        record_count=2,
    )
    assert verify_crc(BATCH, 0, header)


def test_what_follows_from_the_fields() -> None:
    header = parse_header(BATCH)
    assert (header.size_bytes, header.last_offset, header.next_offset) == (len(BATCH), 8, 9)
    assert (header.is_transactional, header.is_control, header.has_producer_id) == (True, False, True)
    assert (header.compression, header.timestamp_type) == (Codec.NONE, TimestampType.CREATE_TIME)
    assert (header.last_sequence, header.delete_horizon_ms) == (10, None)


@pytest.mark.parametrize(
    ("bits", "name", "value"),
    [
        (0x01, "compression", Codec.GZIP),
        (0x04, "compression", Codec.ZSTD),
        (0x08, "timestamp_type", TimestampType.LOG_APPEND_TIME),
        (0x10, "is_transactional", True),
        (0x20, "is_control", True),
        (0x40, "delete_horizon_ms", 5),
    ],
)
def test_an_attribute_bit_says_one_thing(bits: int, name: str, value: object) -> None:
    with_bit = PLAIN._replace(attributes=bits)
    assert getattr(with_bit, name) == value
    for other in ("compression", "timestamp_type", "is_transactional", "is_control", "delete_horizon_ms"):
        if other != name:
            assert getattr(with_bit, other) == getattr(PLAIN, other)


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_a_codec_that_kafka_does_not_have_is_named(codec_id: int) -> None:
    header = PLAIN._replace(attributes=codec_id)
    with pytest.raises(UnsupportedCodec) as caught:
        _ = header.compression
    assert (caught.value.codec_id, header.codec_id) == (codec_id, codec_id)


@pytest.mark.parametrize(
    ("base_sequence", "last_offset_delta", "last_sequence"),
    [
        (0, 0, 0),
        (0, 9, 9),
        (2**31 - 10, 9, 2**31 - 1),
        (2**31 - 10, 10, 0),
        (2**31 - 1, 0, 2**31 - 1),
        (2**31 - 1, 1, 0),
        (2**31 - 1, 5, 4),
        (NO_SEQUENCE, 9, NO_SEQUENCE),
    ],
)
def test_sequences_wrap_from_the_largest_int32_to_zero_inside_a_batch(
    base_sequence: int, last_offset_delta: int, last_sequence: int
) -> None:
    """Scenario 4."""
    header = PLAIN._replace(base_sequence=base_sequence, last_offset_delta=last_offset_delta)
    assert header.last_sequence == last_sequence


@pytest.mark.parametrize("size", [0, 1, 16, 17, HEADER_SIZE - 1])
def test_fewer_bytes_than_a_header_are_refused(size: int) -> None:
    with pytest.raises(DecodeError, match="a batch header takes 61"):
        parse_header(BATCH[:size])


@pytest.mark.parametrize("position", [-1, -HEADER_SIZE, len(BATCH) - HEADER_SIZE + 1, len(BATCH) + 100])
def test_a_position_without_a_header_behind_it_is_refused(position: int) -> None:
    with pytest.raises(DecodeError):
        parse_header(BATCH, position)


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (BATCH_LENGTH_POSITION, 48),
        (BATCH_LENGTH_POSITION, 0),
        (BATCH_LENGTH_POSITION, -1),
        (LAST_OFFSET_DELTA_POSITION, -1),
        (RECORD_COUNT_POSITION, -1),
    ],
)
def test_a_header_that_cannot_be_walked_with_is_refused(position: int, value: int) -> None:
    with pytest.raises(DecodeError):
        parse_header(changed(position, ">i", value))


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_told_apart_even_where_they_are_short(magic: int) -> None:
    message = old_message(magic)
    assert len(message) < HEADER_SIZE
    for buffer in (message, message * 4):
        with pytest.raises(UnsupportedMagic) as caught:
            parse_header(buffer)
        assert caught.value.magic == magic


@pytest.mark.parametrize("magic", [-1, 0, 1, 3, 127])
def test_every_other_magic_is_refused_by_its_number(magic: int) -> None:
    with pytest.raises(UnsupportedMagic) as caught:
        parse_header(changed(MAGIC_POSITION, ">b", magic))
    assert caught.value.magic == magic


def test_batches_back_to_back_are_walked() -> None:
    second = build_batch([Record(9, 1)], base_offset=9)
    buffer = memoryview(BATCH + second + BATCH)
    assert list(iterate_headers(buffer)) == [
        (0, parse_header(BATCH)),
        (len(BATCH), parse_header(second)),
        (len(BATCH) + len(second), parse_header(BATCH)),
    ]
    assert list(iterate_headers(b"")) == []


def test_a_cut_tail_is_an_error_unless_it_is_allowed() -> None:
    for kept in range(1, len(BATCH)):
        buffer = BATCH + BATCH[:kept]
        with pytest.raises(DecodeError):
            list(iterate_headers(buffer))
        assert list(iterate_headers(buffer, allow_partial_tail=True)) == [(0, parse_header(BATCH))]


def test_an_old_message_is_refused_even_where_a_cut_tail_is_allowed() -> None:
    with pytest.raises(UnsupportedMagic):
        list(iterate_headers(BATCH + old_message(1), allow_partial_tail=True))


def test_the_crc_notices_every_bit_it_covers() -> None:
    header = parse_header(BATCH)
    for position in range(ATTRIBUTES_POSITION, len(BATCH)):
        for bit in range(8):
            damaged = bytearray(BATCH)
            damaged[position] ^= 1 << bit
            assert not verify_crc(damaged, 0, header)


def test_the_crc_of_a_cut_batch_does_not_hold() -> None:
    assert not verify_crc(BATCH[:-1], 0, parse_header(BATCH))
    # The length is outside the CRC, so the checksum of what is there can be right.
    longer = changed(BATCH_LENGTH_POSITION, ">i", len(BATCH) - 12 + 1)
    assert not verify_crc(longer, 0, parse_header(longer))


def test_offset_and_epoch_are_patched_in_place_and_the_crc_still_holds() -> None:
    buffer = bytearray(b"....." + BATCH)
    patch_offset_and_epoch(memoryview(buffer), 5, 2**40, 77)
    header = parse_header(buffer, 5)
    assert header == parse_header(BATCH)._replace(base_offset=2**40, partition_leader_epoch=77)
    assert verify_crc(buffer, 5, header)
    assert [record.offset for record in iterate_records(buffer, 5)] == [2**40, 2**40 + 1]


def test_log_append_time_becomes_the_timestamp_of_every_record() -> None:
    buffer = bytearray(b"....." + BATCH + BATCH)
    patch_log_append_time(memoryview(buffer), 5, 123456)
    header = parse_header(buffer, 5)
    assert header == parse_header(BATCH)._replace(crc=header.crc, attributes=0x10 | 0x08, max_timestamp=123456)
    assert verify_crc(buffer, 5, header)
    assert [record.timestamp for record in iterate_records(buffer, 5)] == [123456, 123456]
    assert buffer[5 + len(BATCH) :] == BATCH


@pytest.mark.parametrize("before", Codec)
@pytest.mark.parametrize("after", Codec)
def test_a_batch_compressed_anew_is_the_same_batch(before: Codec, after: Codec) -> None:
    batch = build_batch(RECORDS, base_offset=7, codec=before, producer_id=1, producer_epoch=0, base_sequence=0)
    stored = bytearray(batch[:HEADER_SIZE])
    stored += compress(after, decompress(before, batch[HEADER_SIZE:], size_max=1000))
    patch_codec(stored, after)
    assert stored == build_batch(RECORDS, base_offset=7, codec=after, producer_id=1, producer_epoch=0, base_sequence=0)


def test_with_a_delete_horizon_the_base_timestamp_is_the_horizon() -> None:
    buffer = changed(BASE_TIMESTAMP_POSITION, ">q", 999)
    struct.pack_into(">h", buffer, ATTRIBUTES_POSITION, 0x40)
    assert parse_header(buffer).delete_horizon_ms == 999
