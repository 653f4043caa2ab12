from __future__ import annotations

import pytest

from semel.errors import DecodeError
from semel.log.producers.producer_snapshot import ProducerEntry, decode, encode
from semel.wire.crc import crc32c

ENTRIES = [
    ProducerEntry(
        producer_id=1000,
        producer_epoch=2,
        last_sequence=9,
        last_offset=109,
        offset_delta=4,
        timestamp=1_700_000_000_000,
        coordinator_epoch=3,
        transaction_first_offset=100,
    ),
    ProducerEntry(2**40, 32767, None, None, 0, -1, None, None),
]


def test_layout_is_kafkas() -> None:
    assert encode(ENTRIES[:1]).hex(" ") == (
        "00 01 "  # version
        "ff 3e e7 2a "  # CRC32C of what follows
        "00 00 00 01 "  # entries
        "00 00 00 00 00 00 03 e8 "  # producer id
        "00 02 "  # producer epoch
        "00 00 00 09 "  # last sequence
        "00 00 00 00 00 00 00 6d "  # last offset
        "00 00 00 04 "  # offset delta
        "00 00 01 8b cf e5 68 00 "  # timestamp
        "00 00 00 03 "  # coordinator epoch
        "00 00 00 00 00 00 00 64"  # first offset of the open transaction
    )


@pytest.mark.parametrize("entries", [[], ENTRIES[:1], ENTRIES])
def test_what_was_encoded_is_decoded(entries: list[ProducerEntry]) -> None:
    assert decode(encode(entries)) == entries


def test_snapshot_cut_at_any_byte_is_refused__scenario_11() -> None:
    data = encode(ENTRIES)
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            decode(data[:size])


def test_snapshot_with_any_flipped_bit_is_refused__scenario_11() -> None:
    data = encode(ENTRIES)
    for position in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(DecodeError):
            decode(bytes(flipped))


@pytest.mark.parametrize("tail", [b"\0", bytes(46)])
def test_snapshot_with_something_behind_it_is_refused__scenario_11(tail: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(encode(ENTRIES) + tail)


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_snapshot_that_miscounts_its_entries_is_refused__scenario_11(count: int) -> None:
    body = count.to_bytes(4, "big", signed=True) + encode(ENTRIES)[10:]
    data = b"\0\1" + crc32c(body).to_bytes(4, "big") + body
    with pytest.raises(DecodeError, match=f"of 102 bytes says it holds {count} entries"):
        decode(data)


def test_unknown_version_is_named__scenario_11() -> None:
    with pytest.raises(DecodeError, match="version 2; only version 1 is known"):
        decode(b"\0\2" + encode(ENTRIES)[2:])
