"""Loading one partition: from the files in its folder to a ``PartitionLog``, after any crash.

Below the recovery point everything is synced, indexes and a producer snapshot included, and is used as it is. From the
recovery point on, every batch is checked, and the log is truncated at the first unsound one. Indexes, producer state
and leader epochs of these batches are built again by the code that built them at the append. Loading a log twice gives
the same log: the second time there is nothing to truncate.

If something below the recovery point is missing, the disk has lost it: it was synced, so no crash can have taken it.
Then the log is truncated only if the journal holds all that is missing; otherwise nothing is changed and
``LostRecords`` is raised. See docs/design/damage.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from semel.errors import DecodeError
from semel.log.config import LogConfig
from semel.log.damage import LostRecords
from semel.log.disk import Disk
from semel.log.durability import checkpoints
from semel.log.durability.partition_checkpoint import PartitionCheckpoint
from semel.log.leader_epochs import LeaderEpochs
from semel.log.partition_log import PartitionLog
from semel.log.producers.producer_state import PRODUCER_ID_EXPIRATION_MS, ProducerStates
from semel.log.recovery.index_loading import load_indexes, trusted_end
from semel.log.recovery.snapshot_loading import load_snapshot, remove_stray_snapshots
from semel.log.recovery.swap_recovery import finish_swaps, remove_leftovers
from semel.log.segments.batch_replay import replay_batch
from semel.log.segments.segment import Segment, file_name
from semel.log.segments.segment_list import Segments
from semel.types import TopicPartition
from semel.wire.control import EndTransactionMarker, parse_marker
from semel.wire.records import BatchHeader, verify_crc

logger = logging.getLogger(__name__)


def nothing_in_the_journal(offset: int) -> int:
    return offset


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
    required_end: int | None = None,
    checkpoint: PartitionCheckpoint | None = None,
    journal_end: Callable[[int], int] = nothing_in_the_journal,
    stored_high_watermark: int | None = None,
) -> PartitionLog:
    """Open the log in ``folder``, or create an empty one there.

    ``checkpoint``: the partition's own checkpoint, if it is sound. It gives the recovery point, and an index is used
    only if its segment's checksums confirm it. ``required_end``: the offset up to which records must exist; by default
    the recovery point. ``journal_end``: a function that returns how far the journal extends a log which ends at a given
    offset. ``stored_high_watermark``: that of a partition with several replicas; ``None`` if this is the only one.

    Raises ``LostRecords`` if records are missing that the journal does not hold, and ``OSError`` if the disk fails.
    Then the folder is as it was, except that an interrupted compaction may have been finished.
    """
    if checkpoint is not None:
        recovery_point = checkpoint.recovery_point
    required_end = recovery_point if required_end is None else max(required_end, recovery_point)
    required = Required(required_end, journal_end)
    names = finish_swaps(disk, folder)
    segments = _open_segments(disk, folder, names, log_start_offset, now_ms, required, is_known=checkpoint is not None)
    try:
        if checkpoint is not None and recovery_point > segments.first.base_offset:
            epochs = LeaderEpochs(checkpoint.epochs)
            epochs.truncate_from_end(recovery_point)
        else:
            epochs, recovery_point = _load_epochs(disk, folder, segments, recovery_point)
        recovery_point = load_indexes(disk, segments, recovery_point, is_checked=checkpoint is not None)
        producers = ProducerStates(topic_partition, producer_id_expiration_ms=producer_id_expiration_ms)
        snapshot_max = recovery_point
        if stored_high_watermark is not None:
            snapshot_max = _snapshot_max(segments, recovery_point, stored_high_watermark)
        replay_from = load_snapshot(disk, folder, names, segments, producers, snapshot_max)
        epochs.truncate_from_end(recovery_point)
        end_offset = _Recovery(disk, segments, producers, epochs, config, required).run(replay_from, recovery_point)
    except BaseException:
        for segment in segments:
            segment.close()
        raise
    # If the log ends below its start, the journal may extend it again; if not, ``Opening`` empties it.
    log_start_offset = min(max(log_start_offset, segments.first.base_offset), end_offset)
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(log_start_offset)
    remove_leftovers(disk, folder)
    remove_stray_snapshots(disk, folder, segments, end_offset)
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
        stored_high_watermark=stored_high_watermark,
    )


def _snapshot_max(segments: Segments, end_offset: int, high_watermark: int) -> int:
    """The largest offset of a snapshot that may be used for a log that is sound up to ``end_offset``.

    A snapshot does not say where ended transactions began, and a transaction whose marker is at or above the high
    watermark still holds back the last stable offset. So if there is such a marker, the batches from the high watermark
    on are replayed.
    """
    for segment in segments.reaching(high_watermark):
        if segment.base_offset >= end_offset:
            break
        _, start = segment.offset_index.lookup(high_watermark)
        for _, header in segment.headers_below(end_offset, start):
            if header.is_control and header.base_offset >= high_watermark:
                return high_watermark
    return end_offset


def rebuild_producers(disk: Disk, log: PartitionLog) -> ProducerStates:
    """The producer state as of the log's end, from the newest snapshot at or below it and the batches after that.

    Used after a truncation, which the producer state must follow.
    """
    producers = ProducerStates(log.topic_partition, producer_id_expiration_ms=log.producers.producer_id_expiration_ms)
    names = disk.list(log.folder)
    snapshot_max = _snapshot_max(log.segments, log.log_end_offset, log.high_watermark)
    replay_from = load_snapshot(disk, log.folder, names, log.segments, producers, snapshot_max)
    recovery = _Recovery(disk, log.segments, producers, LeaderEpochs(), log.config, Required(0))
    recovery.replay_trusted(replay_from, log.log_end_offset)
    return producers


@dataclass(frozen=True, slots=True)
class Required:
    """The offset up to which a log must have its records, and how far the journal can extend it."""

    end: int
    journal_end: Callable[[int], int] = nothing_in_the_journal

    def or_raise(self, where: str, end_offset: int, *, rest_end: int) -> None:
        """Raise ``LostRecords`` if the log lacks required records when it ends at ``end_offset``, and the journal does
        not hold all of them.

        Called before the log is truncated to ``end_offset``. ``rest_end``: the offset that its batches reach before.
        """
        if end_offset >= self.end:
            return
        wanted = max(self.end, rest_end)
        if self.journal_end(end_offset) < wanted:
            raise LostRecords(where, end_offset, wanted)
        logger.warning("%s: records %d to %d are put back from the journal", where, end_offset, wanted - 1)


class _Recovery:
    """The recovery of one log: the end of its sound part is replayed, and what follows is checked and replayed."""

    def __init__(
        self,
        disk: Disk,
        segments: Segments,
        producers: ProducerStates,
        epochs: LeaderEpochs,
        config: LogConfig,
        required: Required,
    ) -> None:
        self._required = required
        self._disk = disk
        self._segments = segments
        self._producers = producers
        self._epochs = epochs
        self._config = config

    def run(self, replay_from: int, recovery_point: int) -> int:
        """Replay up to the recovery point, check and replay from there on, truncate at the first unsound batch.

        Returns the log end offset.
        """
        self.replay_trusted(replay_from, recovery_point)
        return self._recover(recovery_point)

    def replay_trusted(self, replay_from: int, end_offset: int) -> None:
        """Replay batches for the producer state only, without checks: they were checked when they were written or
        recovered."""
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
        position, end_offset = trusted_end(segments[first], recovery_point)
        for number in range(first, len(segments)):
            segment = segments[number]
            if number > first:
                position = 0
                if segment.base_offset != end_offset:
                    # Something between the two is lost. What comes after a hole was never acknowledged, or is in the
                    # journal together with what is missing.
                    self._check_cut(number, end_offset)
                    return self._cut_before(number, end_offset)
            position, end_offset = self._recover_segment(segment, position, end_offset)
            if position < segment.size_bytes:
                self._check_cut(number, end_offset)
                logger.warning(
                    "%s: %d bytes from position %d on are not sound batches and are cut off",
                    segment.path(".log"),
                    segment.size_bytes - position,
                    position,
                )
                segment.cut(position, end_offset)
                # The recovery point will pass this file, and then a start does not check its batches any more.
                segment.file.sync()
                return self._cut_before(number + 1, end_offset)
        self._check_cut(len(segments), end_offset)
        return end_offset

    def _check_cut(self, number: int, end_offset: int) -> None:
        """Raise ``LostRecords`` if required records are lost when the log is truncated to ``end_offset``, which lies
        before or within segment ``number``."""
        rest = list(self._segments)[number:]
        rest_end = end_offset
        for segment in rest:
            # Everything that still looks like a batch counts: it may be what is left of acknowledged records.
            rest_end = max(rest_end, segment.base_offset)
            for _, header in segment.headers():
                rest_end = max(rest_end, header.next_offset)
        where = rest[0] if rest else self._segments.active
        self._required.or_raise(where.path(".log"), end_offset, rest_end=rest_end)

    def _recover_segment(self, segment: Segment, position: int, end_offset: int) -> tuple[int, int]:
        for at, header, batch in segment.batches(position):
            if header.base_offset < end_offset or not verify_crc(batch, 0, header):
                break
            self._note(segment, at, header, batch)
            position, end_offset = at + header.size_bytes, header.next_offset
        return position, end_offset

    def _note(self, segment: Segment, position: int, header: BatchHeader, batch: memoryview) -> None:
        segment.index_batch(header, position, index_interval_bytes=self._config.index_interval_bytes)
        if header.partition_leader_epoch >= 0:
            self._epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.has_producer_id:
            marker = _marker(batch) if header.is_control else None
            replay_batch(self._producers, segment, header, marker, now_ms=None)

    def _cut_before(self, number: int, end_offset: int) -> int:
        lost = list(self._segments)[number:]
        if lost:
            logger.warning("%d segments from %r on follow a cut and are removed", len(lost), lost[0])
            self._segments.replace(lost, ())
            for segment in lost:
                segment.remove()
            # After a power cut, none of them may reappear between segments that are written from now on.
            self._disk.sync_directory(lost[0].folder)
        return end_offset


def _marker(batch: bytes | memoryview) -> EndTransactionMarker | None:
    try:
        return parse_marker(batch)
    except DecodeError as error:
        logger.error("a control batch that cannot be read is passed over: %s", error)
        return None


def _open_segments(
    disk: Disk,
    folder: str,
    names: list[str],
    log_start_offset: int,
    now_ms: int,
    required: Required,
    *,
    is_known: bool,
) -> Segments:
    """Open the segment files. ``is_known``: the log start is certain, so the first segment must not begin after it."""
    stems = (name.removesuffix(".log") for name in names if name.endswith(".log"))
    base_offsets = sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())
    missing = f"{folder}/{file_name(log_start_offset, '.log')}"
    if not base_offsets:
        required.or_raise(missing, log_start_offset, rest_end=log_start_offset)
        return Segments([Segment(disk, folder, log_start_offset, created_ms=now_ms, create=True)])
    if is_known and base_offsets[0] > log_start_offset < required.end:
        end = min(base_offsets[0], required.end)
        raise LostRecords(f"{missing} and what follows it before {base_offsets[0]}", log_start_offset, end)
    return Segments(
        [
            Segment(disk, folder, base_offset, created_ms=now_ms, on_demand=base_offset != base_offsets[-1])
            for base_offset in base_offsets
        ]
    )


def _load_epochs(disk: Disk, folder: str, segments: Segments, recovery_point: int) -> tuple[LeaderEpochs, int]:
    """The epochs below the recovery point, and the recovery point.

    Without a sound file the epochs are read from the batches, so the recovery point moves to the first segment.
    """
    path = f"{folder}/{checkpoints.LEADER_EPOCH_FILE}"
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
    # This may leave no epoch: if all records below the recovery point were deleted, the epochs begin there.
    epochs.truncate_from_end(recovery_point)
    return epochs, recovery_point
