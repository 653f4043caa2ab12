"""One compaction pass over one log: map the keys of the dirty part to their last offsets, then rewrite the segments.

A pass is a generator. At every ``yield`` the broker may serve requests, remove segments, or crash; a pass that is not
continued needs no cleanup. Files of an unfinished pass end in ``.cleaned`` or ``.swap``; the next pass or the next
start removes them.
"""

from __future__ import annotations

import logging
from collections.abc import Generator

from semel.errors import DecodeError
from semel.log.compaction.background import Background, at_once, records_of
from semel.log.compaction.batch_filter import BatchFilter
from semel.log.compaction.cleanable import CleanableRange
from semel.log.compaction.grouping import group_segments
from semel.log.compaction.offset_map import OffsetMap
from semel.log.compaction.pace import STEP_BYTES, Pace
from semel.log.compaction.rewriting import Rewriting, SegmentTooLarge
from semel.log.compaction.statistics import CleanerStatistics
from semel.log.compaction.swap import remove_old_files, swap_segments
from semel.log.compaction.transactions import AbortedTransactions, LiveProducers
from semel.log.disk import Disk
from semel.log.partition_log import PartitionLog
from semel.log.recovery.swap_recovery import remove_unfinished
from semel.log.segments.segment import Segment
from semel.wire.records import BatchHeader, verify_crc

logger = logging.getLogger(__name__)


