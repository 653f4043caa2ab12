"""Decoding of record batches to Arrow columns.

The law: the rows are the records that ``iterate_records`` gives, or the ``DecodeError`` that it raises. Whatever the
fast way does not understand is decoded by ``iterate_records``.

Records follow each other, and each begins with its length: to know where the last one begins, all before it have to be
read. Where records are large, or many in a row have the same size, they are walked from one to the next: a run of equal
lengths is one comparison. Elsewhere all places where a record could begin are found at once (a length, then the zero
byte of the attributes), with the place behind each; then the chain from the first byte is followed by doubling: the
record after this one, after two, after four. A place that only looks like the beginning of a record is on no chain that
starts at the first byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.client.arrow.varints import Bytes, Int64s, read_varints
from semel.errors import DecodeError
from semel.types import Buffer
from semel.wire.compression import Codec, decompress
from semel.wire.records import DECOMPRESSED_SIZE_BYTES_MAX, HEADER_SIZE, BatchHeader, Record, iterate_records
from semel.wire.records.header import TIMESTAMP_TYPE_BIT

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)

_CHUNK_BYTES: Final = 4 * 2**20
_LENGTH_WIDTH_MAX: Final = 5
# A byte for each of: length, attributes, two deltas, the lengths of key and value, the number of headers.
_RECORD_BYTES_MIN: Final = 7
# One step of the walk from record to record takes as long as scanning this many bytes.
_STEP_BYTES_MIN: Final = 400
_STEPS_TRIED: Final = 32
# After this many records of one size, more of the same size are expected.
_ALIKE_MIN: Final = 4
_RUN_TRIED: Final = 16
# At most this many bytes are read ahead of a position; they are zeros.
_MARGIN_BYTES: Final = 64


def decode(
    buffer: Buffer,
    batches: Iterable[tuple[int, BatchHeader]],
    *,
    include_headers: bool = False,
    chunk_bytes: int = _CHUNK_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the batches at these positions, in chunks of whole batches of about ``chunk_bytes``.

    Columns: ``key``, ``value``, ``offset``, ``timestamp`` (milliseconds), ``timestamp_type`` (0 create, 1 log append),
    and ``headers`` if asked for. Checksums are not verified.
    """
    blocks: list[_Block] = []
    size = 0
    for position, header in batches:
        payload = _payload(buffer, position, header)
        if header.record_count == 0 and not payload:
            continue
        if blocks and size + len(payload) > chunk_bytes:
            yield _decode(buffer, blocks, include_headers)
            blocks, size = [], 0
        blocks.append(_Block(position, header, payload))
        size += len(payload)
    if blocks:
        yield _decode(buffer, blocks, include_headers)


class _Block(NamedTuple):
    position: int
    header: BatchHeader
    payload: Buffer


class _NeedsSlowPath(Exception):
    """Raised for bytes that the fast way does not understand. ``iterate_records`` then says whether they are wrong."""


def _payload(buffer: Buffer, position: int, header: BatchHeader) -> Buffer:
    if header.size_bytes > len(buffer) - position:
        raise DecodeError(
            f"batch at position {position} is {header.size_bytes} bytes long; {len(buffer) - position} are left"
        )
    block = memoryview(buffer)[position + HEADER_SIZE : position + header.size_bytes]
    codec = header.compression
    return block if codec is Codec.NONE else decompress(codec, block, size_max=DECOMPRESSED_SIZE_BYTES_MAX)


def _decode(buffer: Buffer, blocks: list[_Block], include_headers: bool) -> pa.RecordBatch:
    try:
        return _Chunk(buffer, blocks).rows(include_headers)
    except _NeedsSlowPath:
        records = [
            (record, block.header.attributes & TIMESTAMP_TYPE_BIT != 0)
            for block in blocks
            for record in iterate_records(buffer, block.position)
        ]
        return _one_by_one(records, include_headers)


