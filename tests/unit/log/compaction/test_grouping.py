"""Which segments become one."""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.log.compaction.grouping import group_segments
from semel.log.config import LogConfig
from semel.types import INT32_MAX


@dataclass
class Index:
    entries: int = 0


@dataclass
class Sized:
    """A segment, as far as grouping looks at it."""

    base_offset: int
    size_bytes: int
    offset_index: Index = field(default_factory=Index)
    time_index: Index = field(default_factory=Index)


def groups(*segments: Sized, end_offset: int = 1000, **settings: int) -> list[list[int]]:
    config = LogConfig(**{"segment_bytes": 100, "segment_index_bytes": 120, **settings})
    found = group_segments(segments, end_offset=end_offset, config=config)  # type: ignore[arg-type]
    return [[segment.base_offset for segment in group] for group in found]


def test_segments_go_together_until_they_would_not_fit_into_one() -> None:
    assert groups(Sized(0, 40), Sized(10, 60), Sized(20, 1), Sized(30, 99), Sized(40, 1)) == [[0, 10], [20, 30], [40]]


def test_a_segment_that_is_too_large_is_a_group_of_its_own() -> None:
    assert groups(Sized(0, 10), Sized(10, 300), Sized(20, 10)) == [[0], [10], [20]]


def test_indexes_must_fit_too() -> None:
    assert groups(Sized(0, 1, Index(8)), Sized(10, 1, Index(7)), Sized(20, 1, Index(1))) == [[0, 10], [20]]
    assert groups(Sized(0, 1, Index(), Index(6)), Sized(10, 1, Index(), Index(5))) == [[0], [10]]


def test_offsets_must_be_expressible_relative_to_the_first() -> None:
    assert groups(Sized(5, 1), Sized(INT32_MAX, 1), end_offset=INT32_MAX + 6) == [[5, INT32_MAX]]
    assert groups(Sized(5, 1), Sized(INT32_MAX, 1), end_offset=INT32_MAX + 7) == [[5], [INT32_MAX]]


def test_no_segments_make_no_groups() -> None:
    assert groups() == []
