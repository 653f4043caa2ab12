"""From a folder to a ``PartitionLog``, whatever the last process left there.

Below the recovery point everything is on disk, indexes and a producer snapshot included, and is taken as it is. From it
on nothing is believed: every batch is checked, the log is cut at the first that is not sound, and what follows from
batches (indexes, producer state, leader epochs) is made again by the same code that made it when they were appended.
Loading twice gives the same log: the second time there is nothing left to cut.
"""

from __future__ import annotations

import logging
from typing import Final
from uuid import UUID

from semel.errors import DecodeError
from semel.log import checkpoints, producer_snapshot
from semel.log.config import LogConfig
from semel.log.disk import Disk, read_file
from semel.log.interrupted import finish_interrupted
from semel.log.leader_epochs import LeaderEpochs
from semel.log.offset_index import OffsetIndex
from semel.log.partition_log import LEADER_EPOCH_FILE, PartitionLog, note_producer
from semel.log.producer_state import PRODUCER_ID_EXPIRATION_MS, ProducerStates
from semel.log.segment import INDEX_SUFFIXES, Segment, file_name
from semel.log.segments import Segments
from semel.log.time_index import TimeIndex
from semel.log.transaction_index import TransactionIndex
from semel.types import TopicPartition
from semel.wire.control import EndTransactionMarker, parse_marker
from semel.wire.records import BatchHeader, verify_crc

logger = logging.getLogger(__name__)

# How far before the snapshot batch headers are read to refill the windows of five. What a client may still repeat was
# written shortly before the crash; what lies further back is answered DUPLICATE_SEQUENCE_NUMBER.
_REFILL_BYTES: Final = 4 * 1024 * 1024


def load_log(
    disk: Disk,
    folder: str,
    *,
    topic_partition: TopicPartition,
    topic_id: UUID,
    config: LogConfig,
    log_start_offset: int = 0,
    recovery_point: int = 0,
    now_ms: int,
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
) -> PartitionLog:
    """Open the log in ``folder``, or begin an empty one there. Raises ``OSError`` if the disk does."""
    names = finish_interrupted(disk, folder)
    segments = _open_segments(disk, folder, names, log_start_offset, now_ms)
    epochs, recovery_point = _load_epochs(disk, folder, segments, recovery_point)
    recovery_point = _load_indexes(disk, segments, recovery_point)
    producers = ProducerStates(topic_partition, producer_id_expiration_ms=producer_id_expiration_ms)
    replay_from = _load_snapshot(disk, folder, names, segments, producers, recovery_point)
    end_offset = _Recovery(disk, segments, producers, epochs, config).run(replay_from, recovery_point)
    # What the journal still holds may bring the end back; where it does not, ``LogDirectory`` starts the log anew.
    log_start_offset = min(max(log_start_offset, segments.first.base_offset), end_offset)
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(log_start_offset)
    _remove_stray_snapshots(disk, folder, segments, end_offset)
    return PartitionLog(
        topic_partition=topic_partition,
        topic_id=topic_id,
        folder=folder,
        disk=disk,
        config=config,
        segments=segments,
        producers=producers,
        epochs=epochs,
        log_start_offset=log_start_offset,
        log_end_offset=end_offset,
        recovery_point=min(recovery_point, end_offset),
    )


def rebuild_producers(disk: Disk, log: PartitionLog) -> ProducerStates:
    """The producer state as of the log's end, from the newest snapshot at or below it and the batches behind that.

    For a log that was cut: what it forgot must be forgotten here too.
    """
    producers = ProducerStates(log.topic_partition, producer_id_expiration_ms=log.producers.producer_id_expiration_ms)
    names = disk.list(log.folder)
    replay_from = _load_snapshot(disk, log.folder, names, log.segments, producers, log.log_end_offset)
    recovery = _Recovery(disk, log.segments, producers, LeaderEpochs(), log.config)
    recovery.replay_trusted(replay_from, log.log_end_offset)
    return producers


