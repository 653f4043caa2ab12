"""The segments of one partition, ordered by base offset. There is always at least one; the last one is active."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from semel.log.segments.segment import Segment


class Segments:
    __slots__ = ("_base_offsets", "_segments", "active")

    def __init__(self, segments: Sequence[Segment]) -> None:
        assert segments
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._base_offsets = [segment.base_offset for segment in self._segments]
        self.active = self._segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def first(self) -> Segment:
        return self._segments[0]

    def number_for(self, offset: int) -> int:
        """The number of the segment that holds ``offset`` or would hold it; 0 if that is before the first segment."""
        return max(0, bisect_right(self._base_offsets, offset) - 1)

    def reaching(self, offset: int) -> list[Segment]:
        """The segments that may hold ``offset`` or later offsets, in order."""
        return self._segments[self.number_for(offset) :]

    def end_of(self, number: int) -> int | None:
        """The base offset of the following segment; ``None`` for the active one, which has no end yet."""
        return self._base_offsets[number + 1] if number + 1 < len(self._segments) else None

    def add(self, segment: Segment) -> None:
        assert segment.base_offset > self.active.base_offset
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        self.active = segment

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Replace ``old`` by ``new`` in one step: readers see either of them."""
        gone = set(map(id, old))
        self._segments = sorted(
            [*(segment for segment in self._segments if id(segment) not in gone), *new],
            key=lambda segment: segment.base_offset,
        )
        self._base_offsets = [segment.base_offset for segment in self._segments]
        assert self._segments, "a log has at least one segment"
        self.active = self._segments[-1]
        self.active.keep_open()