class _Chunk:
    """The records of several batches: in the fetched buffer or, if any batch is compressed, in one block of bytes."""

    def __init__(self, buffer: Buffer, blocks: list[_Block]) -> None:
        self._payloads = [block.payload for block in blocks]
        self._headers = [block.header for block in blocks]
        self._sizes = np.array([len(payload) for payload in self._payloads], dtype=np.int64)
        self._counts = np.array([header.record_count for header in self._headers], dtype=np.int64)
        # Checked before anything is allocated in the size that a header claims.
        _require((self._counts > 0) & (self._counts * _RECORD_BYTES_MIN <= self._sizes))
        if all(header.compression is Codec.NONE for header in self._headers):
            self._size = len(buffer)
            self._read_from(buffer, [block.position + HEADER_SIZE for block in blocks])
        else:
            self._join()

    def _join(self) -> None:
        self._size = int(self._sizes.sum())
        begins: list[int] = (np.cumsum(self._sizes) - self._sizes).tolist()
        self._read_from(b"".join([*self._payloads, bytes(_MARGIN_BYTES)]), begins)

    def _read_from(self, data: Buffer, begins: list[int]) -> None:
        self._buffer = pa.py_buffer(data)
        self._data: Bytes = np.frombuffer(self._buffer, dtype=np.uint8)
        self._begins = begins

    def rows(self, include_headers: bool) -> pa.RecordBatch:
        starts, ends = self._records()
        # A record: its length, then a body of that length, which begins with one byte of attributes.
        length, body = read_varints(self._data, starts)
        _require(body + length == ends)
        timestamp_deltas, position = read_varints(self._data, body + 1)
        offset_deltas, position = read_varints(self._data, position)
        keys, position = self._field(position)
        values, position = self._field(position)
        header_counts, position = read_varints(self._data, position)
        headers = None
        if header_counts.any():
            headers, position = self._header_fields(header_counts, position)
        _require(position == ends)
        columns = {
            "key": self._slices(*keys),
            "value": self._slices(*values),
            "offset": pa.array(self._offsets(offset_deltas)),
            **self._times(timestamp_deltas),
        }
        if include_headers:
            columns["headers"] = self._header_lists(header_counts, headers)
        return pa.RecordBatch.from_pydict(columns)

    def _records(self) -> tuple[Int64s, Int64s]:
        """Return where each record begins and ends."""
        walked = self._walked()
        if walked is not None:
            return walked
        self._join()  # Small records of different sizes: scanning all bytes at once is faster.
        return self._chained()

    def _walked(self) -> tuple[Int64s, Int64s] | None:
        starts: list[Int64s] = []
        ends: list[Int64s] = []
        for begin, size, count in zip(self._begins, self._sizes.tolist(), self._counts.tolist(), strict=True):
            edges = _walk(self._data[begin : begin + size], count)
            if edges is None:
                return None
            edges += begin
            starts.append(edges[:-1])
            ends.append(edges[1:])
        return np.concatenate(starts), np.concatenate(ends)

    def _chained(self) -> tuple[Int64s, Int64s]:
        starts, ends = _candidates(self._data, self._size)
        nowhere = len(starts)
        if not nowhere or starts[0] != 0:
            raise _NeedsSlowPath
        found = np.searchsorted(starts, ends)
        found[found == nowhere] = 0
        successor = np.append(np.where(starts[found] == ends, found, nowhere), nowhere)
        count = int(self._counts.sum())
        chain = np.zeros(1, dtype=np.int64)
        while len(chain) < count:
            chain = np.concatenate((chain, successor[chain]))
            if len(chain) < count:
                successor = successor[successor]
        chain = chain[:count]
        _require(chain != nowhere)
        starts, ends = starts[chain], ends[chain]
        firsts = np.cumsum(self._counts) - self._counts
        _require(starts[firsts] == np.cumsum(self._sizes) - self._sizes)
        _require(ends[-1:] == self._size)
        return starts, ends

    def _field(self, position: Int64s) -> tuple[tuple[Int64s, Int64s, npt.NDArray[np.bool_]], Int64s]:
        """Read a field of bytes in every record: its start and end, whether it is null, and the position behind it."""
        length, start = read_varints(self._data, position)
        is_null = length == -1
        _require((length >= -1) & (length <= self._size))
        end = start + np.where(is_null, 0, length)
        _require(end <= self._size)
        return (start, end, is_null), end

    def _header_fields(self, counts: Int64s, position: Int64s) -> tuple[list[Int64s], Int64s]:
        """Find keys and values of all headers: the first header of every record at once, then the second."""
        _require((counts >= 0) & (counts <= self._size))
        position = position.copy()
        found: list[tuple[Int64s, Int64s, Int64s, Int64s, npt.NDArray[np.bool_]]] = []
        row = np.flatnonzero(counts)
        place = 0
        while len(row):
            (key_start, key_end, no_key), behind = self._field(position[row])
            _require(~no_key)
            (start, end, is_null), behind = self._field(behind)
            found.append((key_start, key_end, start, end, is_null))
            position[row] = behind
            place += 1
            row = row[counts[row] > place]
        columns = [np.concatenate(column) for column in zip(*found, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        return [column[order] for column in columns], position

    def _header_lists(self, counts: Int64s, fields: list[Int64s] | None) -> pa.ListArray:
        offsets = np.zeros(len(counts) + 1, dtype=np.int32)
        np.cumsum(counts, out=offsets[1:])
        if fields is None:
            keys, values = pa.array([], pa.string()), pa.array([], pa.binary())
        else:
            key_start, key_end, start, end, is_null = fields
            keys = _text(self._slices(key_start, key_end, np.zeros(len(key_start), dtype=np.bool_)))
            values = self._slices(start, end, is_null.astype(np.bool_))
        elements = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
        return pa.ListArray.from_arrays(pa.array(offsets), elements, type=HEADERS_TYPE)

    def _slices(self, start: Int64s, end: Int64s, is_null: npt.NDArray[np.bool_]) -> pa.BinaryArray:
        """Return the bytes between starts and ends: every second element of an array that also has the gaps."""
        offsets = np.empty(2 * len(start), dtype=np.int32)
        offsets[0::2], offsets[1::2] = start, end
        both = pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), self._buffer])
        return both.take(
            pa.array(np.arange(0, len(offsets), 2, dtype=np.int32), mask=is_null if is_null.any() else None)
        )

    def _offsets(self, deltas: Int64s) -> Int64s:
        lasts = np.cumsum(self._counts) - 1
        firsts = lasts - self._counts + 1
        grows = np.empty(len(deltas), dtype=np.bool_)
        grows[1:] = deltas[1:] > deltas[:-1]
        grows[firsts] = deltas[firsts] >= 0
        _require(grows)
        _require(deltas[lasts] <= [header.last_offset_delta for header in self._headers])
        offsets: Int64s = deltas + np.repeat([header.base_offset for header in self._headers], self._counts)
        return offsets

    def _times(self, deltas: Int64s) -> dict[str, pa.Array]:
        timestamps = deltas + np.repeat([header.base_timestamp for header in self._headers], self._counts)
        by_leader = np.array([header.attributes & TIMESTAMP_TYPE_BIT != 0 for header in self._headers])
        types = np.repeat(by_leader.astype(np.int32), self._counts)
        if by_leader.any():
            newest = np.repeat([header.max_timestamp for header in self._headers], self._counts)
            timestamps = np.where(types, newest, timestamps)
        return {"timestamp": pa.array(timestamps), "timestamp_type": pa.array(types)}


