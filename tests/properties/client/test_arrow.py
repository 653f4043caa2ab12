"""Arrow columns and record batches: byte for byte what ``wire.records`` makes and reads, record by record."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from semel.client.arrow import OversizedRecord, decode, encode
from semel.client.arrow.murmur2 import positive_murmur2_column
from semel.client.machine.producer.murmur2 import positive_murmur2
from semel.errors import DecodeError
from semel.wire.records import (
    BatchBuilder,
    Codec,
    Record,
    TimestampType,
    build_batch,
    iterate_headers,
    iterate_records,
)
from tests.properties.wire.test_records_properties import deterministic, headers, payloads, record_lists, timestamps

Fields = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

rows = st.lists(st.tuples(timestamps, payloads, payloads, headers), min_size=1, max_size=60)
runs = st.lists(st.tuples(st.sampled_from([0, 1, 53, 54, 55, 56, 120, 500, 8100]), st.integers(1, 150)), max_size=6)
sizes = st.one_of(st.integers(62, 400), st.integers(400, 50_000))


def arrow(records: list[Fields], *, with_headers: bool = True) -> pa.RecordBatch:
    columns: dict[str, Any] = {
        "timestamp": pa.array([record[0] for record in records], pa.int64()),
        "key": pa.array([record[1] for record in records], pa.binary()),
        "value": pa.array([record[2] for record in records], pa.binary()),
    }
    if with_headers:
        element = pa.struct([("key", pa.string()), ("value", pa.binary())])
        columns["headers"] = pa.array([list(record[3]) for record in records], pa.list_(element))
    return pa.RecordBatch.from_pydict(columns)


def one_by_one(records: list[Fields], size_bytes_max: int, codec: Codec) -> list[bytes]:
    built: list[bytes] = []
    builder: BatchBuilder | None = None
    for record in records:
        if builder is None or not builder.append(*record):
            if builder is not None:
                built.append(builder.build(is_transactional=True))
            builder = BatchBuilder(size_bytes_max=size_bytes_max, codec=codec)
            builder.append(*record)
    assert builder is not None
    return [*built, builder.build(is_transactional=True)]


def as_records(table: list[pa.RecordBatch]) -> list[Record]:
    return [
        Record(
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for batch in table
        for row in batch.to_pylist()
    ]


@deterministic
@given(rows, sizes, st.sampled_from([Codec.NONE, Codec.ZSTD]))
@example([(0, b"k", b"v" * 63, ()), (2**62, None, None, ()), (-(2**63), b"", b"", (("h", None),))], 200, Codec.NONE)
def test_encoded_rows_are_the_batches_of_a_builder(records: list[Fields], size: int, codec: Codec) -> None:
    batches = list(encode(arrow(records), size_bytes_max=size, codec=codec, is_transactional=True))
    assert [batch.records for batch in batches] == one_by_one(records, size, codec)
    assert [batch.first_row for batch in batches] == [
        sum(before.record_count for before in batches[:index]) for index in range(len(batches))
    ]


@pytest.mark.parametrize("size", range(62, 400, 3))
def test_batches_are_cut_at_the_very_byte_where_a_builder_cuts(size: int) -> None:
    records: list[Fields] = [(1000 + number, None, b"v" * (number % 70), ()) for number in range(150)]
    batches = encode(arrow(records, with_headers=False), size_bytes_max=size, is_transactional=True)
    assert [batch.records for batch in batches] == one_by_one(records, size, Codec.NONE)


@deterministic
@given(rows, sizes, st.integers(0, 59))
def test_a_slice_of_rows_without_headers_is_encoded_as_if_it_stood_alone(
    records: list[Fields], size: int, start: int
) -> None:
    bare: list[Fields] = [(timestamp, key, value, ()) for timestamp, key, value, _ in records]
    start = min(start, len(bare) - 1)
    sliced = arrow(bare, with_headers=False).slice(start)
    batches = encode(sliced, size_bytes_max=size, is_transactional=True)
    assert [batch.records for batch in batches] == one_by_one(bare[start:], size, Codec.NONE)


@deterministic
@given(
    st.lists(st.tuples(record_lists(gaps=True), st.booleans(), st.sampled_from(list(Codec))), min_size=1, max_size=5),
    st.integers(1, 40_000),
)
def test_decoded_rows_are_the_records_of_the_reader(
    batches: list[tuple[list[Record], bool, Codec]], chunk_bytes: int
) -> None:
    buffer = b"".join(
        build_batch(records, base_offset=records[0].offset, timestamp_type=TimestampType(by_leader), codec=codec)
        for records, by_leader, codec in batches
    )
    positions = list(iterate_headers(buffer))
    expected = [record for position, _ in positions for record in iterate_records(buffer, position)]
    decoded = list(decode(buffer, positions, include_headers=True, chunk_bytes=chunk_bytes))
    assert as_records(decoded) == expected
    types = [by_leader for records, by_leader, _ in batches for _ in records]
    assert [value for batch in decoded for value in batch.column("timestamp_type").to_pylist()] == types


@settings(deterministic, max_examples=150)
@given(record_lists(gaps=False), st.data())
def test_no_bytes_are_read_otherwise_than_by_the_reader(records: list[Record], data: st.DataObject) -> None:
    buffer = bytearray(build_batch(records, base_offset=records[0].offset))
    for _ in range(data.draw(st.integers(1, 3))):
        buffer[data.draw(st.integers(61, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    check_read_as_by_the_reader(buffer)


def check_read_as_by_the_reader(buffer: bytearray) -> None:
    positions = list(iterate_headers(buffer))
    try:
        expected = [record for position, _ in positions for record in iterate_records(buffer, position)]
    except DecodeError:
        with pytest.raises(DecodeError):
            list(decode(buffer, positions, include_headers=True))
        return
    plain = [record._replace(headers=()) for record in expected]
    got = as_records(list(decode(buffer, positions, include_headers=True)))
    assert [record._replace(headers=()) for record in got] == plain
    assert [len(record.headers) for record in got] == [len(record.headers) for record in expected]


def of_sizes(runs: list[tuple[int, int]]) -> list[Record]:
    """Records with values of these sizes, so many of each in a row, of bytes that look like lengths."""
    values = [bytes([size % 256, 0] * size)[:size] for size, count in runs for _ in range(count)]
    return [Record(offset, offset, None, value) for offset, value in enumerate(values)]


@deterministic
@given(runs, runs)
@example([(56, 70), (8100, 3), (54, 150)], [(500, 40), (501, 40)])
@example([(1, 3), (120, 100), (0, 1)], [(53, 31), (8100, 2), (53, 31)])
def test_runs_of_records_of_one_size_are_the_records_of_the_reader(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    batches = [of_sizes(runs) for runs in (first, second) if runs]
    buffer = b"".join(build_batch(records) for records in batches)
    decoded = list(decode(buffer, iterate_headers(buffer), include_headers=True))
    assert as_records(decoded) == [record for records in batches for record in records]


@settings(deterministic, max_examples=120)
@given(st.sampled_from([20, 54, 120, 500]), st.integers(5, 150), st.data())
def test_a_run_that_is_broken_anywhere_is_read_as_by_the_reader(size: int, count: int, data: st.DataObject) -> None:
    buffer = bytearray(build_batch(of_sizes([(size, count)])))
    stride = (len(buffer) - 61) // count
    near = st.integers(0, count - 1).map(lambda number: 61 + number * stride)
    for _ in range(data.draw(st.integers(1, 3))):
        position = min(data.draw(near) + data.draw(st.integers(0, 6)), len(buffer) - 1)
        buffer[position] = data.draw(
            st.one_of(st.integers(0, 255), st.sampled_from([0x80, 0xFF, buffer[position] + 2 & 255]))
        )
    check_read_as_by_the_reader(buffer)


@pytest.mark.parametrize("claimed", [0, 3, 2**31 - 1])
def test_a_header_that_claims_another_number_of_records_is_refused_whatever_number_that_is(claimed: int) -> None:
    """The last one would take 16 GB if it were believed."""
    batch = bytearray(build_batch([Record(0, 5, b"key", b"value")]))
    batch[57:61] = claimed.to_bytes(4, "big")
    with pytest.raises(DecodeError):
        list(decode(batch, iterate_headers(batch)))


def test_a_length_that_never_ends_is_refused() -> None:
    buffer = bytearray(build_batch(of_sizes([(120, 50)])))
    buffer[61:] = b"\xff" * (len(buffer) - 61)
    with pytest.raises(DecodeError):
        list(decode(buffer, iterate_headers(buffer)))


def test_values_full_of_zeros_are_no_beginnings_of_records() -> None:
    records = [Record(offset, 7, bytes(offset), bytes([12, 0] * offset)) for offset in range(300)]
    buffer = build_batch(records)
    decoded = list(decode(buffer, iterate_headers(buffer), include_headers=True))
    assert as_records(decoded) == records


def test_a_record_that_is_too_large_is_named_by_its_row() -> None:
    records: list[Fields] = [(0, None, b"v", ()), (0, b"k", b"v" * 1000, ())]
    with pytest.raises(OversizedRecord, match=r"row 1 takes 10\d\d bytes as a record; 1000 is the most") as raised:
        list(encode(arrow(records), size_bytes_max=16384, record_size_bytes_max=1000))
    assert raised.value.row == 1


def test_no_rows_are_no_batch() -> None:
    assert list(encode(arrow([]), size_bytes_max=16384)) == []


@deterministic
@given(st.lists(st.binary(max_size=30), max_size=40), st.integers(0, 5))
def test_a_column_of_keys_is_hashed_as_each_key_is(keys: list[bytes], start: int) -> None:
    column = pa.array(keys, pa.binary()).slice(min(start, len(keys)))
    assert positive_murmur2_column(column).tolist() == [positive_murmur2(key) for key in keys[start:]]
