"""Records of a batch read in parts: the same ones, in whatever portions, and an error only where it stands."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import DecodeError
from semel.wire.records import Headers, Record, RecordBlock, build_batch, iterate_records


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


@settings(max_examples=80, derandomize=True, deadline=None, database=None)
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
