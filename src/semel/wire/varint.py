"""Unsigned varints of 32 bits, for compact lengths, tags and sizes of tagged fields: seven bits a byte, low bits first.

The generated decoders read the first byte themselves, because nearly every varint has only one byte.
"""

from __future__ import annotations

from semel.errors import DecodeError
from semel.types import Buffer


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the varint at ``position``, and the position after it.

    Raises ``IndexError`` if the buffer ends inside it.
    """
    first = buffer[position]
    return (first, position + 1) if first < 0x80 else continue_unsigned_varint(buffer, position + 1, first)


def continue_unsigned_varint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Return a varint of several bytes, whose ``first`` was read already, and the position after it."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                break
            return value, position
    raise DecodeError(f"byte {position}: a varint that does not fit 32 bits")


def skip_tagged_fields(buffer: Buffer, position: int, count: int) -> int:
    """Return the position after ``count`` unknown tagged fields."""
    for _ in range(count):
        _, position = read_unsigned_varint(buffer, position)
        size_bytes, position = read_unsigned_varint(buffer, position)
        position += size_bytes
        if position > len(buffer):
            raise DecodeError(f"byte {position - size_bytes}: a tagged field of {size_bytes} bytes passes the end")
    return position
