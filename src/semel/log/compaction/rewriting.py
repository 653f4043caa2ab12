"""The rewrite of a group of segments into one new segment, batch by batch.

The law: an entry of the transaction index is kept exactly as long as the marker it was made from. Without the entry,
consumers would read aborted records; without the marker, the entry would hide what the producer wrote later.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from semel.errors import StorageError
from semel.log.compaction.background import Background
from semel.log.compaction.batch_filter import BatchFilter
from semel.log.compaction.pace import STEP_BYTES, Pace
from semel.log.compaction.statistics import CleanerStatistics
from semel.log.disk import Disk, write_file
from semel.log.recovery.swap_recovery import CLEANED, SWAP
from semel.log.segments import index_file, segment_checksums
from semel.log.segments.segment import INDEX_SUFFIXES, Segment
from semel.log.segments.segment_checksums import CHECKSUMS_SUFFIX
from semel.log.segments.transaction_index import AbortedTransaction
from semel.types import INT32_MAX, Buffer
from semel.wire.records import parse_header

# The bytes written between two syncs: one sync of a whole segment would delay all other syncs.
_SYNC_BYTES: Final = 1024 * 1024


class UnsoundSegment(StorageError):
    """A closed segment holds something that is not a batch. What follows cannot be found, so nothing is rewritten."""


class SegmentTooLarge(Exception):
    """The new segment would be larger than an index position can express. The old segments stay as they are."""


class Rewriting:
    def __init__(
        self,
        group: Sequence[Segment],
        *,
        disk: Disk,
        index_interval_bytes: int,
        pace: Pace,
        background: Background,
        statistics: CleanerStatistics,
        size_bytes_max: int = INT32_MAX,
    ) -> None:
        self._group = group
        self._disk = disk
        self._index_interval_bytes = index_interval_bytes
        self._pace = pace
        self._background = background
        self._statistics = statistics
        self._size_bytes_max = size_bytes_max
        self._synced_bytes = 0
        self._outgrown = False
        self._end_offset = group[0].base_offset

    def run(self, batch_filter: BatchFilter) -> Generator[None, None, Segment | None]:
        """Rewrite the group. Returns the new segment, its files complete and synced; ``None`` if it would be the same
        as the old one.

        Raises ``SegmentTooLarge``, but only at the end: the filter must get every batch of the group, or it would drop
        the marker of a transaction whose records it did not get (KAFKA-20036).
        """
        new = self._begin() if len(self._group) > 1 else None
        aborted = self.aborted_by_marker()
        for segment in self._group:
            is_last = segment is self._group[-1]
            end = 0
            for position, header, batch in segment.batches(step_bytes=STEP_BYTES):
                end = position + header.size_bytes
                self._end_offset = header.next_offset
                ends_segment = is_last and end == segment.size_bytes
                kept = yield from batch_filter.filtered(header, batch, ends_segment=ends_segment)
                if new is None and kept is not batch:
                    new = self._begin()
                    yield from self._copy(segment, position, new, aborted)
                if new is not None and kept is not None:
                    yield from self._append(new, kept, aborted)
                if self._pace.spend_batch(header.size_bytes):
                    yield
            if end != segment.size_bytes:
                raise UnsoundSegment(f"{segment!r}: there is no batch at position {end}")
            self._statistics.bytes_read += end
        if self._outgrown:
            raise SegmentTooLarge
        if new is not None:
            yield from self._finish(new)
        return new

    def aborted_by_marker(self) -> dict[int, AbortedTransaction]:
        return {entry.last_offset: entry for segment in self._group for entry in segment.transaction_index}

    def _begin(self) -> Segment:
        created_ms = max(segment.created_ms for segment in self._group)
        first = self._group[0]
        return Segment(self._disk, first.folder, first.base_offset, created_ms=created_ms, create=True, ending=CLEANED)

    def _copy(
        self, segment: Segment, end: int, new: Segment, aborted: dict[int, AbortedTransaction]
    ) -> Generator[None, None, None]:
        """Copy the batches before ``end``, the position of the first batch that changed."""
        for position, header, batch in segment.batches(step_bytes=STEP_BYTES):
            if position >= end:
                return
            yield from self._append(new, batch, aborted)
            if self._pace.spend_batch(header.size_bytes):
                yield

    def _append(
        self, new: Segment, batch: Buffer, aborted: dict[int, AbortedTransaction]
    ) -> Generator[None, None, None]:
        header = parse_header(batch)
        if self._outgrown or new.size_bytes + header.size_bytes > self._size_bytes_max:
            self._outgrown = True
            return
        new.append(batch, header, index_interval_bytes=self._index_interval_bytes)
        if header.is_control and (entry := aborted.get(header.base_offset)) is not None:
            new.transaction_index.append(entry)
        if new.size_bytes - self._synced_bytes >= _SYNC_BYTES:
            self._synced_bytes = new.size_bytes
            yield from self._background(new.file.sync)

    def _finish(self, new: Segment) -> Generator[None, None, None]:
        """Write the indexes under their names with ``.swap``; the log file is renamed at the commit point."""
        self._statistics.bytes_written += new.size_bytes
        yield from self._background(new.file.sync)
        new.finish()
        for suffix, index in zip(INDEX_SUFFIXES, new.indexes, strict=True):
            file = self._disk.open(new.path(suffix).removesuffix(CLEANED) + SWAP, create=True)
            index_file.flush(index, file)
            yield from self._background(file.sync)
            file.close()
            yield
        checksums = segment_checksums.encode(new.checksums(self._end_offset))
        path = new.path(CHECKSUMS_SUFFIX).removesuffix(CLEANED) + SWAP
        yield from self._background(lambda: write_file(self._disk, path, checksums, sync=True))
        yield from self._background(lambda: self._disk.sync_directory(new.folder))