class CleaningPass:
    batch_filter = BatchFilter

    def __init__(
        self,
        log: PartitionLog,
        cleanable: CleanableRange,
        *,
        disk: Disk,
        now_ms: int,
        map_entries_max: int,
        statistics: CleanerStatistics,
        background: Background = at_once,
        pace: Pace | None = None,
    ) -> None:
        self.log = log
        self.cleanable = cleanable
        self._disk = disk
        self._now_ms = now_ms
        self._statistics = statistics
        self._background = background
        self._pace = pace or Pace()
        self._is_complete = True  # whether no segment was left as it is although records in it may be outdated
        # No more keys than offsets: a short range gets a small map.
        self._map_entries_max = min(map_entries_max, cleanable.end_offset - cleanable.first_dirty_offset)

    def run(self) -> Generator[None, None, int]:
        """Compact the log. Returns the offset it has reached: the end of the range, or where the map was full.

        If segments had to be left as they are, it is the beginning of the range: as long as they have an outdated
        record, the records that outdate it must be part of the map. Otherwise a tombstone among them would go alone.
        """
        remove_unfinished(self._disk, self.log.folder)
        aborted = self.aborted_transactions()
        live = self.live_producers()
        yield from aborted.collect(self._pace)
        yield from live.collect(self._pace)
        yield
        offset_map, covered_to = yield from self._map(aborted)
        yield
        batch_filter = self.batch_filter(
            offset_map,
            covered_to=covered_to,
            aborted=aborted,
            live=live,
            now_ms=self._now_ms,
            delete_retention_ms=self.log.config.delete_retention_ms,
            pace=self._pace,
            statistics=self._statistics,
            background=self._background,
        )
        segments, end_offset = self._segments_below(covered_to)
        for group in group_segments(segments, end_offset=end_offset, config=self.log.config):
            yield from self._replace(group, batch_filter)
            yield
        return covered_to if self._is_complete else self.cleanable.first_dirty_offset

    def aborted_transactions(self) -> AbortedTransactions:
        return AbortedTransactions(entry for segment in self.log.segments for entry in segment.transaction_index)

    def live_producers(self) -> LiveProducers:
        return LiveProducers(self.log.producers.freeze().entries())

    def rewriting(self, group: list[Segment]) -> Rewriting:
        return Rewriting(
            group,
            disk=self._disk,
            index_interval_bytes=self.log.config.index_interval_bytes,
            pace=self._pace,
            background=self._background,
            statistics=self._statistics,
        )

    # The map

    def _map(self, aborted: AbortedTransactions) -> Generator[None, None, tuple[OffsetMap, int]]:
        """Build the map of the last committed offset of every key in the dirty part. Returns it, and the offset up to
        which it is complete."""
        offset_map = OffsetMap(self._map_entries_max)
        start, end = self.cleanable.first_dirty_offset, self.cleanable.end_offset
        for segment in self.log.segments.reaching(start):
            if segment.base_offset >= end:
                break
            try:
                offset_map, full_at = yield from self._add_keys(offset_map, segment, start, aborted)
            except FileNotFoundError:
                if self._is_here(segment):
                    raise
                continue  # Retention has removed it: nothing is left that its records could outdate.
            if full_at is not None:
                return self._mapped(offset_map, full_at)
        return self._mapped(offset_map, end)

    def _add_keys(
        self, offset_map: OffsetMap, segment: Segment, start: int, aborted: AbortedTransactions
    ) -> Generator[None, None, tuple[OffsetMap, int | None]]:
        """Add the keys of a segment from the offset ``start`` on. Returns the map, and the offset of the first batch
        for which it has no room; ``None`` if it has room for all."""
        place = segment.locate(start)
        if place is None:
            return offset_map, None
        for _, header, batch in segment.batches(place.position, step_bytes=STEP_BYTES):
            if self._pace.spend_batch(header.size_bytes):
                yield
            if header.is_control or aborted.contains(header):
                continue
            keys = yield from self._keys(header, batch)
            if offset_map.entries + len(keys) > offset_map.entries_max:
                if offset_map.entries:
                    return offset_map, header.base_offset
                # One batch is always covered, or there would be no progress.
                offset_map = OffsetMap(len(keys))
            for key, offset in keys:
                offset_map.put(key, offset)
                if self._pace.spend(1):
                    yield
        return offset_map, None

    def _keys(self, header: BatchHeader, batch: memoryview) -> Generator[None, None, list[tuple[bytes, int]]]:
        """All keys of the batch with their offsets, or none if the batch cannot be decoded to its end. Such a batch is
        kept, but its records replace no earlier ones."""
        keys: list[tuple[bytes, int]] = []
        if not verify_crc(batch, 0, header):
            return []
        try:
            for record in (yield from records_of(self._background, batch)):
                if record.key is not None:
                    keys.append((record.key, record.offset))
                if self._pace.spend(1):
                    yield
        except DecodeError:
            return []
        return keys

    def _mapped(self, offset_map: OffsetMap, covered_to: int) -> tuple[OffsetMap, int]:
        self._statistics.map_entries_max = max(self._statistics.map_entries_max, offset_map.entries)
        return offset_map, covered_to

    # The segments

    def _segments_below(self, covered_to: int) -> tuple[list[Segment], int]:
        """The segments to rewrite, and where the last of them ends."""
        segments = [segment for segment in self.log.segments if segment.base_offset < covered_to]
        end_offset = self.log.segments.end_of(len(segments) - 1)
        assert end_offset is not None, "the active segment is never compacted"
        return segments, end_offset

    def _is_here(self, segment: Segment) -> bool:
        return any(segment is other for other in self.log.segments)

    def _replace(self, group: list[Segment], batch_filter: BatchFilter) -> Generator[None, None, None]:
        """Rewrite a group. If retention removes some of its segments meanwhile, rewrite the others once more: their
        outdated records must go in this pass."""
        while group := list(filter(self._is_here, group)):
            if (yield from self._is_replaced(group, batch_filter)):
                return
            # What retention has removed must not come back.
            remove_unfinished(self._disk, self.log.folder)

    def _is_replaced(self, group: list[Segment], batch_filter: BatchFilter) -> Generator[None, None, bool]:
        """Rewrite a group. Returns ``False`` if retention has removed some of its segments meanwhile."""
        rewriting = self.rewriting(group)
        try:
            new = yield from rewriting.run(batch_filter)
        except FileNotFoundError:
            if all(map(self._is_here, group)):
                raise
            return False
        except SegmentTooLarge:
            logger.warning("%s: %r stays as it is: compacted, it would exceed 2 GB", self.log.topic_partition, group)
            remove_unfinished(self._disk, self.log.folder)
            self._is_complete = False
            return True
        while self.log.checkpoints.is_running:
            yield  # A worker writes the indexes of segments under the names that the new one is about to take.
        if new is None:
            self._statistics.segments_left_alone += 1
            return True
        if not swap_segments(self._disk, self.log, group, new):
            return False
        self._statistics.segments_replaced += len(group)
        self._statistics.bytes_freed += sum(segment.size_bytes for segment in group) - new.size_bytes
        yield from remove_old_files(self._disk, self.log, group)
        return True
