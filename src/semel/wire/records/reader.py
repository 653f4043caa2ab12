"""From the bytes of a batch to its records.

The law: whatever the bytes are, either records come out or ``DecodeError``, and no more memory is taken than the batch
itself and the given bound on its decompressed size. A length is compared with the bytes that are left before it is
used. The checksum is not looked at here; ``verify_crc`` is for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from semel.errors import DecodeError
from semel.types import INT64_MAX, Buffer
from semel.wire.compression import Codec, decompress
from semel.wire.records.header import (
    HEADER_SIZE,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    parse_header,
)
from semel.wire.records.record import Headers, Record
from semel.wire.records.varint import VARINT_BITS, VARLONG_BITS, decode_unsigned, wrap_int64

DECOMPRESSED_SIZE_BYTES_MAX: Final = 128 * 2**20

# Length, attributes, timestamp delta, offset delta, key length, value length, header count: a byte each at least.
_RECORD_SIZE_MIN: Final = 7
_INT64_MIN: Final = -INT64_MAX - 1


def iterate_records(
    buffer: Buffer, position: int = 0, *, size_max: int = DECOMPRESSED_SIZE_BYTES_MAX
) -> Iterator[Record]:
    """The records of the batch at ``position``, in order.

    The call reads the header and decompresses to at most ``size_max`` bytes; a record is decoded when it is asked for.
    Offsets grow from record to record and stay within the header's range; compaction leaves gaps, so they need not be
    consecutive.
    """
    header = parse_header(buffer, position)
    if header.size_bytes > len(buffer) - position:
        raise DecodeError(
            f"batch at position {position} is {header.size_bytes} bytes long; {len(buffer) - position} are left"
        )
    block = memoryview(buffer)[position + HEADER_SIZE : position + header.size_bytes]
    codec = header.compression
    # A batch that compaction emptied has no block to decompress, whatever codec its attributes still name.
    if codec is Codec.NONE or (not block and header.record_count == 0):
        payload = bytes(block)
    else:
        payload = decompress(codec, block, size_max=size_max)
    if header.last_offset > INT64_MAX:
        raise DecodeError(f"base offset {header.base_offset} and last offset delta {header.last_offset_delta} overflow")
    if header.record_count * _RECORD_SIZE_MIN > len(payload):
        raise DecodeError(
            f"{header.record_count} records in {len(payload)} bytes; a record takes at least {_RECORD_SIZE_MIN}"
        )
    return _decode_all(payload, header)


def validate_records(
    buffer: Buffer,
    position: int = 0,
    *,
    key_required: bool = False,
    size_max: int = DECOMPRESSED_SIZE_BYTES_MAX,
) -> None:
    """Raise ``DecodeError`` unless these are the records of a producer: offsets without gaps, and keys where required.

    A topic that is compacted requires keys: a record without one could never be superseded, nor kept for its key.
    """
    header = parse_header(buffer, position)
    expected = header.base_offset
    for record in iterate_records(buffer, position, size_max=size_max):
        if record.offset != expected:
            raise DecodeError(f"record {expected - header.base_offset} has offset {record.offset}; expected {expected}")
        if key_required and record.key is None:
            raise DecodeError(f"record {expected - header.base_offset} has no key; a compacted topic requires one")
        expected += 1
    if expected != header.next_offset:
        raise DecodeError(
            f"{header.record_count} records for last offset delta {header.last_offset_delta}; "
            f"expected {header.last_offset_delta + 1}"
        )


def _decode_all(payload: bytes, header: BatchHeader) -> Iterator[Record]:
    """The hot loop: one-byte and two-byte integers are read in line, a call for each would double the time."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    log_append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else None
    last_offset_delta = header.last_offset_delta
    new = tuple.__new__
    size = len(payload)
    position, previous_delta = 0, -1
    try:
        for _ in range(header.record_count):
            number = payload[position]
            position += 1
            if number >= 0x80:
                if payload[position] < 0x80:
                    number += (payload[position] << 7) - 0x80
                    position += 1
                else:
                    number, position = decode_unsigned(payload, position - 1, VARINT_BITS)
            end = position + (number >> 1)
            if number & 1 or end > size:
                raise _bad_record(previous_delta, f"length {_signed(number)}; {size - position} bytes are left")

            # The attributes of a record have no meaning yet and are passed over.
            number = payload[position + 1]
            position += 2
            if number >= 0x80:
                if payload[position] < 0x80:
                    number += (payload[position] << 7) - 0x80
                    position += 1
                else:
                    number, position = decode_unsigned(payload, position - 1, VARLONG_BITS)
            timestamp = base_timestamp + ((number >> 1) ^ -(number & 1))
            if not _INT64_MIN <= timestamp <= INT64_MAX:
                timestamp = wrap_int64(timestamp)

            number = payload[position]
            position += 1
            if number >= 0x80:
                if payload[position] < 0x80:
                    number += (payload[position] << 7) - 0x80
                    position += 1
                else:
                    number, position = decode_unsigned(payload, position - 1, VARINT_BITS)
            delta = number >> 1
            if number & 1 or not previous_delta < delta <= last_offset_delta:
                raise _bad_record(
                    previous_delta, f"offset delta {_signed(number)}; the batch ends at {last_offset_delta}"
                )
            previous_delta = delta

            number = payload[position]
            position += 1
            if number == 1:
                key = None
            else:
                if number >= 0x80:
                    if payload[position] < 0x80:
                        number += (payload[position] << 7) - 0x80
                        position += 1
                    else:
                        number, position = decode_unsigned(payload, position - 1, VARINT_BITS)
                if number & 1:
                    raise _bad_record(delta, f"key length {_signed(number)}")
                start = position
                position += number >> 1
                key = payload[start:position]

            number = payload[position]
            position += 1
            if number == 1:
                value = None
            else:
                if number >= 0x80:
                    if payload[position] < 0x80:
                        number += (payload[position] << 7) - 0x80
                        position += 1
                    else:
                        number, position = decode_unsigned(payload, position - 1, VARINT_BITS)
                if number & 1:
                    raise _bad_record(delta, f"value length {_signed(number)}")
                start = position
                position += number >> 1
                value = payload[start:position]

            if payload[position]:
                headers, position = _decode_headers(payload, position, end, delta)
            else:
                headers = ()
                position += 1
            # This is also what catches a key or value that was cut short by the end of the payload.
            if position != end:
                raise _bad_record(delta, f"its fields end at byte {position}, its length says {end}")
            if log_append_time is not None:
                timestamp = log_append_time
            yield new(Record, (base_offset + delta, timestamp, key, value, headers))
    except IndexError:
        raise _bad_record(previous_delta, f"the {size} bytes end in the middle of it") from None
    if position != size:
        raise DecodeError(f"{size - position} bytes behind the last of {header.record_count} records")


def _decode_headers(payload: bytes, position: int, end: int, delta: int) -> tuple[Headers, int]:
    number, position = decode_unsigned(payload, position, VARINT_BITS)
    if number & 1 or number > end - position:  # A header takes two bytes at least, and number is twice the count.
        raise _bad_record(delta, f"header count {_signed(number)}; {end - position} bytes are left")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(number >> 1):
        number = payload[position]
        position += 1
        if number >= 0x80:
            number, position = decode_unsigned(payload, position - 1, VARINT_BITS)
        if number & 1:
            raise _bad_record(delta, f"header key length {_signed(number)}")
        start = position
        position += number >> 1
        key = payload[start:position].decode("utf-8", "surrogateescape")

        number = payload[position]
        position += 1
        if number == 1:
            headers.append((key, None))
            continue
        if number >= 0x80:
            number, position = decode_unsigned(payload, position - 1, VARINT_BITS)
        if number & 1:
            raise _bad_record(delta, f"header value length {_signed(number)}")
        start = position
        position += number >> 1
        headers.append((key, payload[start:position]))
    return tuple(headers), position


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def _bad_record(delta: int, what: str) -> DecodeError:
    return DecodeError(f"record at or after offset delta {max(delta, 0)}: {what}")
