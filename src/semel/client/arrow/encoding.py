"""From Arrow columns to record batches.

The law: the batches are byte for byte those of a ``BatchBuilder`` that is given the same records one by one and is
replaced by a new one whenever it says that it is full.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.client.arrow.varints import Int64s, join_varints, widths
from semel.wire.records import HEADER_SIZE, NO_LEADER_EPOCH, TRANSACTIONAL_BIT, Codec
from semel.wire.records.builder import seal_batch
from semel.wire.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

_NOTHING: Final = pa.scalar(b"")
_NO_HEADERS: Final = pa.scalar(b"\0")
_EMPTY: Final = b""
_NULL_LENGTH: Final = -1
_ATTRIBUTES_BYTES: Final = 1
# A byte at least for each of: length, timestamp delta, offset delta.
_DELTAS_BYTES_MIN: Final = 3


class EncodedBatch(NamedTuple):
    """A whole batch, without the producer's numbers: they are patched in when it is sent."""

    records: bytes
    first_row: int
    record_count: int


class OversizedRecord(ValueError):
    """A record that is larger than any batch may be. ``row`` says which."""

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
    more_follow: bool = False,
) -> Iterator[EncodedBatch]:
    """The rows as batches of up to ``size_bytes_max`` bytes before compression; a larger record travels alone.

    With ``more_follow`` the last batch is left out: rows that follow may still fit into it.

    Columns: ``key`` and ``value`` (binary or string, null is Kafka's null), ``timestamp`` (int64, milliseconds), and
    ``headers`` (a list of structs of key and value) if there are any. All rows together are less than 2 GiB. Raises
    ``OversizedRecord`` before anything is encoded if a record exceeds ``record_size_bytes_max``.
    """
    if rows.num_rows == 0:
        return
    columns = _Columns(rows)
    if record_size_bytes_max is not None:
        columns.check_sizes(record_size_bytes_max)
    cut = _Cut(columns, size_bytes_max - HEADER_SIZE)
    block, ends = columns.encoded(cut)
    batches = len(cut.starts) - more_follow
    for number, (start, count) in enumerate(zip(cut.starts[:batches], cut.counts, strict=False)):
        timestamps = columns.timestamps[start : start + count]
        newest, oldest = int(timestamps.max()), int(timestamps[0])
        records = seal_batch(
            [block[ends[number] : ends[number + 1]]],
            codec,
            compression_level,
            (0, NO_LEADER_EPOCH),
            is_transactional and TRANSACTIONAL_BIT,
            (count - 1, oldest, newest, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count),
        )
        yield EncodedBatch(records, start, count)


