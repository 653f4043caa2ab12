"""Reading: the bytes of a partition from an offset up to a limit, and the aborted transactions in them.

``partition_log.py`` decides the limit; this module finds the bytes. The law: the result begins with the batch that
holds the offset, and holds nothing at or above the limit.
"""

from __future__ import annotations

from semel.errors import DecodeError
from semel.log.segments.segment import Segment
from semel.log.segments.segment_list import Segments
from semel.log.segments.transaction_index import AbortedTransaction
from semel.wire.records import iterate_headers


def read_below(
    segments: Segments, limit: int, offset: int, max_bytes: int, *, at_least_one: bool, log_end_offset: int
) -> tuple[bytes, int]:
    """Read batches from ``offset`` up to ``limit``. Returns their bytes and the number of their segment.

    A read never crosses the end of a segment.
    """
    number = segments.number_for(offset)
    while number < len(segments) and (segment := segments[number]).base_offset < limit:
        if (place := segment.locate(offset)) is not None:
            break
        number += 1  # Compaction or a roll may leave no batch for the last offsets of a segment.
    else:
        return b"", number
    end = segment.size_bytes
    next_base_offset = segments.end_of(number)
    if limit < (log_end_offset if next_base_offset is None else next_base_offset):
        end = _position_of(segment, limit, place.position)
    size = min(max_bytes, end - place.position)
    if size < place.size_bytes:
        size = min(place.size_bytes, end - place.position) if at_least_one else 0
    return (segment.file.read(place.position, size) if size > 0 else b""), number


def aborted_within(segments: Segments, number: int, offset: int, records: bytes) -> list[AbortedTransaction]:
    """The aborted transactions that overlap ``records``, which were read from segment ``number``.

    The index entry of a transaction is in the segment of its marker, which may be a later segment.
    """
    if not records or not any(segments[later].transaction_index.entries for later in range(number, len(segments))):
        return []
    upper_bound_offset = offset
    for _, header in iterate_headers(records, allow_partial_tail=True):
        upper_bound_offset = header.next_offset
    aborted: list[AbortedTransaction] = []
    for later in range(number, len(segments)):
        found, complete = segments[later].transaction_index.collect_aborted(offset, upper_bound_offset)
        aborted += found
        if complete:
            break
    return aborted


def _position_of(segment: Segment, limit: int, start: int) -> int:
    """The position where a read from ``start`` must end: at ``limit``, or before damage in between."""
    try:
        place = segment.locate(limit)
    except DecodeError:
        _, indexed = segment.offset_index.lookup(limit)
        if indexed <= start:
            raise
        return indexed
    return segment.size_bytes if place is None else place.position
