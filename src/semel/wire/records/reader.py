"""Decodes the records of a batch.

The law: for every byte string this returns records or raises ``DecodeError``, and it takes no more memory than the
batch itself and the given bound on its decompressed size. A length is compared with the number of bytes left before it
is used. The checksum is not verified here, but by ``verify_crc``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar, overload

from semel.errors import DecodeError
from semel.types import INT64_MAX, Buffer
from semel.wire.compression import Codec, decompress
from semel.wire.records.header import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    parse_header,
)
from semel.wire.records.record import Headers, Record
from semel.wire.records.varint import VARINT_BITS, VARINTS, VARLONG_BITS, decode_unsigned, wrap_int64

DECOMPRESSED_SIZE_BYTES_MAX: Final = 128 * 2**20

# Length, attributes, timestamp delta, offset delta, key length, value length, header count: each at least one byte.
_RECORD_SIZE_MIN: Final = 7
_INT64_MIN: Final = -INT64_MAX - 1
_NOT_PLAIN: Final = CODEC_MASK | CONTROL_BIT | TIMESTAMP_TYPE_BIT
_ATTRIBUTES_AND_DELTAS: Final = bytes(3)

_UNKNOWN: Final = -1
# The encoded offset deltas by the index of the record, in a batch without gaps.
_OFFSET_DELTAS: Final = tuple(VARINTS[delta] for delta in range(8192))
# A timestamp delta of two bytes can be added to it without overflow.
_TIMESTAMP_SAFE_MAX: Final = INT64_MAX - 8192

# The number of records that an iteration decodes at once: enough that the overhead of the call is small for each.
_RECORDS_AT_ONCE: Final = 64

T = TypeVar("T")


class RecordBlock:
    """The records of one batch. The constructor reads the header and decompresses; ``read`` decodes the next records.

    Offsets increase from record to record and stay within the header's range. They need not be consecutive, because
    compaction leaves gaps.
    """

    __slots__ = ("_delta", "_error", "_payload", "_position", "_remaining", "header")

    def __init__(self, buffer: Buffer, position: int = 0, *, size_max: int = DECOMPRESSED_SIZE_BYTES_MAX) -> None:
        self.header = parse_header(buffer, position)
        self._payload = _payload(self.header, buffer, position, size_max)
        self._position, self._remaining, self._delta = 0, self.header.record_count, -1
        self._error: DecodeError | None = None

    @overload
    def read(self, count: int) -> list[Record]: ...
    @overload
    def read(self, count: int, record_class: type[T], topic: str, partition: int) -> list[T]: ...
    def read(
        self, count: int, record_class: type[Any] = Record, topic: str | None = None, partition: int = 0
    ) -> list[Any]:
        """Return at most ``count`` of the next records, and none at the end.

        Raises ``DecodeError`` if the next one is invalid. With a topic and partition they are of ``record_class``, a
        tuple that has these two before a record's fields.
        """
        if self._error is not None:
            raise self._error
        records: list[Any] = []
        count = min(count, self._remaining)
        try:
            if topic is not None:
                self._read_common(count, records.append, record_class, topic, partition)
            self._read(count - len(records), records.append, record_class, topic, partition)
        except IndexError:
            self._error = _bad_record(self._delta, f"the {len(self._payload)} bytes end in the middle of it")
        except DecodeError as error:
            self._error = error
        self._remaining -= len(records)
        if self._remaining == 0 and self._position != len(self._payload):
            behind = len(self._payload) - self._position
            self._error = DecodeError(f"{behind} bytes behind the last of {self.header.record_count} records")
        if self._error is not None and not records:
            raise self._error
        return records

    def _read_common(
        self, count: int, append: Callable[[Any], None], record_class: type[Any], topic: str, partition: int
    ) -> None:
        """Decode records up to the first unusual one: nearly all have no offset gap, no headers, a key of at most 63
        bytes, and lengths and timestamp deltas of at most two bytes.

        This refuses nothing. An unusual or invalid record, and all records after it, are left to ``_read``, which is
        slower.
        """
        payload, header = self._payload, self.header
        base_timestamp = timestamp = header.base_timestamp
        if header.attributes & TIMESTAMP_TYPE_BIT or abs(base_timestamp) > _TIMESTAMP_SAFE_MAX:
            return
        first = self._delta + 1
        new, starts_with = tuple.__new__, payload.startswith
        position, offset, same_time = self._position, header.base_offset + first, 0
        try:
            for offset_delta in _OFFSET_DELTAS[first : min(first + count, header.last_offset_delta + 1)]:
                length = payload[position]
                at = position + 1
                if length >= 0x80:
                    length += (payload[at] << 7) - 0x80
                    at += 1
                    if length >= 0x4000:
                        break
                last = at + (length >> 1) - 1
                number = payload[at + 1]
                at += 2
                if number != same_time:
                    same_time = number
                    if number >= 0x80:
                        same_time = _UNKNOWN
                        number += (payload[at] << 7) - 0x80
                        at += 1
                        if number >= 0x4000:
                            break
                    timestamp = base_timestamp + ((number >> 1) ^ -(number & 1))
                if not starts_with(offset_delta, at):
                    break
                at += len(offset_delta)
                number = payload[at]
                at += 1
                if number == 1:
                    key = None
                elif number & 0x81:
                    break
                else:
                    start = at
                    at += number >> 1
                    key = payload[start:at]
                number = payload[at]
                at += 1
                if number >= 0x80:
                    number += (payload[at] << 7) - 0x80
                    at += 1
                    if number >= 0x4000:
                        break
                # After the value there is only one byte, the header count 0.
                if (length | number) & 1 or at + (number >> 1) != last or payload[last]:
                    break
                append(new(record_class, (topic, partition, offset, timestamp, key, payload[at:last], ())))
                position = last + 1
                offset += 1
        except IndexError:
            pass
        self._position, self._delta = position, offset - header.base_offset - 1

    def _read(
        self,
        count: int,
        append: Callable[[Any], None],
        record_class: type[Any],
        topic: str | None,
        partition: int,
    ) -> None:
        """Decode any records. Integers of one or two bytes are read inline: a call for each would double the time."""
        payload, header = self._payload, self.header
        base_offset, base_timestamp = header.base_offset, header.base_timestamp
        log_append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else None
        last_offset_delta = header.last_offset_delta
        new, int64_min, int64_max = tuple.__new__, -INT64_MAX - 1, INT64_MAX
        size = len(payload)
        position, previous_delta = self._position, self._delta
        try:
            for _ in range(count):
                number = payload[position]
                position += 1
                if number >= 0x80:
                    if (more := payload[position]) < 0x80:
                        number += (more << 7) - 0x80
                        position += 1
                    else:
                        number, position = decode_unsigned(payload, position - 1, VARINT_BITS)
                end = position + (number >> 1)
                if number & 1 or end > size:
                    raise _bad_record(previous_delta, f"length {_signed(number)}; {size - position} bytes are left")

                # The attributes of a record are not used by Kafka yet, and are skipped.
                number = payload[position + 1]
                position += 2
                if number >= 0x80:
                    if (more := payload[position]) < 0x80:
                        number += (more << 7) - 0x80
                        position += 1
                    else:
                        number, position = decode_unsigned(payload, position - 1, VARLONG_BITS)
                if log_append_time is not None:
                    timestamp = log_append_time
                elif number & 1:
                    timestamp = base_timestamp - (number >> 1) - 1
                else:
                    timestamp = base_timestamp + (number >> 1)
                if not int64_min <= timestamp <= int64_max:
                    timestamp = wrap_int64(timestamp)

                number = payload[position]
                position += 1
                if number >= 0x80:
                    if (more := payload[position]) < 0x80:
                        number += (more << 7) - 0x80
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
                        if (more := payload[position]) < 0x80:
                            number += (more << 7) - 0x80
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
                        if (more := payload[position]) < 0x80:
                            number += (more << 7) - 0x80
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
                # This also detects a key or value that is cut off by the end of the payload.
                if position != end:
                    raise _bad_record(delta, f"its fields end at byte {position}, its length says {end}")
                if topic is None:
                    append(new(record_class, (base_offset + delta, timestamp, key, value, headers)))
                else:
                    append(new(record_class, (topic, partition, base_offset + delta, timestamp, key, value, headers)))
        finally:
            self._position, self._delta = position, previous_delta


def iterate_records(
    buffer: Buffer, position: int = 0, *, size_max: int = DECOMPRESSED_SIZE_BYTES_MAX
) -> Iterator[Record]:
    """Return an iterator over the records of the batch at ``position``, in order: see ``RecordBlock``.

    The call reads the header and decompresses to at most ``size_max`` bytes. The iterator raises ``DecodeError`` at the
    first invalid record, after it has returned those before it.
    """
    return _each(RecordBlock(buffer, position, size_max=size_max))


def read_single(buffer: bytes, position: int, header: BatchHeader) -> tuple[bytes, bytes] | None:
    """Return key and value of the only record of a batch, if ``build_single`` made it and it has at most 8191 bytes.

    Returns ``None`` for other batches, which ``iterate_records`` has to decode. This is the fast path of that.
    """
    end = position + header.batch_length + LOG_OVERHEAD
    if header.record_count != 1 or header.last_offset_delta or header.attributes & _NOT_PLAIN or end > len(buffer):
        return None
    position += HEADER_SIZE
    try:
        number = buffer[position]
        position += 1
        if number >= 0x80:
            if buffer[position] >= 0x80:
                return None
            number += (buffer[position] << 7) - 0x80
            position += 1
        if number & 1 or position + (number >> 1) != end or buffer[position : position + 3] != _ATTRIBUTES_AND_DELTAS:
            return None
        number = buffer[position + 3]
        position += 4
        if number >= 0x80:
            if buffer[position] >= 0x80:
                return None
            number += (buffer[position] << 7) - 0x80
            position += 1
        if number & 1:
            return None
        start = position
        position += number >> 1
        key = buffer[start:position]
        number = buffer[position]
        position += 1
        if number >= 0x80:
            if buffer[position] >= 0x80:
                return None
            number += (buffer[position] << 7) - 0x80
            position += 1
        if number & 1 or position + (number >> 1) != end - 1 or buffer[end - 1]:
            return None
    except IndexError:
        return None
    return key, buffer[position : end - 1]


def _each(block: RecordBlock) -> Iterator[Record]:
    while records := block.read(_RECORDS_AT_ONCE):
        yield from records


def _payload(header: BatchHeader, buffer: Buffer, position: int, size_max: int) -> bytes:
    if header.size_bytes > len(buffer) - position:
        raise DecodeError(
            f"batch at position {position} is {header.size_bytes} bytes long; {len(buffer) - position} are left"
        )
    block = memoryview(buffer)[position + HEADER_SIZE : position + header.size_bytes]
    codec = header.compression
    # A batch that compaction emptied has no block to decompress, although its attributes may still name a codec.
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
    return payload


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
