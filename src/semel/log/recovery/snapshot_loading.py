"""Loading producer state from the newest sound ``.snapshot`` file at or below the recovery point.

A snapshot holds the last batch of each producer only. The batches before it in the log refill the window of five
batches in which a repeated batch is recognised with its offset.
"""

from __future__ import annotations

import logging
from typing import Final

from semel.errors import DecodeError
from semel.log.disk import Disk, read_file
from semel.log.producers import producer_snapshot
from semel.log.producers.producer_state import ProducerStates
from semel.log.segments.segment import file_name
from semel.log.segments.segment_list import Segments

logger = logging.getLogger(__name__)

# How many bytes before the snapshot are searched for batch headers to refill the windows of five. Batches that a client
# may still repeat were written shortly before the crash. Earlier ones are answered with DUPLICATE_SEQUENCE_NUMBER.
_REFILL_BYTES: Final = 4 * 1024 * 1024


def load_snapshot(
    disk: Disk, folder: str, names: list[str], segments: Segments, producers: ProducerStates, recovery_point: int
) -> int:
    """Load the newest sound snapshot at or below the recovery point. Returns the offset from which to replay."""
    for offset in sorted(_snapshot_offsets(names), reverse=True):
        if offset > recovery_point:
            continue
        path = f"{folder}/{file_name(offset, '.snapshot')}"
        try:
            entries = producer_snapshot.decode(read_file(disk, path))
        except DecodeError as error:
            logger.warning("%s is passed over: %s", path, error)
            disk.remove(path)
            continue
        producers.load(entries)
        _refill_windows(segments, producers, offset)
        return offset
    return segments.first.base_offset


def _refill_windows(segments: Segments, producers: ProducerStates, offset: int) -> None:
    """Add the last batches before a snapshot to the windows of its producers. Batches after it are not read: they are
    not yet known to be sound."""
    if not producers.producer_count:
        return
    remaining = _REFILL_BYTES
    number = segments.number_for(offset - 1)
    while remaining > 0 and number >= 0:
        segment = segments[number]
        _, near_end = segment.offset_index.lookup(offset)
        # An index entry is the only place to start from that is known to be the beginning of a batch.
        start = max((at for _, at in segment.offset_index if at <= near_end - remaining), default=0)
        for _, header in segment.headers_below(offset, start):
            if header.has_producer_id:
                producers.remember_earlier(header)
        remaining -= max(near_end - start, 1)
        number -= 1


def remove_stray_snapshots(disk: Disk, folder: str, segments: Segments, end_offset: int) -> None:
    """Remove all snapshots but those at a segment's base offset (for truncation) and the newest (for a start)."""
    base_offsets = {segment.base_offset for segment in segments}
    offsets = _snapshot_offsets(disk.list(folder))
    newest = max((offset for offset in offsets if offset <= end_offset), default=None)
    for offset in offsets:
        if offset > end_offset or (offset not in base_offsets and offset != newest):
            disk.remove(f"{folder}/{file_name(offset, '.snapshot')}")


def remove_snapshots_above(disk: Disk, folder: str, end_offset: int) -> None:
    """Remove the snapshots of offsets that the log does not reach any more. The caller syncs the folder."""
    for offset in _snapshot_offsets(disk.list(folder)):
        if offset > end_offset:
            disk.remove(f"{folder}/{file_name(offset, '.snapshot')}")


def _snapshot_offsets(names: list[str]) -> list[int]:
    stems = (name.removesuffix(".snapshot") for name in names if name.endswith(".snapshot"))
    return [int(stem) for stem in stems if stem.isdigit()]