def _walk(data: Bytes, count: int) -> Int64s | None:
    """Return where each of ``count`` records begins, and the end of the data; ``None`` if scanning is faster."""
    found: list[Int64s] = []
    singles: list[int] = []
    quick, size = data.data, len(data)
    position = stride_before = alike = steps = 0
    while count > 0:
        if steps == _STEPS_TRIED and position < _STEPS_TRIED * _STEP_BYTES_MIN:
            return None
        steps += 1
        try:
            length = byte = quick[position]
            behind = position + 1
            while byte >= 0x80 and behind - position < _LENGTH_WIDTH_MAX:
                byte = quick[behind]
                length += (byte - 1) << (7 * (behind - position))
                behind += 1
        except IndexError:
            raise _NeedsSlowPath from None
        after = behind + (length >> 1)
        if byte >= 0x80 or length & 1 or after > size:
            raise _NeedsSlowPath
        stride = after - position
        if stride != stride_before:
            stride_before, alike = stride, 0
        elif alike < _ALIKE_MIN:
            alike += 1
        else:
            run = _run(data, position, behind - position, stride, count)
            found += (np.array(singles, dtype=np.int64), np.arange(run, dtype=np.int64) * stride + position)
            singles, alike = [], 0
            position += run * stride
            count -= run
            continue
        singles.append(position)
        position = after
        count -= 1
    if position != size:
        raise _NeedsSlowPath
    return np.concatenate([*found, np.array([*singles, size], dtype=np.int64)])


