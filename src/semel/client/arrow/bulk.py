"""A bulk of records as Arrow columns: partitioned and encoded without running Python code for each record.

The law is that of ``machine.producer.bulk``: the same partitions, batches and bytes as for single records. Only an
application's own partitioner is called for every record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.client.arguments import as_partition_index, as_timestamp
from semel.client.arrow.decoding import HEADERS_TYPE
from semel.client.arrow.encoding import Encoder, check_header_keys
from semel.client.arrow.murmur2 import positive_murmur2_column
from semel.client.arrow.varints import Int64s
from semel.client.config.producer import ProducerConfig
from semel.client.machine.connection.cluster_view import TopicView
from semel.client.machine.producer.admission import HEADER_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES
from semel.client.machine.producer.bulk import BulkBatch
from semel.client.machine.producer.partitioner import Partitioning, StickyPartition
from semel.types import INT32_MAX

COLUMNS: Final = ("key", "value", "headers", "partition", "timestamp")

_Run: TypeAlias = tuple[int, int, int]
"""A partition, the first of the consecutive rows that go to it, and the row behind the last of them."""

_UNCHOSEN: Final = -1
# Consecutive rows of one partition are sliced together if on average there are at least this many of them.
_RUN_ROWS_MIN: Final = 64
# How many bytes of a partition are encoded together: most become whole batches, the rest is encoded again.
_WINDOW_BYTES: Final = 2 * 2**20
# Arrow's offsets have 32 bits, and a record is larger than its columns.
_WINDOW_BYTES_MAX: Final = INT32_MAX // 4


class ArrowBulk:
    """The ``Bulk`` of ``machine.producer.bulk`` for Arrow columns.

    ``rows`` has the columns that ``as_rows`` returns.
    """

    def __init__(
        self, topic: str, rows: pa.Table, config: ProducerConfig, *, window_bytes: int = _WINDOW_BYTES
    ) -> None:
        self.topic = topic
        self.record_count = rows.num_rows
        self._rows = rows
        self._config = config
        self._window_bytes = max(window_bytes, 2 * config.batch_size_max)
        self._sizes = _sizes(rows)
        self.size_bytes = int(self._sizes.sum())
        self._shares: list[_Share] = []
        self._turn = 0

    def largest(self) -> tuple[int, int]:
        row = int(self._sizes.argmax())
        return row, int(self._sizes[row])

    def spread(self, topic: TopicView, partitioning: Partitioning) -> int | None:
        if self._all_stick(partitioning):
            self._shares = list(self._shares_of(_sticky_runs(partitioning.sticky(topic), topic, self._sizes)))
            return None
        chosen = self._given_partitions()
        largest = int(chosen.max())
        if largest >= len(topic.partitions):
            return largest
        self._choose_others(chosen, topic, partitioning)
        self._shares = list(self._share_out(chosen))
        return None

    def take(self, size_bytes: int) -> list[BulkBatch]:
        """Return batches of all partitions in turn, because a request has one batch of each."""
        batches: list[BulkBatch] = []
        for_each = size_bytes // max(len(self._shares), 1)
        while size_bytes > for_each // 2 and self._shares:
            share = self._shares[self._turn % len(self._shares)]
            size_bytes -= share.encode_next(batches, for_each)
            if share.is_over:
                self._shares.remove(share)
            else:
                self._turn += 1
        return batches

    def _all_stick(self, partitioning: Partitioning) -> bool:
        """Whether all records go to sticky partitions, so that nothing has to be looked up for any of them."""
        if "partition" in self._rows.column_names or partitioning.asks_for_each:
            return False
        return not partitioning.hashes_keys or self._rows.column("key").null_count == self.record_count

    def _given_partitions(self) -> Int64s:
        if "partition" not in self._rows.column_names:
            return np.full(self.record_count, _UNCHOSEN, dtype=np.int64)
        given: Int64s = (
            self._rows.column("partition").cast(pa.int64()).fill_null(_UNCHOSEN).to_numpy().copy()  # A writable copy.
        )
        return given

    def _choose_others(self, chosen: Int64s, topic: TopicView, partitioning: Partitioning) -> None:
        """Choose the partition of every record that does not name one."""
        left = np.flatnonzero(chosen == _UNCHOSEN)
        if not len(left):
            return
        if partitioning.asks_for_each:
            keys, values = self._rows.column("key"), self._rows.column("value")
            for row in left.tolist():
                key, value = keys[row].as_py(), values[row].as_py()
                chosen[row] = partitioning.choose(topic, key, value, int(self._sizes[row]))
            return
        if partitioning.hashes_keys:
            keys = self._rows.column("key").combine_chunks()
            has_key = keys.is_valid().to_numpy(zero_copy_only=False)[left]
            hashed = left[has_key]
            if len(hashed):
                chosen[hashed] = positive_murmur2_column(keys)[hashed] % len(topic.partitions)
            left = left[~has_key]
        if len(left):
            for partition, first, end in _sticky_runs(partitioning.sticky(topic), topic, self._sizes[left]):
                chosen[left[first:end]] = partition

    def _share_out(self, chosen: Int64s) -> Iterator[_Share]:
        """Yield the rows of each partition, in order."""
        firsts = np.flatnonzero(np.diff(chosen, prepend=_UNCHOSEN))
        if len(firsts) * _RUN_ROWS_MIN <= len(chosen):
            ends = (*firsts[1:].tolist(), len(chosen))
            yield from self._shares_of(zip(chosen[firsts].tolist(), firsts.tolist(), ends, strict=True))
            return
        order = np.argsort(chosen.astype(np.int16 if chosen.max() < 2**15 else np.int64), kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(chosen[order])) + 1):
            yield self._share(int(chosen[rows[0]]), self._rows.take(pa.array(rows)), self._sizes[rows])

    def _shares_of(self, runs: Iterable[_Run]) -> Iterator[_Share]:
        """Yield the rows of each partition, from runs of consecutive rows: they are not handled one by one."""
        by_partition: dict[int, list[slice]] = {}
        for partition, first, end in runs:
            by_partition.setdefault(partition, []).append(slice(first, end))
        for partition, parts in sorted(by_partition.items()):
            rows = pa.concat_tables([self._rows[part] for part in parts])
            yield self._share(partition, rows, np.concatenate([self._sizes[part] for part in parts]))

    def _share(self, partition: int, rows: pa.Table, sizes: Int64s) -> _Share:
        return _Share(partition, rows, sizes, self._config, self._window_bytes)


class _Share:
    """The records of one partition, and how far they are encoded."""

    def __init__(
        self, partition: int, rows: pa.Table, sizes: Int64s, config: ProducerConfig, window_bytes: int
    ) -> None:
        self._partition = partition
        self._rows = rows
        self._ends = np.cumsum(sizes)
        self._config = config
        self._row = 0
        self._window_bytes = window_bytes
        self._window_end = 0
        self._window: Encoder | None = None
        """The encoder of the next rows, from which many batches are cut."""

    @property
    def is_over(self) -> bool:
        return self._row == len(self._ends)

    def encode_next(self, batches: list[BulkBatch], size_bytes: int) -> int:
        """Add whole batches of about this size, one at least. Returns the size of their records."""
        first, before = self._row, self._taken_bytes
        if self._window is not None:
            self._encode_window(self._window, batches, size_bytes)
        wanted = self._window_bytes
        while self._row == first:
            self._window = self._open_window(wanted)
            self._encode_window(self._window, batches, size_bytes)
            wanted *= 2  # All of these records fit into one batch, and more may.
        return self._taken_bytes - before

    @property
    def _taken_bytes(self) -> int:
        return int(self._ends[self._row - 1]) if self._row else 0

    def _open_window(self, size_bytes: int) -> Encoder:
        end_bytes = self._taken_bytes + min(size_bytes, _WINDOW_BYTES_MAX)
        end = max(int(np.searchsorted(self._ends, end_bytes)), self._row + 2)
        self._window_end = min(end, len(self._ends))
        return Encoder(
            _as_batch(self._rows.slice(self._row, self._window_end - self._row)),
            size_bytes_max=self._config.batch_size_max,
            codec=self._config.compression_type,
            compression_level=self._config.compression_level,
            is_transactional=self._config.transactional_id is not None,
        )

    def _encode_window(self, window: Encoder, batches: list[BulkBatch], size_bytes: int) -> None:
        for batch in window.take(size_bytes, more_follow=self._window_end < len(self._ends)):
            batches.append(BulkBatch(self._partition, batch.records, batch.record_count))
            self._row += batch.record_count


def as_rows(table: pa.Table | pa.RecordBatch, now_ms: int) -> pa.Table:
    """Return a table's columns as ``ArrowBulk`` needs them: bytes, and a timestamp in milliseconds for every row."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise TypeError(f"a table is a pyarrow.Table or RecordBatch, not {type(table).__name__}")
    unknown = [name for name in table.column_names if name not in COLUMNS]
    if unknown or not table.num_columns:
        raise ValueError(f"columns {unknown or 'none'}: a record has {', '.join(COLUMNS)}; name or drop them")
    columns: dict[str, Any] = {
        "key": _bytes(table, "key"),
        "value": _bytes(table, "value"),
        "timestamp": _timestamps(table, now_ms),
    }
    if "headers" in table.column_names:
        columns["headers"] = _headers(table.column("headers"))
    if "partition" in table.column_names:
        columns["partition"] = _as_int64("partition", table.column("partition"))
    return pa.table(columns)