class _Recovery:
    """One pass over the end of a log."""

    def __init__(
        self, disk: Disk, segments: Segments, producers: ProducerStates, epochs: LeaderEpochs, config: LogConfig
    ) -> None:
        self._disk = disk
        self._segments = segments
        self._producers = producers
        self._epochs = epochs
        self._config = config

    def run(self, replay_from: int, recovery_point: int) -> int:
        """Replay up to the recovery point, check and replay from there on, cut at the first unsound batch.

        Returns the log end offset.
        """
        self.replay_trusted(replay_from, recovery_point)
        return self._recover(recovery_point)

    def replay_trusted(self, replay_from: int, end_offset: int) -> None:
        """Producer state only: these batches were checked when they were written or recovered."""
        for segment in self._segments.reaching(replay_from):
            if segment.base_offset >= end_offset:
                break
            _, start = segment.offset_index.lookup(replay_from)
            for position, header in segment.headers_below(end_offset, start):
                if header.has_producer_id and header.base_offset >= replay_from:
                    marker = _marker(segment.read_batch(position, header)) if header.is_control else None
                    self._producers.replay(header, marker)

    def _recover(self, recovery_point: int) -> int:
        segments = self._segments
        first = segments.number_for(recovery_point)
        position, end_offset = _trusted_end(segments[first], recovery_point)
        if end_offset < recovery_point:
            path = segments[first].path(".log")
            logger.error("%s ends at offset %d; it had been synced up to %d", path, end_offset, recovery_point)
        for number in range(first, len(segments)):
            segment = segments[number]
            if number > first:
                position = 0
                if segment.base_offset != end_offset:
                    # Something between the two is lost. What comes after a hole was never acknowledged, or is in the
                    # journal together with what is missing.
                    return self._cut_before(number, end_offset)
            position, end_offset = self._recover_segment(segment, position, end_offset)
            if position < segment.size_bytes:
                logger.warning(
                    "%s: %d bytes from position %d on are not sound batches and are cut off",
                    segment.path(".log"),
                    segment.size_bytes - position,
                    position,
                )
                segment.cut(position, end_offset)
                # The recovery point will pass this file, and a start will then believe all of it.
                segment.file.sync()
                return self._cut_before(number + 1, end_offset)
        return end_offset

    def _recover_segment(self, segment: Segment, position: int, end_offset: int) -> tuple[int, int]:
        for at, header, batch in segment.batches(position):
            if header.base_offset < end_offset or not verify_crc(batch, 0, header):
                break
            self._note(segment, at, header, batch)
            position, end_offset = at + header.size_bytes, header.next_offset
        return position, end_offset

    def _note(self, segment: Segment, position: int, header: BatchHeader, batch: memoryview) -> None:
        segment.note(header, position, index_interval_bytes=self._config.index_interval_bytes)
        if header.partition_leader_epoch >= 0:
            self._epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.has_producer_id:
            marker = _marker(batch) if header.is_control else None
            note_producer(self._producers, segment, header, marker, now_ms=None)

    def _cut_before(self, number: int, end_offset: int) -> int:
        lost = list(self._segments)[number:]
        if lost:
            logger.warning("%d segments from %r on follow a cut and are removed", len(lost), lost[0])
            self._segments.replace(lost, ())
            for segment in lost:
                segment.remove()
            # None of them may come back between segments that are written from now on.
            self._disk.sync_directory(lost[0].folder)
        return end_offset


def _trusted_end(segment: Segment, recovery_point: int) -> tuple[int, int]:
    """Where in the file the recovery point lies, and the offset it is reached with."""
    _, position = segment.offset_index.lookup(recovery_point)
    end_offset = segment.base_offset
    for at, header in segment.headers_below(recovery_point, position):
        position, end_offset = at + header.size_bytes, header.next_offset
    if end_offset < recovery_point:
        # Compaction may have left nothing right below the recovery point. Then the next batch says that it is reached.
        found = next(segment.headers(position), None)
        if found is not None and found[1].base_offset >= recovery_point:
            return found[0], recovery_point
    return position, end_offset


def _marker(batch: bytes | memoryview) -> EndTransactionMarker | None:
    try:
        return parse_marker(batch)
    except DecodeError as error:
        logger.error("a control batch that cannot be read is passed over: %s", error)
        return None


