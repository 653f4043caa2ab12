"""Numbers by the column: the bytes of each row are those that its numbers have one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from semel.client.arrow.varints import Varints, join_varints, widths
from semel.wire.records.varint import encode_varint
from tests.properties.wire.test_records_properties import deterministic

# A number of every width from one byte to ten.
numbers = st.integers(0, 63).flatmap(lambda bits: st.integers(-(2**bits), 2**bits - 1))


@st.composite
def tables(draw: st.DrawFn) -> list[list[int]]:
    column = st.lists(numbers, min_size=draw(st.integers(0, 20)))
    columns = draw(st.lists(column, min_size=1, max_size=7))
    count = min(map(len, columns))
    return [column[:count] for column in columns]


def column(of: list[int]) -> Any:
    return np.array(of, dtype=np.int64)


@deterministic
@given(tables())
@example([[-(2**63), 2**63 - 1, 0, 2**55 - 1, 2**55, -(2**55), -(2**55) - 1]] * 3)
@example([[0, 0], [2**62, 1], [3, 2**62]])
def test_numbers_are_joined_as_they_are_written_one_by_one(columns: list[list[int]]) -> None:
    joined = join_varints(*(Varints.of(column(one)) for one in columns))
    assert joined.to_pylist() == [b"".join(map(encode_varint, row)) for row in zip(*columns, strict=True)]


@deterministic
@given(tables(), st.integers(-64, 63))
def test_one_number_may_stand_for_all_rows(columns: list[list[int]], number: int) -> None:
    joined = join_varints(*(Varints.of(column(one)) for one in columns), Varints.same(number))
    assert joined.to_pylist() == [b"".join(map(encode_varint, (*row, number))) for row in zip(*columns, strict=True)]


@deterministic
@given(tables(), st.integers(0, 20), st.integers(0, 20))
def test_a_part_of_a_column_is_what_these_rows_make_alone(columns: list[list[int]], first: int, size: int) -> None:
    whole = [Varints.of(column(one)) for one in columns]
    first = min(first, len(columns[0]))
    end = min(first + size, len(columns[0]))
    assert join_varints(*(one.part(first, end) for one in whole)).to_pylist() == [
        b"".join(map(encode_varint, row)) for row in list(zip(*columns, strict=True))[first:end]
    ]


@deterministic
@given(st.lists(numbers))
def test_widths_are_those_of_the_written_numbers(of: list[int]) -> None:
    expected = [len(encode_varint(number)) for number in of]
    assert widths(column(of)).tolist() == expected
    assert np.broadcast_to(Varints.of(column(of)).widths, len(of)).tolist() == expected