class _Columns:
    def __init__(self, rows: pa.RecordBatch) -> None:
        self._keys, self._key_lengths = _binary(rows.column("key"))
        self._has_keys = bool((self._key_lengths > 0).any())
        self._values, self._value_lengths = _binary(rows.column("value"))
        if rows.column("timestamp").null_count:
            raise ValueError("every record has a timestamp; the column holds nulls")
        self.timestamps: Int64s = rows.column("timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False)
        self._tails = _headers(rows.column("headers")) if "headers" in rows.schema.names else None
        tails = 1 if self._tails is None else pc.binary_length(self._tails).to_numpy(zero_copy_only=False)
        self.fixed_sizes: Int64s = (
            _ATTRIBUTES_BYTES
            + widths(self._key_lengths)
            + np.maximum(self._key_lengths, 0)
            + widths(self._value_lengths)
            + np.maximum(self._value_lengths, 0)
            + tails
        )
        """What each record takes wherever it stands: all but its length and its deltas."""

    def check_sizes(self, size_bytes_max: int) -> None:
        row = int(self.fixed_sizes.argmax())
        size_bytes = int(self.fixed_sizes[row]) + _DELTAS_BYTES_MIN + HEADER_SIZE
        if size_bytes > size_bytes_max:
            raise OversizedRecord(row, size_bytes, size_bytes_max)

    def encoded(self, cut: _Cut) -> tuple[memoryview, list[int]]:
        """All records, one behind the other, and where each batch begins; the last of these is the end."""
        sizes = np.concatenate(cut.sizes)
        # The zeros are the records' attributes, which have no meaning yet.
        numbers = [
            sizes,
            np.zeros(len(sizes), dtype=np.int64),
            self.timestamps - np.repeat(self.timestamps[cut.starts], cut.counts),
            np.concatenate([np.arange(count, dtype=np.int64) for count in cut.counts]),
            self._key_lengths,
        ]
        if self._has_keys:
            parts = [join_varints(*numbers), self._keys, join_varints(self._value_lengths), self._values]
        else:
            parts = [join_varints(*numbers, self._value_lengths), self._values]
        tails = _NO_HEADERS if self._tails is None else self._tails
        joined = pc.binary_join_element_wise(*parts, tails, _NOTHING)
        _, offsets, data = joined.buffers()
        ends = np.frombuffer(offsets, dtype=np.int32)[[*cut.starts, len(joined)]]
        return memoryview(data), ends.tolist()


class _Cut:
    """Which records share a batch: as many as fit, and one in any case. Deltas count from the first of a batch."""

    def __init__(self, columns: _Columns, room_bytes: int) -> None:
        self.starts: list[int] = []
        self.counts: list[int] = []
        self.sizes: list[Int64s] = []
        """Per batch, what the length of each of its records says."""
        at_least = np.cumsum(columns.fixed_sizes + _DELTAS_BYTES_MIN)
        start, before = 0, 0
        while start < len(at_least):
            end = max(int(np.searchsorted(at_least, before + room_bytes, side="right")), start + 1)
            deltas = columns.timestamps[start:end] - columns.timestamps[start]
            numbers = np.arange(end - start, dtype=np.int64)
            sizes = columns.fixed_sizes[start:end] + widths(deltas) + widths(numbers)
            count = max(int(np.searchsorted(np.cumsum(sizes + widths(sizes)), room_bytes, side="right")), 1)
            self.starts.append(start)
            self.counts.append(count)
            self.sizes.append(sizes[:count])
            start += count
            before = int(at_least[start - 1])


def _binary(column: pa.Array) -> tuple[pa.BinaryArray | pa.Scalar, Int64s]:
    """The bytes with nulls made empty, and the lengths with nulls made -1."""
    if column.null_count == len(column):
        return _NOTHING, np.full(len(column), _NULL_LENGTH, dtype=np.int64)
    data = column.cast(pa.binary())
    lengths = pc.binary_length(data).cast(pa.int64())
    if data.null_count:
        lengths, data = lengths.fill_null(_NULL_LENGTH), data.fill_null(_EMPTY)
    return data, lengths.to_numpy(zero_copy_only=False)


def _headers(column: pa.ListArray) -> pa.BinaryArray:
    """Per record, the count of its headers and the headers, as they stand at its end."""
    counts = pc.list_value_length(column).fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    flat = column.flatten()
    if flat.field(0).null_count:
        raise ValueError("a header has no key; only its value may be null")
    names, name_lengths = _binary(flat.field(0))
    values, value_lengths = _binary(flat.field(1))
    encoded = pc.binary_join_element_wise(
        join_varints(name_lengths), names, join_varints(value_lengths), values, _NOTHING
    )
    firsts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=firsts[1:])
    # The headers of one record stand together: its bytes begin where those of its first header do.
    begins = np.frombuffer(encoded.buffers()[1], dtype=np.int32) if len(encoded) else np.zeros(1, dtype=np.int32)
    offsets = pa.py_buffer(np.ascontiguousarray(begins[firsts]))
    per_record = pa.BinaryArray.from_buffers(pa.binary(), len(counts), [None, offsets, encoded.buffers()[2]])
    return pc.binary_join_element_wise(join_varints(counts), per_record, _NOTHING)
