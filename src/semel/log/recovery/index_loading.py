"""Loading the index files of a log: those below the recovery point are read, and checked against ``.checksums``.

A segment whose index files are unsound moves the recovery point back to its base offset: its batches are then read
again, and its indexes are built again from them.
"""

from __future__ import annotations

import logging

from semel.errors import DecodeError
from semel.log.disk import Disk, read_file
from semel.log.segments import segment_checksums
from semel.log.segments.offset_index import OffsetIndex
from semel.log.segments.segment import INDEX_SUFFIXES, Segment
from semel.log.segments.segment_checksums import CHECKSUMS_SUFFIX, SegmentChecksums
from semel.log.segments.segment_list import Segments
from semel.log.segments.time_index import TimeIndex
from semel.log.segments.transaction_index import TransactionIndex

logger = logging.getLogger(__name__)


def load_indexes(disk: Disk, segments: Segments, recovery_point: int, *, is_checked: bool) -> int:
    """Read the index files up to the recovery point. Returns the recovery point, which an unsound file moves back.

    Index files above the recovery point are not read: they may describe batches that are not in the log. They are
    written again before the recovery point passes them.
    """
    for number, segment in enumerate(segments):
        if segment.base_offset >= recovery_point:
            segment.index_files_are_stale = True
            continue
        end_offset = segments.end_of(number)
        end_offset = recovery_point if end_offset is None else min(end_offset, recovery_point)
        try:
            _load_indexes_of(disk, segment, end_offset, is_checked=is_checked, next_base_offset=segments.end_of(number))
            if end_offset == recovery_point and trusted_end(segment, recovery_point)[1] < recovery_point:
                raise DecodeError(f"its batches do not reach offset {recovery_point}")
        except DecodeError as error:
            logger.warning("%s is read again, and its indexes are made again: %s", segment.path(".log"), error)
            recovery_point = segment.base_offset
            segment.forget_indexes()
            continue
        if end_offset == recovery_point or not segment.time_index.entries:
            # A closed segment's last time index entry is its largest timestamp. This one may not be closed.
            segment.find_largest_timestamp(end_offset)
        else:
            segment.trust_time_index()
    return recovery_point


def _load_indexes_of(
    disk: Disk, segment: Segment, end_offset: int, *, is_checked: bool, next_base_offset: int | None
) -> None:
    contents = [_read_index(disk, segment, suffix) for suffix in INDEX_SUFFIXES]
    checksums = _read_checksums(disk, segment)
    if checksums is not None:
        if checksums.end_offset == next_base_offset and segment.size_bytes != checksums.log_size_bytes:
            # A closed segment does not grow. An older copy, from before a compaction, is longer and has other indexes.
            raise DecodeError(f"it has {segment.size_bytes} bytes; it was closed with {checksums.log_size_bytes}")
        contents = _verified_contents(segment, checksums, contents, end_offset)
    elif is_checked:
        raise DecodeError(f"{segment.path(CHECKSUMS_SUFFIX)} is missing")
    index, times, aborted = contents
    base_offset = segment.base_offset
    offset_index = OffsetIndex.load(index, base_offset, end_offset=end_offset, end_position=segment.size_bytes)
    time_index = TimeIndex.load(times, base_offset, end_offset=end_offset)
    transaction_index = TransactionIndex.load(aborted, base_offset, end_offset=end_offset)
    segment.indexes_loaded(offset_index, time_index, transaction_index)


def _verified_contents(
    segment: Segment, checksums: SegmentChecksums, contents: list[bytes], end_offset: int
) -> list[bytes]:
    """The contents of the index files as of the checkpoint. Raises ``DecodeError`` if the segment's files have lost
    something since then."""
    if segment.size_bytes < checksums.log_size_bytes:
        raise DecodeError(f"it has {segment.size_bytes} bytes; {checksums.log_size_bytes} were synced")
    if checksums.end_offset < end_offset:
        raise DecodeError(f"it ended at offset {checksums.end_offset}; what follows begins at {end_offset}")
    for suffix, checksum, content in zip(INDEX_SUFFIXES, checksums.indexes, contents, strict=True):
        if not checksum.matches(content):
            raise DecodeError(f"{segment.path(suffix)} is not what was synced")
    return [content[: checksum.size_bytes] for checksum, content in zip(checksums.indexes, contents, strict=True)]


def _read_checksums(disk: Disk, segment: Segment) -> SegmentChecksums | None:
    path = segment.path(CHECKSUMS_SUFFIX)
    if not disk.exists(path):
        return None
    try:
        return segment_checksums.decode(read_file(disk, path))
    except DecodeError as error:
        raise DecodeError(f"{path}: {error}") from None


def _read_index(disk: Disk, segment: Segment, suffix: str) -> bytes:
    path = segment.path(suffix)
    return read_file(disk, path) if disk.exists(path) else b""


def trusted_end(segment: Segment, recovery_point: int) -> tuple[int, int]:
    """The position of the recovery point in the file, and the offset that the batches before it reach."""
    _, position = segment.offset_index.lookup(recovery_point)
    end_offset = segment.base_offset
    for at, header in segment.headers_below(recovery_point, position):
        position, end_offset = at + header.size_bytes, header.next_offset
    if end_offset < recovery_point:
        # Compaction may have removed the records just below the recovery point. Then the next batch begins above it.
        found = next(segment.headers(position), None)
        if found is not None and found[1].base_offset >= recovery_point:
            return found[0], recovery_point
    return position, end_offset
