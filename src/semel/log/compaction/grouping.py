"""The groups of segments that a compaction pass merges: without this a log would become thousands of small segments.

Consecutive segments form a group while their sizes *before* the pass fit into one segment: in bytes, in index entries,
and in the range of a relative offset. So a group never needs more than one new segment, and a segment that is full
already is a group of its own. A group has few segments, because all of them are replaced in one slice; what becomes of
several groups is a group of the next pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from semel.log.config import LogConfig
from semel.log.segments.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from semel.log.segments.segment import Segment
from semel.log.segments.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from semel.types import INT32_MAX

SEGMENTS_MAX: Final = 8
"""The largest number of segments in a group."""


def group_segments(segments: Sequence[Segment], *, end_offset: int, config: LogConfig) -> list[list[Segment]]:
    """Return the segments in groups, in order. ``end_offset`` is where the last segment ends."""
    groups: list[list[Segment]] = []
    size_bytes = offset_index_bytes = time_index_bytes = 0
    for number, segment in enumerate(segments, 1):
        segment_end = segments[number].base_offset if number < len(segments) else end_offset
        offset_bytes = segment.offset_index.entries * OFFSET_ENTRY_SIZE
        time_bytes = segment.time_index.entries * TIME_ENTRY_SIZE
        if (
            groups
            and len(groups[-1]) < SEGMENTS_MAX
            and size_bytes + segment.size_bytes <= config.segment_bytes
            and offset_index_bytes + offset_bytes <= config.segment_index_bytes
            and time_index_bytes + time_bytes <= config.segment_index_bytes
            and segment_end - 1 - groups[-1][0].base_offset <= INT32_MAX
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size_bytes = offset_index_bytes = time_index_bytes = 0
        size_bytes += segment.size_bytes
        offset_index_bytes += offset_bytes
        time_index_bytes += time_bytes
    return groups