def rows_of_lists(
    values: Iterable[bytes | None],
    keys: Iterable[bytes | None] | None,
    partitions: int | Sequence[int | None] | None,
    headers: Sequence[Any] | None,
    timestamps: int | Sequence[int | None] | None,
    now_ms: int,
) -> pa.Table:
    """Return lists as the columns of ``as_rows``. A single partition or timestamp is used for all records."""
    columns: dict[str, Any] = {"value": _array("values", values, pa.binary())}
    count = len(columns["value"])
    if keys is not None:
        columns["key"] = _array("keys", keys, pa.binary())
    if headers is not None:
        columns["headers"] = _array("headers", headers, HEADERS_TYPE)
    if partitions is not None:
        columns["partition"] = _integers("partition", partitions, count, as_partition_index)
    if timestamps is not None:
        columns["timestamp"] = _integers("timestamps", timestamps, count, as_timestamp)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns differ in length: {lengths}")
    return as_rows(pa.table(columns), now_ms)


def _integers(name: str, given: Any, count: int, checked: Callable[[Any, str], int]) -> pa.Array | pa.ChunkedArray:
    """Return the column of a list of integers and nulls, or of one integer for all, ``checked`` as ``send`` does."""
    if isinstance(given, pa.ChunkedArray | pa.Array):
        return given
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        return pa.repeat(pa.scalar(checked(given, name), pa.int64()), count)
    try:
        # With a type, Arrow would cut the fraction off a float.
        column = pa.array(given if isinstance(given, list | tuple) else list(given))
    except pa.ArrowException as error:
        raise TypeError(f"{name}: a list of int or None is needed: {error}") from None
    return _as_int64(name, column)