def _run(data: Bytes, position: int, width: int, stride: int, count: int) -> int:
    """Return how many records, from this one on, have a length field of the same bytes."""
    count = min(count, (len(data) - position) // stride)
    known, tried = 1, _RUN_TRIED
    while known < count:
        tried = min(tried, count - known)
        begin = position + known * stride
        differs = data[begin : begin + tried * stride : stride] != data[position]
        for place in range(1, width):
            differs |= data[begin + place : begin + tried * stride : stride] != data[position + place]
        first = int(differs.argmax())
        if differs[first]:
            return known + first
        known += tried
        tried *= 4
    return known


def _candidates(data: Bytes, size: int) -> tuple[Int64s, Int64s]:
    """Return every place where a length that fits is followed by a zero byte, in order, and where its record ends."""
    starts: list[Int64s] = []
    ends: list[Int64s] = []
    # The last byte of a length is 1 to 127. One subtraction excludes zeros behind zeros, of which there may be many.
    last = data[: max(size - 1, 0)] - np.uint8(1)
    zeros = np.flatnonzero((data[1:size] == 0) & (last < 0x7F)) + 1
    length = data[zeros - 1].astype(np.int64)
    for width in range(1, _LENGTH_WIDTH_MAX + 1):
        end = zeros + (length >> 1)
        fits = (length & 1 == 0) & (end <= size) & (length >> 1 > 0)
        starts.append(zeros[fits] - width)
        ends.append(end[fits])
        # The same zeros with a length field one byte longer, if the byte before says that more bytes follow.
        longer = zeros > width
        zeros, length = zeros[longer], length[longer]
        byte = data[zeros - width - 1]
        longer = byte >= 0x80
        zeros, length = zeros[longer], (length[longer] << 7) | (byte[longer] & 0x7F)
        if not len(zeros):
            break
    start, end = np.concatenate(starts), np.concatenate(ends)
    order = np.argsort(start, kind="stable")
    return start[order], end[order]


def _require(conditions: npt.NDArray[np.bool_]) -> None:
    if not conditions.all():
        raise _NeedsSlowPath


def _text(names: pa.BinaryArray) -> pa.StringArray:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:  # Kafka does not check the keys of headers; Arrow accepts only UTF-8.
        return pa.array([name.as_py().decode("utf-8", "replace") for name in names], pa.string())


def _one_by_one(records: list[tuple[Record, bool]], include_headers: bool) -> pa.RecordBatch:
    columns = {
        "key": pa.array([record.key for record, _ in records], pa.binary()),
        "value": pa.array([record.value for record, _ in records], pa.binary()),
        "offset": pa.array([record.offset for record, _ in records], pa.int64()),
        "timestamp": pa.array([record.timestamp for record, _ in records], pa.int64()),
        "timestamp_type": pa.array([int(by_leader) for _, by_leader in records], pa.int32()),
    }
    if include_headers:
        columns["headers"] = pa.array(
            [[(_replaced(name), value) for name, value in record.headers] for record, _ in records], HEADERS_TYPE
        )
    return pa.RecordBatch.from_pydict(columns)


def _replaced(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
