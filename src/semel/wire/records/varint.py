"""Zigzag variable-length integers, the encoding of the fields of a record.

Small numbers of either sign are short: n is mapped to 2n, and -n to 2n - 1. The result is written seven bits at a time,
the lowest first; the top bit of a byte is set if another byte follows.
"""

from __future__ import annotations

from typing import Final

from semel.errors import DecodeError

VARINT_BITS: Final = 32
VARLONG_BITS: Final = 64


def wrap_int64(number: int) -> int:
    """Return the number wrapped to 64 bits with sign: sums and differences of timestamps overflow as in Kafka."""
    return (number + 2**63) % 2**64 - 2**63


def encode_varint(number: int) -> bytes:
    number = wrap_int64(number)
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def decode_unsigned(data: bytes | bytearray, position: int, bits: int) -> tuple[int, int]:
    """Return the number at ``position``, still in zigzag form, and the position after it.

    Raises ``IndexError`` if the bytes end inside the number, and ``DecodeError`` if it has more than ``bits`` bits.
    """
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= bits:
            raise DecodeError(f"variable-length integer of more than {bits} bits, ending at position {position}")
    if number >> bits:
        raise DecodeError(f"variable-length integer {number:#x} of more than {bits} bits at position {position}")
    return number, position


class _Varints(dict[int, bytes]):
    """Encodings by number. Those of small numbers are stored; others are computed at each look-up."""

    def __missing__(self, number: int) -> bytes:
        return encode_varint(number)


# Two bytes encode numbers up to 8191, which covers nearly every length and delta in nearly every batch.
VARINTS: Final = _Varints((number, encode_varint(number)) for number in range(-64, 8192))
