"""Building batches and reading them back."""

from __future__ import annotations

import pytest

from semel.wire.records import (
    HEADER_SIZE,
    BatchBuilder,
    Codec,
    Record,
    TimestampType,
    build_batch,
    iterate_records,
    parse_header,
    verify_crc,
)

RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value"),
    Record(1, 1_700_000_000_123, None, None),
    Record(2, 1_699_999_999_000, b"", b"", (("", b""), ("zoë", None), ("zoë", b"\x00\xff"))),
    Record(3, 1_700_000_600_000, b"k" * 64, b"v" * 100_000),
]


@pytest.mark.parametrize("codec", Codec)
def test_records_are_read_back_equal(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec)
    header = parse_header(batch)
    assert list(iterate_records(batch)) == RECORDS
    assert (header.compression, header.record_count, header.last_offset_delta) == (codec, 4, 3)
    assert (header.base_timestamp, header.max_timestamp) == (RECORDS[0].timestamp, RECORDS[3].timestamp)
    assert header.size_bytes == len(batch)
    assert verify_crc(batch, 0, header)


def test_a_batch_is_read_from_the_middle_of_a_buffer() -> None:
    batch = build_batch(RECORDS, codec=Codec.LZ4)
    assert list(iterate_records(memoryview(b"..." + batch + b"..."), 3)) == RECORDS


def test_gaps_that_compaction_leaves_are_kept() -> None:
    kept = [Record(12, 5, b"a", b"1"), Record(17, 6, b"b", b"2")]
    batch = build_batch(kept, base_offset=10, last_offset_delta=9, producer_id=1, producer_epoch=0, base_sequence=30)
    header = parse_header(batch)
    assert list(iterate_records(batch)) == kept
    assert (header.base_offset, header.last_offset, header.last_sequence, header.record_count) == (10, 19, 39, 2)


@pytest.mark.parametrize("codec", Codec)
def test_an_emptied_batch_is_a_header_that_keeps_its_producer(codec: Codec) -> None:
    """Scenario 48: the last batch of a producer outlives its records."""
    batch = build_batch(
        [],
        base_offset=10,
        last_offset_delta=9,
        max_timestamp=555,
        producer_id=4000,
        producer_epoch=2,
        base_sequence=30,
        codec=codec,
    )
    header = parse_header(batch)
    assert len(batch) == HEADER_SIZE
    assert verify_crc(batch, 0, header)
    assert (header.last_offset, header.last_sequence, header.record_count) == (19, 39, 0)
    assert (header.base_timestamp, header.max_timestamp, header.codec_id) == (555, 555, 0)
    assert list(iterate_records(batch)) == []


def test_a_batch_without_records_and_time_has_no_timestamp() -> None:
    header = parse_header(build_batch([], last_offset_delta=0))
    assert (header.base_timestamp, header.max_timestamp) == (-1, -1)


def test_a_delete_horizon_leaves_the_timestamps_of_the_records_alone() -> None:
    batch = build_batch(RECORDS, delete_horizon_ms=1_800_000_000_000)
    header = parse_header(batch)
    assert header.delete_horizon_ms == 1_800_000_000_000
    assert header.max_timestamp == RECORDS[3].timestamp
    assert list(iterate_records(batch)) == RECORDS


def test_with_log_append_time_every_record_has_the_maximum_timestamp() -> None:
    batch = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=42)
    assert [record.timestamp for record in iterate_records(batch)] == [42] * 4


def test_a_record_without_timestamp_is_kept_so() -> None:
    records = [Record(0, -1, b"k"), Record(1, 1000, b"k")]
    batch = build_batch(records)
    assert list(iterate_records(batch)) == records
    assert (parse_header(batch).base_timestamp, parse_header(batch).max_timestamp) == (-1, 1000)


def test_header_keys_that_are_not_utf8_survive_being_written_again() -> None:
    """No broker checks them, and compaction must give back what it was given."""
    raw = build_batch([Record(0, 1, headers=(("abc", b"1"),))]).replace(b"abc", b"a\xffc")
    (record,) = iterate_records(raw)
    rebuilt = build_batch([record])
    assert rebuilt[HEADER_SIZE:] == raw[HEADER_SIZE:]


def test_keys_and_values_may_be_any_buffer_and_are_copied() -> None:
    value = bytearray(b"value")
    builder = BatchBuilder(size_bytes_max=1000)
    builder.append(1, memoryview(b"key"), value)
    value[:] = b"other"
    assert list(iterate_records(builder.build())) == [Record(0, 1, b"key", b"value")]


@pytest.mark.parametrize(
    ("records", "arguments"),
    [
        ([Record(4, 1)], {"base_offset": 5}),
        ([Record(1, 1), Record(1, 1)], {}),
        ([Record(2, 1), Record(1, 1)], {}),
        ([Record(0, 1), Record(1, 1)], {"last_offset_delta": 0}),
        ([], {}),
        ([], {"last_offset_delta": -1}),
        ([Record(2**31, 1)], {}),
        ([Record(0, 2**63)], {}),
        ([Record(0, 1)], {"producer_epoch": 2**15}),
        ([Record(0, 1)], {"codec": Codec.GZIP, "compression_level": 10}),
        ([Record(0, 1)], {"codec": Codec.SNAPPY, "compression_level": 1}),
    ],
)
def test_what_no_batch_can_hold_is_refused(records: list[Record], arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"\d"):
        build_batch(records, **arguments)


def test_a_level_changes_the_bytes_and_not_the_records() -> None:
    small = build_batch(RECORDS, codec=Codec.GZIP, compression_level=9)
    fast = build_batch(RECORDS, codec=Codec.GZIP, compression_level=1)
    assert len(small) < len(fast)
    assert list(iterate_records(small)) == list(iterate_records(fast))


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_built_record_by_record_is_the_same_batch(codec: Codec) -> None:
    builder = BatchBuilder(size_bytes_max=2**20, codec=codec)
    for record in RECORDS:
        assert builder.append(record.timestamp, record.key, record.value, record.headers)
    producer = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 3, "is_transactional": True}
    expected = build_batch(RECORDS, codec=codec, **producer)
    assert builder.build(**producer) == expected
    assert builder.build(**producer) == expected


def test_a_builder_counts_its_size_and_stops_at_the_limit() -> None:
    whole = len(build_batch([Record(n, 1000, b"k", b"v" * 50) for n in range(10)]))
    builder = BatchBuilder(size_bytes_max=whole)
    appended = [builder.append(1000, b"k", b"v" * 50) for _ in range(12)]
    assert appended == [True] * 10 + [False] * 2
    assert (builder.size_bytes, builder.record_count) == (whole, 10)
    assert len(builder.build()) == whole


def test_a_refused_record_leaves_no_trace() -> None:
    builder = BatchBuilder(size_bytes_max=100)
    assert builder.append(1000, None, b"v")
    before = builder.build()
    assert not builder.append(9999, None, b"v" * 100)
    assert builder.build() == before


def test_a_record_larger_than_the_limit_travels_alone() -> None:
    builder = BatchBuilder(size_bytes_max=100)
    assert builder.append(1, None, b"v" * 1000)
    assert not builder.append(1, None, b"")
    assert [len(record.value or b"") for record in iterate_records(builder.build())] == [1000]


def test_an_empty_builder_builds_nothing() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        BatchBuilder(size_bytes_max=100).build()
