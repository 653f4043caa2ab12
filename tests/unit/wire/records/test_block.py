"""Records of a batch read in parts: the same ones, in whatever portions, and an error only where it stands."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import DecodeError
from semel.types import INT64_MAX
from semel.wire.records import (
    HEADER_SIZE,
    Headers,
    Record,
    RecordBlock,
    TimestampType,
    build_batch,
    iterate_records,
)


class Placed(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


records_strategy = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple),
        st.integers(-10_000, 10_000_000_000),
    ),
    min_size=1,
    max_size=70,
)


@settings(max_examples=80, derandomize=True, database=None)
@given(contents=records_strategy, portions=st.lists(st.integers(1, 30), min_size=1), base=st.integers(0, 2**40))
def test_any_portions_give_the_same_records(
    contents: list[tuple[bytes | None, bytes | None, Headers, int]], portions: list[int], base: int
) -> None:
    records = [
        Record(base + index, 1_700_000_000_000 + delta, key, value, headers)
        for index, (key, value, headers, delta) in enumerate(contents)
    ]
    batch = build_batch(records, base_offset=base)
    block, read = RecordBlock(batch), []
    for count in portions * (len(records) + 1):
        part = block.read(count)
        assert len(part) <= count
        read += part
        if not part:
            break
    assert read == records == list(iterate_records(batch))


usual_contents = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=70),
        st.integers(0, 80).map(bytes) | st.integers(8_170, 8_200).map(bytes) | st.none(),
        st.just(()) | st.just((("h", b"v"),)),
        st.integers(-70, 70) | st.integers(8_180, 8_200),
    ),
    min_size=1,
    max_size=70,
)
changes = st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=3)


def told(block: RecordBlock, count: int, *where: Any) -> list[Any]:
    """What is read, portion by portion, and what is said about what cannot be read."""
    read: list[Any] = []
    try:
        while part := block.read(count, *where):
            read.append(part)
    except DecodeError as error:
        read.append(str(error))
    return read


@settings(max_examples=300, derandomize=True, database=None)
@given(
    contents=usual_contents | records_strategy,
    base_timestamp=st.sampled_from([0, 1_700_000_000_000, INT64_MAX - 20_000, -INT64_MAX + 20_000]),
    left_out=st.integers(0, 69),
    timestamp_type=st.sampled_from(TimestampType),
    changed=changes,
    count=st.integers(1, 80),
)
def test_whatever_the_bytes_are_placed_records_are_read_as_others_are(
    contents: list[tuple[bytes | None, bytes | None, Headers, int]],
    base_timestamp: int,
    left_out: int,
    timestamp_type: TimestampType,
    changed: list[tuple[int, int]],
    count: int,
) -> None:
    records = [
        Record(index + (index > left_out), min(base_timestamp + delta, INT64_MAX), key, value, headers)
        for index, (key, value, headers, delta) in enumerate(contents)
    ]
    batch = bytearray(build_batch(records, base_offset=0, timestamp_type=timestamp_type))
    for place, byte in changed:
        batch[HEADER_SIZE + place % (len(batch) - HEADER_SIZE)] = byte
    plain = told(RecordBlock(batch), count)
    placed = told(RecordBlock(batch), count, Placed, "orders", 3)
    assert placed == [
        part if isinstance(part, str) else [Placed("orders", 3, *record) for record in part] for part in plain
    ]


@pytest.mark.parametrize(
    ("was", "becomes", "rule"),
    [
        (b"\x06abc\x00", b"\x06abc\x01", "header count -1"),
        (b"\x04kk\x06abc\x00", b"\x05kk\x06abc\x00", "key length -3"),
        (b"\x06abc\x00", b"\x08abc\x00", "its fields end|in the middle"),
    ],
)
def test_what_is_almost_as_usual_is_still_an_error(was: bytes, becomes: bytes, rule: str) -> None:
    batch = build_batch([Record(0, 7, b"kk", b"xyz"), Record(1, 7, b"kk", b"abc")], base_offset=0)
    block = RecordBlock(batch.replace(was, becomes))
    assert [record.offset for record in block.read(9, Placed, "orders", 3)] == [0]
    with pytest.raises(DecodeError, match=rule):
        block.read(9, Placed, "orders", 3)


def test_a_time_that_begins_as_the_one_before_it_is_not_taken_for_it() -> None:
    # Were the second byte of the last time passed over, all that follows could be read as something else.
    records = [Record(0, 0, None, b"a"), Record(1, 64, None, b"b"), Record(2, 256, None, b"\x06abc")]
    placed = RecordBlock(build_batch(records, base_offset=0)).read(9, Placed, "orders", 3)
    assert placed == [Placed("orders", 3, *record) for record in records]


def test_records_can_be_read_into_a_tuple_that_says_where_they_stand() -> None:
    batch = build_batch([Record(5, 7, b"k", b"v", (("h", None),))], base_offset=5)
    (placed,) = RecordBlock(batch).read(10, Placed, "orders", 3)
    assert placed == Placed("orders", 3, 5, 7, b"k", b"v", (("h", None),))
    assert type(placed) is Placed


def test_the_records_before_a_bad_one_are_given_and_then_the_error_every_time() -> None:
    batch = bytearray(build_batch([Record(index, 7, None, b"abc") for index in range(5)], base_offset=0))
    batch[batch.rindex(b"abc") - 1] = 0x7F  # The value of the last record says that it is longer than the record.
    block = RecordBlock(batch)
    assert [record.offset for record in block.read(3)] == [0, 1, 2]
    assert [record.offset for record in block.read(3)] == [3]
    for _ in range(2):
        with pytest.raises(DecodeError, match="record at or after offset delta"):
            block.read(3)


def test_an_offset_that_does_not_grow_is_an_error_between_two_portions_as_well() -> None:
    batch = build_batch([Record(0, 7, None, b"abc"), Record(1, 7, None, b"abc")], base_offset=0)
    block = RecordBlock(batch.replace(b"\x02\x01\x06abc", b"\x00\x01\x06abc"))
    assert [record.offset for record in block.read(1)] == [0]
    with pytest.raises(DecodeError, match="offset delta 0"):
        block.read(1)


def test_bytes_behind_the_last_record_are_an_error_after_it() -> None:
    batch = bytearray(build_batch([Record(0, 7, None, b"abc"), Record(1, 7, None, b"abc")], base_offset=0))
    batch[57:61] = (1).to_bytes(4, "big")  # One record, says the header.
    batch[23:27] = (0).to_bytes(4, "big")
    block = RecordBlock(batch)
    assert [record.offset for record in block.read(9)] == [0]
    with pytest.raises(DecodeError, match=r"\d+ bytes behind the last of 1 records"):
        block.read(9)
