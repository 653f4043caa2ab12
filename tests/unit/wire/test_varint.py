from __future__ import annotations

import pytest

from semel.errors import DecodeError
from semel.wire.varint import read_unsigned_varint, skip_tagged_fields, unsigned_varint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "80 01"),
        (300, "ac 02"),
        (16_383, "ff 7f"),
        (16_384, "80 80 01"),
        (2**31 - 1, "ff ff ff ff 07"),
        (2**32 - 1, "ff ff ff ff 0f"),
    ],
)
def test_a_varint_is_seven_bits_a_byte_low_bits_first(value: int, encoded: str) -> None:
    assert unsigned_varint(value) == bytes.fromhex(encoded)
    assert read_unsigned_varint(b"!" + bytes.fromhex(encoded) + b"!", 1) == (value, 1 + len(bytes.fromhex(encoded)))


@pytest.mark.parametrize("encoded", ["ff ff ff ff 10", "80 80 80 80 80 01", "ff ff ff ff ff"])
def test_a_varint_of_more_than_32_bits_is_refused(encoded: str) -> None:
    with pytest.raises(DecodeError, match="does not fit 32 bits"):
        read_unsigned_varint(bytes.fromhex(encoded), 0)


def test_tagged_fields_are_skipped_by_their_sizes() -> None:
    two_fields = bytes.fromhex("00 02 aabb  e807 00")
    assert skip_tagged_fields(two_fields + b"after", 0, 2) == len(two_fields)


def test_a_tagged_field_that_passes_the_end_is_refused() -> None:
    with pytest.raises(DecodeError, match="byte 2: a tagged field of 5 bytes passes the end"):
        skip_tagged_fields(bytes.fromhex("00 05 aabb"), 0, 1)
