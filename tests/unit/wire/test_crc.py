"""CRC32C against the published answers (RFC 3720, appendix B.4)."""

from __future__ import annotations

import pytest

from semel.wire.crc import crc32c


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_published_answers_are_given(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


def test_a_checksum_can_be_continued() -> None:
    assert crc32c(b"56789", crc32c(b"1234")) == crc32c(b"123456789")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer_is_taken(kind: type) -> None:
    assert crc32c(kind(b"123456789")) == 0xE3069283


def test_a_slice_of_a_view_is_taken_without_its_neighbours() -> None:
    assert crc32c(memoryview(b"xx123456789yy")[2:-2]) == 0xE3069283
