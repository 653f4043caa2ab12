"""Encoding of Arrow columns as record batches.

The law: the batches are byte for byte those of ``BatchBuilder``, if it is given the same records one by one and is
replaced by a new one whenever it is full.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.client.arrow.varints import Int64s, Varints, join_varints, widths
from semel.wire.records import HEADER_SIZE, NO_LEADER_EPOCH, TRANSACTIONAL_BIT, Codec
from semel.wire.records.builder import seal_batch
from semel.wire.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

_NOTHING: Final = pa.scalar(b"")
_NO_HEADERS: Final = pa.scalar(b"\0")
_EMPTY: Final = b""
_NULL_LENGTH: Final = -1
# The attributes of a record, which have no meaning yet.
_ATTRIBUTES: Final = Varints.same(0)
_NO_DELTA: Final = Varints.same(0)
_ATTRIBUTES_BYTES: Final = 1
# At least one byte for each of: length, timestamp delta, offset delta.
_DELTAS_BYTES_MIN: Final = 3


class EncodedBatch(NamedTuple):
    """A whole batch without producer id, epoch and sequence, which are set when it is sent."""

    records: bytes
    first_row: int
    record_count: int


class OversizedRecord(ValueError):
    """Raised for a record that is larger than any batch may be. ``row`` is its row."""

    def __init__(self, row: int, size_bytes: int, size_bytes_max: int) -> None:
        super().__init__(f"row {row} takes {size_bytes} bytes as a record; {size_bytes_max} is the most")
        self.row = row
        self.size_bytes = size_bytes


def encode(
    rows: pa.RecordBatch,
    *,
    size_bytes_max: int,
    record_size_bytes_max: int | None = None,
    codec: Codec = Codec.NONE,
    compression_level: int | None = None,
    is_transactional: bool = False,
) -> Iterator[EncodedBatch]:
    """Yield the rows as batches of up to ``size_bytes_max`` bytes before compression; a larger record is sent alone.

    Columns: ``key`` and ``value`` (binary or string, null is Kafka's null), ``timestamp`` (int64, milliseconds), and
    ``headers`` (a list of structs of key and value) if there are any. All rows together are less than 2 GiB. Raises
    ``OversizedRecord`` before anything is encoded if a record exceeds ``record_size_bytes_max``.
    """
    encoder = Encoder(
        rows,
        size_bytes_max=size_bytes_max,
        codec=codec,
        compression_level=compression_level,
        is_transactional=is_transactional,
    )
    if record_size_bytes_max is not None:
        encoder.check_sizes(record_size_bytes_max)
    yield from encoder.take()


class Encoder:
    """Encodes rows as ``encode`` does, some batches at a time."""

    def __init__(
        self,
        rows: pa.RecordBatch,
        *,
        size_bytes_max: int,
        codec: Codec,
        compression_level: int | None,
        is_transactional: bool,
    ) -> None:
        self._columns = _Columns(rows)
        self._cut = _cut(self._columns, size_bytes_max - HEADER_SIZE)
        self._row_count = rows.num_rows
        self._codec = codec
        self._compression_level = compression_level
        self._attributes = is_transactional and TRANSACTIONAL_BIT

    def check_sizes(self, size_bytes_max: int) -> None:
        """Raise ``OversizedRecord`` if a record exceeds this size."""
        if not self._row_count:
            return
        row = int(self._columns.fixed_sizes.argmax())
        size_bytes = int(self._columns.fixed_sizes[row]) + _DELTAS_BYTES_MIN + HEADER_SIZE
        if size_bytes > size_bytes_max:
            raise OversizedRecord(row, size_bytes, size_bytes_max)

    def take(self, size_bytes: float = math.inf, *, more_follow: bool = False) -> Iterator[EncodedBatch]:
        """Yield the next batches, one at least, of about ``size_bytes`` before compression; none at the end.

        With ``more_follow`` the last batch of all is left out, because rows that follow may still fit into it.
        """
        shares: list[_Shared] = []
        for share in self._cut:
            if more_follow and share.end == self._row_count:
                break
            shares.append(share)
            size_bytes -= share.size_bytes
            if size_bytes < share.size_bytes / 2:  # Full batches are a little smaller than the limit.
                break
        if not shares:
            return
        block, ends = self._columns.encoded(shares)
        for share, begin, end in zip(shares, ends, ends[1:], strict=False):
            count = len(share.sizes)
            timestamps = self._columns.timestamps[share.start : share.end]
            newest, oldest = int(timestamps.max()), int(timestamps[0])
            records = seal_batch(
                [block[begin:end]],
                self._codec,
                self._compression_level,
                (0, NO_LEADER_EPOCH),
                self._attributes,
                (count - 1, oldest, newest, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count),
            )
            yield EncodedBatch(records, share.start, count)


class _Columns:
    def __init__(self, rows: pa.RecordBatch) -> None:
        self._keys, key_lengths = _binary(rows.column("key"))
        self._values, value_lengths = _binary(rows.column("value"))
        self._key_lengths, self._value_lengths = Varints.of(key_lengths), Varints.of(value_lengths)
        if rows.column("timestamp").null_count:
            raise ValueError("every record has a timestamp; the column holds nulls")
        self.timestamps: Int64s = rows.column("timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False)
        self.is_of_one_time = bool((self.timestamps == self.timestamps[:1]).all())
        """Whether all timestamps are equal, as if none were given: then every timestamp delta is 0."""
        self._tails = _headers(rows.column("headers")) if "headers" in rows.schema.names else None
        tails: Int64s | int = 1
        if self._tails is not None:
            tails = pc.binary_length(self._tails).to_numpy(zero_copy_only=False)
        self.fixed_sizes: Int64s = np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
        self.fixed_sizes += _ATTRIBUTES_BYTES + self._key_lengths.widths + self._value_lengths.widths + tails
        """The size of each record without its length and its deltas, which depend on its place in a batch."""

    def encoded(self, shares: list[_Shared]) -> tuple[memoryview, list[int]]:
        """Return the records of consecutive batches as bytes, where each batch begins, and the end of the last."""
        first, end = shares[0].start, shares[-1].end
        front = [
            Varints.of(np.concatenate([share.sizes for share in shares])),
            _ATTRIBUTES,
            self._timestamp_deltas(shares),
            Varints.of(np.concatenate([np.arange(len(share.sizes), dtype=np.int64) for share in shares])),
            self._key_lengths.part(first, end),
        ]
        value_lengths, values = self._value_lengths.part(first, end), _part(self._values, first, end)
        if isinstance(self._keys, pa.Scalar):
            parts = [join_varints(*front, value_lengths), values]
        else:
            parts = [join_varints(*front), _part(self._keys, first, end), join_varints(value_lengths), values]
        tails = _NO_HEADERS if self._tails is None else _part(self._tails, first, end)
        joined = pc.binary_join_element_wise(*parts, tails, _NOTHING)
        _, positions, data = joined.buffers()
        begins = np.frombuffer(positions, dtype=np.int32)[[share.start - first for share in shares] + [end - first]]
        return memoryview(data), begins.tolist()

    def _timestamp_deltas(self, shares: list[_Shared]) -> Varints:
        if self.is_of_one_time:
            return _NO_DELTA
        starts, counts = [share.start for share in shares], [len(share.sizes) for share in shares]
        return Varints.of(self.timestamps[starts[0] : shares[-1].end] - np.repeat(self.timestamps[starts], counts))


class _Shared(NamedTuple):
    """Records that share a batch."""

    start: int
    sizes: Int64s
    """The value of each record's length field."""
    size_bytes: int

    @property
    def end(self) -> int:
        return self.start + len(self.sizes)


def _cut(columns: _Columns, room_bytes: int) -> Iterator[_Shared]:
    """Yield the records of each batch: as many as fit, at least one. Deltas are from the first of a batch."""
    at_least = np.cumsum(columns.fixed_sizes + _DELTAS_BYTES_MIN)
    offset_widths = widths(np.arange(len(at_least)))
    start, before = 0, 0
    while start < len(at_least):
        end = max(int(np.searchsorted(at_least, before + room_bytes, side="right")), start + 1)
        sizes = columns.fixed_sizes[start:end] + offset_widths[: end - start]
        sizes += 1 if columns.is_of_one_time else widths(columns.timestamps[start:end] - columns.timestamps[start])
        ends = np.cumsum(sizes + widths(sizes))
        count = max(int(np.searchsorted(ends, room_bytes, side="right")), 1)
        yield _Shared(start, sizes[:count], int(ends[count - 1]))
        start += count
        before = int(at_least[start - 1])


def check_header_keys(headers: pa.StructArray) -> None:
    """Raise ``ValueError`` if there is a header without a key, or a null in place of a header."""
    if headers.null_count or headers.field(0).null_count:
        raise ValueError("a header has no key; only its value may be null")


def _binary(column: pa.Array) -> tuple[pa.BinaryArray | pa.Scalar, Int64s]:
    """Return the bytes, with nulls made empty, and the lengths, with nulls made -1."""
    if column.null_count == len(column):
        return _NOTHING, np.full(len(column), _NULL_LENGTH, dtype=np.int64)
    data = column.cast(pa.binary())
    lengths = pc.binary_length(data).cast(pa.int64())
    if data.null_count:
        lengths, data = lengths.fill_null(_NULL_LENGTH), data.fill_null(_EMPTY)
    return data, lengths.to_numpy(zero_copy_only=False)


def _part(column: pa.BinaryArray | pa.Scalar, first: int, end: int) -> pa.BinaryArray | pa.Scalar:
    return column if isinstance(column, pa.Scalar) else column.slice(first, end - first)


def _headers(column: pa.ListArray) -> pa.BinaryArray:
    """Return the encoded headers of each record, with their count, as they stand at the end of the record."""
    counts = pc.list_value_length(column).fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    flat = column.flatten()
    check_header_keys(flat)
    names, name_lengths = _binary(flat.field(0))
    values, value_lengths = _binary(flat.field(1))
    encoded = pc.binary_join_element_wise(
        join_varints(Varints.of(name_lengths)), names, join_varints(Varints.of(value_lengths)), values, _NOTHING
    )
    firsts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=firsts[1:])
    # The headers of one record are adjacent: its bytes begin where those of its first header do.
    begins = np.frombuffer(encoded.buffers()[1], dtype=np.int32) if len(encoded) else np.zeros(1, dtype=np.int32)
    offsets = pa.py_buffer(np.ascontiguousarray(begins[firsts]))
    per_record = pa.BinaryArray.from_buffers(pa.binary(), len(counts), [None, offsets, encoded.buffers()[2]])
    return pc.binary_join_element_wise(join_varints(Varints.of(counts)), per_record, _NOTHING)
