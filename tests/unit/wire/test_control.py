"""Transaction markers and other control records."""

from __future__ import annotations

import pytest

from semel.errors import DecodeError
from semel.wire.control import (
    EndTransactionMarker,
    build_marker_batch,
    decode_marker,
    encode_marker,
    parse_marker,
)
from semel.wire.records import NO_SEQUENCE, Codec, Record, build_batch, iterate_records, parse_header, verify_crc

COMMIT = EndTransactionMarker(committed=True, coordinator_epoch=7)
ABORT = EndTransactionMarker(committed=False, coordinator_epoch=7)


def control_batch(records: list[Record], **arguments: int) -> bytes:
    return build_batch(records, producer_id=1, producer_epoch=0, is_transactional=True, is_control=True, **arguments)


@pytest.mark.parametrize(
    ("marker", "key", "value"),
    [
        (ABORT, "00000000", "000000000007"),
        (COMMIT, "00000001", "000000000007"),
        (EndTransactionMarker(committed=True, coordinator_epoch=-1), "00000001", "0000ffffffff"),
    ],
)
def test_a_marker_is_these_bytes(marker: EndTransactionMarker, key: str, value: str) -> None:
    assert encode_marker(marker) == (bytes.fromhex(key), bytes.fromhex(value))
    assert decode_marker(bytes.fromhex(key), bytes.fromhex(value)) == marker


@pytest.mark.parametrize("marker", [COMMIT, ABORT])
def test_a_marker_batch_says_whose_transaction_it_ends(marker: EndTransactionMarker) -> None:
    batch = build_marker_batch(
        marker, producer_id=4000, producer_epoch=3, timestamp=1000, base_offset=55, partition_leader_epoch=2
    )
    header = parse_header(batch)
    assert parse_marker(batch) == marker
    assert verify_crc(batch, 0, header)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (55, 55, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4000, 3, NO_SEQUENCE)
    assert (header.is_control, header.is_transactional, header.compression) == (True, True, Codec.NONE)
    assert (header.record_count, header.base_timestamp, header.max_timestamp) == (1, 1000, 1000)


def test_a_marker_is_read_from_the_middle_of_a_buffer() -> None:
    batch = build_marker_batch(ABORT, producer_id=1, producer_epoch=0, timestamp=1)
    assert parse_marker(memoryview(b"..." + batch + b"..."), 3) == ABORT


@pytest.mark.parametrize("control_type", [2, 3, 4, 5, 6, 32767, -1])
def test_a_control_record_of_another_type_is_no_marker(control_type: int) -> None:
    key = b"\x00\x00" + control_type.to_bytes(2, "big", signed=True)
    assert decode_marker(key, b"whatever it holds") is None
    assert decode_marker(key, None) is None
    assert parse_marker(control_batch([Record(0, 1, key, b"")])) is None


def test_a_newer_version_is_read_by_the_fields_we_know() -> None:
    assert decode_marker(b"\x00\x09\x00\x01more", b"\x00\x09\x00\x00\x00\x07more") == COMMIT


def test_an_emptied_marker_batch_holds_no_marker() -> None:
    """Scenario 48: compaction drops the marker and keeps the batch for its producer's epoch."""
    assert parse_marker(control_batch([], last_offset_delta=0, max_timestamp=1)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, bytes(6)),
        (b"", bytes(6)),
        (bytes(3), bytes(6)),
        (b"\xff\xff\x00\x01", bytes(6)),
        (bytes(4), None),
        (bytes(4), b""),
        (bytes(4), bytes(5)),
        (bytes(4), b"\xff\xff" + bytes(4)),
    ],
)
def test_a_malformed_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DecodeError, match="control record"):
        decode_marker(key, value)
    with pytest.raises(DecodeError, match="control record"):
        parse_marker(control_batch([Record(0, 1, key, value)]))


def test_a_users_record_that_looks_like_a_marker_is_none() -> None:
    """Scenario 50: the control bit of the batch makes a marker, never the key."""
    key, value = encode_marker(COMMIT)
    batch = build_batch([Record(0, 1, key, value)], producer_id=1, producer_epoch=0, base_sequence=0)
    assert list(iterate_records(batch)) == [Record(0, 1, key, value)]
    with pytest.raises(DecodeError, match="is not a control batch"):
        parse_marker(batch)