def _open_segments(disk: Disk, folder: str, names: list[str], log_start_offset: int, now_ms: int) -> Segments:
    base_offsets = [int(name.removesuffix(".log")) for name in names if name.endswith(".log")]
    if not base_offsets:
        return Segments([Segment(disk, folder, log_start_offset, created_ms=now_ms, create=True)])
    active = max(base_offsets)
    return Segments(
        [
            Segment(disk, folder, base_offset, created_ms=now_ms, on_demand=base_offset != active)
            for base_offset in base_offsets
        ]
    )


def _load_indexes(disk: Disk, segments: Segments, recovery_point: int) -> int:
    """Read the index files up to the recovery point. A bad one moves the point back to its segment.

    Those behind it are not looked at, and are written anew before the recovery point passes them: they may speak of
    batches that are not there.
    """
    for number, segment in enumerate(segments):
        if segment.base_offset >= recovery_point:
            segment.index_files_are_stale = True
            continue
        end_offset = segments.end_of(number)
        end_offset = recovery_point if end_offset is None else min(end_offset, recovery_point)
        try:
            _load_indexes_of(disk, segment, end_offset)
        except DecodeError as error:
            logger.warning("%r has an unsound index and is read again: %s", segment, error)
            recovery_point = segment.base_offset
            segment.index_files_are_stale = True
            continue
        if end_offset == recovery_point or not segment.time_index.entries:
            # A closed segment's last time index entry is its largest timestamp. This one may not be closed.
            segment.find_largest_timestamp(end_offset)
        else:
            segment.trust_time_index()
    return recovery_point


def _load_indexes_of(disk: Disk, segment: Segment, end_offset: int) -> None:
    index, times, aborted = (_read_index(disk, segment, suffix) for suffix in INDEX_SUFFIXES)
    base_offset = segment.base_offset
    offset_index = OffsetIndex.load(index, base_offset, end_offset=end_offset, end_position=segment.size_bytes)
    time_index = TimeIndex.load(times, base_offset, end_offset=end_offset)
    transaction_index = TransactionIndex.load(aborted, base_offset, end_offset=end_offset)
    segment.offset_index, segment.time_index, segment.transaction_index = offset_index, time_index, transaction_index


def _read_index(disk: Disk, segment: Segment, suffix: str) -> bytes:
    path = segment.path(suffix)
    return read_file(disk, path) if disk.exists(path) else b""


def _load_snapshot(
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
    """Show the producers of a snapshot the batches that lie before it. Nothing behind it is looked at: it is not yet
    known to be sound."""
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


def _load_epochs(disk: Disk, folder: str, segments: Segments, recovery_point: int) -> tuple[LeaderEpochs, int]:
    """The epochs below the recovery point. Without a sound file they are in the batches, so it moves to the first."""
    path = f"{folder}/{LEADER_EPOCH_FILE}"
    start = segments.first.base_offset
    if recovery_point <= start:
        return LeaderEpochs(), start
    try:
        epochs = LeaderEpochs(checkpoints.read_leader_epochs(disk, path))
    except DecodeError as error:
        logger.warning("leader epochs are made again from the log: %s", error)
        return LeaderEpochs(), start
    if not epochs.entries:
        return epochs, start
    # It may leave none: where all records below the recovery point were deleted, the epochs begin there.
    epochs.truncate_from_end(recovery_point)
    return epochs, recovery_point


def _remove_stray_snapshots(disk: Disk, folder: str, segments: Segments, end_offset: int) -> None:
    """Keep those at a segment's base, for truncation, and the newest, for the next start."""
    base_offsets = {segment.base_offset for segment in segments}
    offsets = _snapshot_offsets(disk.list(folder))
    newest = max((offset for offset in offsets if offset <= end_offset), default=None)
    for offset in offsets:
        if offset > end_offset or (offset not in base_offsets and offset != newest):
            disk.remove(f"{folder}/{file_name(offset, '.snapshot')}")


def _snapshot_offsets(names: list[str]) -> list[int]:
    stems = (name.removesuffix(".snapshot") for name in names if name.endswith(".snapshot"))
    return [int(stem) for stem in stems if stem.isdigit()]