def _as_int64(name: str, column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        raise TypeError(f"{name}: a list of int or None is needed, not {column.type}")
    smallest = pc.min(column).as_py() if len(column) else None
    if smallest is not None and smallest < 0:
        rule = "partitions are counted from 0" if name == "partition" else "it is counted in milliseconds since 1970"
        raise ValueError(f"{name} {smallest}: {rule}")
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise ValueError(f"{name}: {error}") from None


def _array(name: str, given: Iterable[Any], kind: pa.DataType) -> pa.Array:
    if isinstance(given, pa.ChunkedArray | pa.Array):
        return given
    if isinstance(given, bytes | str):
        raise TypeError(f"{name} is one {type(given).__name__}; a list of them is needed")
    try:
        return pa.array(given if isinstance(given, list | tuple) else list(given), kind)
    except pa.ArrowException as error:
        raise TypeError(
            f"key and value of a record are bytes or None, headers are (str, bytes): {name}: {error}"
        ) from None


def _bytes(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name not in table.column_names:
        return pa.chunked_array([pa.nulls(table.num_rows, pa.binary())])
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        return column if column.type == pa.binary() else column.cast(pa.binary())
    except pa.ArrowNotImplementedError:
        raise TypeError(f"{name}: key and value of a record are bytes or text, not {column.type}") from None


def _timestamps(table: pa.Table, now_ms: int) -> pa.ChunkedArray:
    if "timestamp" not in table.column_names:
        return pa.chunked_array([pa.repeat(pa.scalar(now_ms, pa.int64()), table.num_rows)])
    column = table.column("timestamp")
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    return _as_int64("timestamp", column).fill_null(now_ms)


def _headers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_map(column.type):
        chunks = [
            pa.ListArray.from_arrays(
                # A copy: with the offsets of a slice, Arrow takes no mask.
                pa.array(chunk.offsets.to_numpy()),
                pa.StructArray.from_arrays([chunk.keys, chunk.items], names=["key", "value"]),
                mask=chunk.is_null() if chunk.null_count else None,
            )
            for chunk in column.chunks
        ]
        column = pa.chunked_array(chunks, chunks[0].type) if chunks else pa.chunked_array([], HEADERS_TYPE)
    column = column.cast(HEADERS_TYPE)
    for chunk in column.chunks:
        check_header_keys(chunk.flatten())
    return column


def _as_batch(rows: pa.Table) -> pa.RecordBatch:
    (batch,) = rows.combine_chunks().to_batches()
    return batch


def _sizes(rows: pa.Table) -> Int64s:
    """Return how many bytes each record takes at most, as ``Admission`` counts a single one."""
    sizes = np.full(rows.num_rows, RECORD_OVERHEAD_BYTES, dtype=np.int64)
    for name in ("key", "value"):
        sizes += _lengths(pc.binary_length(rows.column(name)))
    if "headers" in rows.column_names:
        column = rows.column("headers").combine_chunks()
        flat = column.flatten()
        per_header = HEADER_OVERHEAD_BYTES + 3 * _lengths(pc.utf8_length(flat.field(0)))
        per_header += _lengths(pc.binary_length(flat.field(1)))
        rows_of_headers = np.repeat(np.arange(rows.num_rows), _lengths(pc.list_value_length(column)))
        np.add.at(sizes, rows_of_headers, per_header)
    return sizes


def _lengths(lengths: pa.Array | pa.ChunkedArray) -> Int64s:
    filled: Int64s = lengths.fill_null(0).cast(pa.int64()).to_numpy()
    return filled


def _sticky_runs(sticky: StickyPartition, topic: TopicView, sizes: Int64s) -> Iterator[_Run]:
    """Yield the runs of records that, sent one by one, would go to the same sticky partition."""
    ends = np.cumsum(sizes)
    row, before = 0, 0
    while row < len(sizes):
        partition = sticky.choose(topic)
        end = min(max(int(np.searchsorted(ends, before + sticky.room_bytes)), row) + 1, len(sizes))
        sticky.sent(int(ends[end - 1]) - before)
        yield partition, row, end
        row, before = end, int(ends[end - 1])
