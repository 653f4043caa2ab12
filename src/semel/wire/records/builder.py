"""Encodes records as the bytes of a record batch.

The law: equal arguments give equal bytes; ``iterate_records`` reads the same records from the bytes; and every record
that ``iterate_records`` returns can be encoded again, however unusual, because compaction does that. Arguments that no
batch can hold raise ``ValueError``: they are a bug of the caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, error
from typing import Final

from semel.types import INT64_MAX, Buffer
from semel.wire.compression import Codec, compress
from semel.wire.crc import crc32c
from semel.wire.records.header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    TimestampType,
)
from semel.wire.records.record import Headers, Record
from semel.wire.records.varint import VARINTS

_OUTSIDE_CRC: Final = Struct(">qiibI")
_INSIDE_CRC: Final = Struct(">hiqqqhii")
_NULL: Final = VARINTS[-1]
_INT64_MIN: Final = -INT64_MAX - 1


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    codec: Codec = Codec.NONE,
    compression_level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
    last_offset_delta: int | None = None,
    max_timestamp: int | None = None,
) -> bytes:
    """Return one batch of these records, whose offsets are absolute, increasing and not below ``base_offset``.

    Compaction passes the old ``last_offset_delta``, so that the batch still covers the offsets and sequences that it
    covered before. If no record is left it passes ``max_timestamp`` too, and the batch is only a header.
    With ``LOG_APPEND_TIME``, readers give every record the maximum timestamp of the batch.
    """
    encoded: list[bytes] = []
    base_timestamp = delete_horizon_ms
    newest, last_delta = _INT64_MIN, -1
    for offset, timestamp, key, value, headers in records:
        if base_timestamp is None:
            base_timestamp = timestamp
        if timestamp > newest:
            newest = timestamp
        delta = offset - base_offset
        if delta <= last_delta:
            raise ValueError(f"offset {offset} follows {base_offset + last_delta}; offsets grow, from {base_offset} on")
        last_delta = delta
        encoded.append(_encode_record(delta, timestamp - base_timestamp, key, value, headers))
    if last_offset_delta is None:
        last_offset_delta = last_delta
    if last_offset_delta < max(last_delta, 0):
        raise ValueError(f"last offset delta {last_offset_delta} with records up to {last_delta}; it covers them all")
    if max_timestamp is None:
        max_timestamp = newest if encoded else NO_TIMESTAMP
    if base_timestamp is None:
        base_timestamp = max_timestamp
    attributes = (
        (timestamp_type and TIMESTAMP_TYPE_BIT)
        | (is_transactional and TRANSACTIONAL_BIT)
        | (is_control and CONTROL_BIT)
        | (delete_horizon_ms is not None and DELETE_HORIZON_BIT)
    )
    return seal_batch(
        encoded,
        codec,
        compression_level,
        (base_offset, partition_leader_epoch),
        attributes,
        (last_offset_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, len(encoded)),
    )


def build_single(
    key: bytes,
    value: bytes | None,
    *,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """Return the same as ``build_batch`` for one record with a key and without headers, in half the time.

    Coordinators write batches of one record, and four or more of them for every transaction.
    """
    if value is None:
        record = _encode_record(0, 0, key, value, ())
    else:
        # Before the key are the record's attributes, timestamp delta and offset delta, which are all 0.
        body = b"".join((b"\0\0\0", VARINTS[len(key)], key, VARINTS[len(value)], value, b"\0"))
        record = VARINTS[len(body)] + body
    attributes = (is_transactional and TRANSACTIONAL_BIT) | (is_control and CONTROL_BIT)
    length = HEADER_SIZE - LOG_OVERHEAD + len(record)
    inside = _INSIDE_CRC.pack(attributes, 0, timestamp, timestamp, producer_id, producer_epoch, NO_SEQUENCE, 1)
    crc = crc32c(record, crc32c(inside))
    return _OUTSIDE_CRC.pack(base_offset, length, partition_leader_epoch, MAGIC_V2, crc) + inside + record


class BatchBuilder:
    """A batch that grows by ``append`` until it is full, and is built when producer id and sequence are known.

    The limit is for the size of the uncompressed batch: how much a codec saves is not known before the batch is full.
    The first record is always accepted, so a record larger than the limit is sent in a batch of its own.
    """

    __slots__ = (
        "_base_timestamp",
        "_codec",
        "_compression_level",
        "_encoded",
        "_max_timestamp",
        "_size_bytes_max",
        "size_bytes",
    )

    def __init__(self, *, size_bytes_max: int, codec: Codec = Codec.NONE, compression_level: int | None = None) -> None:
        self.size_bytes = HEADER_SIZE
        self._size_bytes_max = size_bytes_max
        self._codec = codec
        self._compression_level = compression_level
        self._encoded: list[bytes] = []
        self._base_timestamp = self._max_timestamp = _INT64_MIN

    @property
    def record_count(self) -> int:
        return len(self._encoded)

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> bool:
        """Append a record. Returns ``False``, without appending it, if it would make the batch too large."""
        records = self._encoded
        count = len(records)
        if not count:
            self._base_timestamp = timestamp
        delta = timestamp - self._base_timestamp
        if value is None or headers:
            encoded = _encode_record(count, delta, key, value, headers)
        else:
            # The same as ``_encode_record``, inlined for speed: every record that a producer sends is encoded here.
            if key is None:
                body = b"".join((b"\0", VARINTS[delta], VARINTS[count], _NULL, VARINTS[len(value)], value, b"\0"))
            else:
                key_size, value_size = VARINTS[len(key)], VARINTS[len(value)]
                body = b"".join((b"\0", VARINTS[delta], VARINTS[count], key_size, key, value_size, value, b"\0"))
            encoded = VARINTS[len(body)] + body
        size_bytes = self.size_bytes + len(encoded)
        if count and size_bytes > self._size_bytes_max:
            return False
        records.append(encoded)
        self.size_bytes = size_bytes
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        return True

    def build(
        self,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
    ) -> bytes:
        """Return the batch so far, with offsets from 0 on: the leader assigns the real ones.

        It can be built repeatedly.
        """
        count = len(self._encoded)
        if count == 0:
            raise ValueError("a producer's batch holds at least one record")
        return seal_batch(
            self._encoded,
            self._codec,
            self._compression_level,
            (0, NO_LEADER_EPOCH),
            is_transactional and TRANSACTIONAL_BIT,
            (count - 1, self._base_timestamp, self._max_timestamp, producer_id, producer_epoch, base_sequence, count),
        )


def seal_batch(
    encoded: list[bytes] | list[memoryview],
    codec: Codec,
    compression_level: int | None,
    place: tuple[int, int],
    attributes: int,
    fields: tuple[int, int, int, int, int, int, int],
) -> bytes:
    """Return the batch of these encoded records: compress them, and put the header before them.

    ``place`` is (base offset, leader epoch); ``fields`` are the header fields after the attributes.
    """
    block: Buffer = encoded[0] if len(encoded) == 1 else b"".join(encoded)
    if block and (codec or compression_level is not None):
        block = compress(codec, block, compression_level)
        attributes |= codec
    base_offset, leader_epoch = place
    length = HEADER_SIZE - LOG_OVERHEAD + len(block)
    try:
        inside = _INSIDE_CRC.pack(attributes, *fields)
        crc = crc32c(block, crc32c(inside))
        return b"".join((_OUTSIDE_CRC.pack(base_offset, length, leader_epoch, MAGIC_V2, crc), inside, block))
    except error as problem:
        raise ValueError(f"{problem}: length {length}, base offset {base_offset}, fields {fields}") from None


def _encode_record(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Headers
) -> bytes:
    if key is None:
        key_size, key = _NULL, b""
    else:
        key_size = VARINTS[len(key)]
    if value is None:
        value_size, value = _NULL, b""
    else:
        value_size = VARINTS[len(value)]
    counted_headers = _encode_headers(headers) if headers else b"\0"
    # The zero at the beginning is the record's attributes, which Kafka does not use yet.
    body = b"".join(
        (b"\0", VARINTS[timestamp_delta], VARINTS[offset_delta], key_size, key, value_size, value, counted_headers)
    )
    return VARINTS[len(body)] + body


def _encode_headers(headers: Headers) -> bytes:
    parts = [VARINTS[len(headers)]]
    for key, value in headers:
        encoded = key.encode("utf-8", "surrogateescape")
        parts += (VARINTS[len(encoded)], encoded)
        parts += (_NULL,) if value is None else (VARINTS[len(value)], value)
    return b"".join(parts)
