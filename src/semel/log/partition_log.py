"""One partition's log: append, read, and the five offsets that say who may see what.

The design, its invariants and what a crash leaves behind are in docs/design/log.md. Here the rule is: ``append`` checks
(and changes nothing), writes (and if that fails, is undone), and replays what was written, with no ``await`` between.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID
from zlib import crc32

from semel.errors import DecodeError, ErrorCode, KafkaError
from semel.log import lookup
from semel.log.admission import admit, is_plainly_good, takes_batches_as_they_are
from semel.log.batch_check import EFFORT_AT_ONCE_MAX, BatchCheck, is_plainly_sound
from semel.log.config import LogConfig
from semel.log.disk import NO_ROOM, NOT_OPENED, Disk, replace_file, write_file
from semel.log.durability import partition_checkpoint
from semel.log.durability.commit import NewNames, Unsynced
from semel.log.durability.partition_checkpoint import PARTITION_CHECKPOINT_FILE, PartitionCheckpoint
from semel.log.durability.sync_progress import SyncProgress
from semel.log.leader_epochs import EpochEndOffset, LeaderEpochs
from semel.log.lookup import TimestampOffset
from semel.log.producers.producer_state import FrozenProducers, ProducerDescription, ProducerStates
from semel.log.retention import expired_segments
from semel.log.segments import segment_checksums
from semel.log.segments.reading import aborted_within, read_below
from semel.log.segments.segment import IndexWrite, Segment, file_name
from semel.log.segments.segment_checksums import CHECKSUMS_SUFFIX
from semel.log.segments.segment_list import Segments
from semel.log.segments.transaction_index import AbortedTransaction
from semel.types import INT32_MAX, INT64_MAX, Buffer, TopicPartition
from semel.wire.control import EndTransactionMarker, build_marker_batch, parse_marker
from semel.wire.records import (
    HEADER_SIZE,
    MAGIC_POSITION,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    is_walkable,
    iterate_headers,
    parse_header,
    patch_offset_and_epoch,
    range_of,
)

logger = logging.getLogger(__name__)

LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
# The producers whose state is encoded while a client waits: a few milliseconds.
SNAPSHOT_AT_ONCE_MAX: Final = 2000


class Origin(Enum):
    """Who appends. A client's batch is checked from top to bottom; the coordinators build their own."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class Isolation(Enum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Appended(NamedTuple):
    """Where a batch is now. ``duplicate``: it was there before, and these are its first offsets."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int | None
    log_start_offset: int
    duplicate: bool


class ReadResult(NamedTuple):
    """Batches from the one that holds the offset on; the last may be cut off. ``aborted`` is for read_committed."""

    records: bytes
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTransaction] | None


@dataclass(slots=True)
class Checkpoint:
    """What must be written and synced before the recovery point may move to ``offset``.

    Made on the loop, without touching the disk, and carried out by a worker. Whatever fails on the way, nothing here is
    believed to be written before ``PartitionLog.checkpointed`` is called: the next checkpoint does it again.
    """

    log: PartitionLog
    offset: int
    segments: list[Segment]
    index_writes: list[IndexWrite]
    snapshots: list[tuple[str, FrozenProducers]]
    epochs_path: str
    epochs: bytes | None  # where they have changed
    epochs_version: int
    checksums: list[tuple[str, bytes]]  # path and content, per segment
    epoch_entries: tuple[tuple[int, int], ...]
    new_names: NewNames | None
    cuts: int  # how often the log had been cut when this was made

    def partition_checkpoint(self) -> bytes:
        """As of now: the log start may have moved since the checkpoint was prepared, and must not go back."""
        offset = min(self.offset, self.log.log_end_offset)
        return self.log.encode_checkpoint(recovery_point=offset, epochs=self.epoch_entries)


class PartitionLog:
    """See the module. Everything here runs on the event loop; other threads see only files that were handed to them."""

    def __init__(
        self,
        *,
        topic_partition: TopicPartition,
        topic_id: UUID,
        folder: str,
        disk: Disk,
        config: LogConfig,
        segments: Segments,
        producers: ProducerStates,
        epochs: LeaderEpochs,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.folder = folder
        self.config = config
        self.offline: str | None = None
        self.segments = segments
        self.producers = producers
        self.epochs = epochs
        self.leader_epoch = epochs.latest or 0
        self.log_start_offset = log_start_offset
        self.persisted_log_start = log_start_offset
        # ``partition.checkpoint`` is written at checkpoints, on a worker, and before segments go, on the loop.
        self.checkpoint_lock = threading.Lock()
        self.log_end_offset = log_end_offset
        self.durable_offset = log_end_offset
        self.high_watermark = log_end_offset
        self.recovery_point = recovery_point
        self.appended_bytes = 0
        self.on_durable: Callable[[PartitionLog], None] = _nobody
        self.on_refused: Callable[[TopicPartition, OSError], None] = _not_told
        self.suspended: str | None = None  # why nothing is appended for now; what is there can be read
        self.on_write: Callable[[PartitionLog], None] | None = None  # the committer, where acknowledged means synced
        self._is_unawaited = False  # whether the last of what was written is left for the next sync
        self._disk = disk
        self._last_stable_offset = self._compute_last_stable_offset()
        # Above the recovery point, perhaps only the journal is synced.
        self.sync_progress = SyncProgress(segments, log_end_offset=log_end_offset, own_files_synced_to=recovery_point)
        self._epochs_version = 1
        self._epochs_version_written = 0
        self._cuts = 0
        self._deferred_snapshot: tuple[str, FrozenProducers] | None = None
        self.checkpoint_runs = False  # whether a worker writes files of this log

    def __repr__(self) -> str:
        return f"<PartitionLog {self.topic_partition} [{self.log_start_offset}, {self.log_end_offset})>"

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        # Asked for every batch, so kept at hand.
        self._takes_batches_as_they_are = takes_batches_as_they_are(config)
        self.segment_age_max_ms = config.segment_age_max_ms - self._jitter_ms(config)

    def _jitter_ms(self, config: LogConfig) -> int:
        """The same after every start, and as if by chance from partition to partition."""
        longest_ms = min(config.segment_jitter_ms, config.segment_ms)
        return crc32(str(self.topic_partition).encode()) % longest_ms if longest_ms else 0

    @property
    def partition(self) -> int:
        return self.topic_partition.partition

    @property
    def last_stable_offset(self) -> int:
        return self._last_stable_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    def describe_producers(self) -> list[ProducerDescription]:
        return self.producers.describe()

    # Append

    def append(
        self,
        records: memoryview,
        *,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        require_zero_first: bool = False,
        check: BatchCheck | None = None,
    ) -> Appended:
        """Write one batch, or recognise it as one that is already there. Raises ``KafkaError``.

        ``check``: the look into these records, where it was begun before; without one it is done here, all of it.
        The buffer is patched in place (offset, leader epoch). It is on disk, and may be acknowledged, once
        ``high_watermark`` has passed the last offset.
        """
        if self.offline is not None or self.suspended is not None:
            raise self._is_offline()
        if origin is Origin.CLIENT:
            records, header = self._admit(records, now_ms, check)
        else:
            header = parse_header(records)
        log_append_time_ms = now_ms if header.attributes & TIMESTAMP_TYPE_BIT else None
        if header.producer_id >= 0:
            duplicate = self.producers.check(header, require_zero_first=require_zero_first)
            if duplicate is not None:
                return Appended(
                    duplicate.base_offset,
                    duplicate.last_offset,
                    duplicate.timestamp if log_append_time_ms is not None else None,
                    self.log_start_offset,
                    True,
                )
        base_offset, leader_epoch = self.log_end_offset, self.leader_epoch
        patch_offset_and_epoch(records, 0, base_offset, leader_epoch)
        header = header.placed(base_offset, leader_epoch)
        self._write(records, header, now_ms)
        self._wrote()
        return Appended(base_offset, self.log_end_offset - 1, log_append_time_ms, self.log_start_offset, False)

    def append_placed(self, batch: bytes, *, now_ms: int, awaited: bool = True) -> Appended:
        """Write a batch that a coordinator has built for this place: the log end, under the present leader epoch.

        Raises like ``append``. What is not ``awaited`` is synced with what is written next, or by ``sync_unawaited``.
        """
        if self.offline is not None or self.suspended is not None:
            raise self._is_offline()
        header = BatchHeader.read(batch)
        assert header.base_offset == self.log_end_offset, f"a batch for {header.base_offset} is appended to {self}"
        if header.producer_id >= 0:
            self.producers.check(header)
        self._write(batch, header, now_ms)
        self._wrote(awaited)
        return Appended(header.base_offset, self.log_end_offset - 1, None, self.log_start_offset, False)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: EndTransactionMarker,
        *,
        now_ms: int,
        transaction_version: int,
    ) -> Appended:
        """End a producer's transaction here. Raises ``KafkaError`` if the producer or the coordinator is fenced.

        Where the transaction has no records, the marker is appended all the same: it moves the producer's epoch, and so
        fences what comes late.
        """
        if self.offline is not None or self.suspended is not None:
            raise self._is_offline()
        self.producers.check_marker(producer_id, producer_epoch, marker, transaction_version=transaction_version)
        batch = build_marker_batch(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timestamp=now_ms,
            base_offset=self.log_end_offset,
            partition_leader_epoch=self.leader_epoch,
        )
        header = BatchHeader.read(batch)
        self._write(batch, header, now_ms, marker)
        self._wrote()
        return Appended(header.base_offset, header.last_offset, None, self.log_start_offset, False)

    def _wrote(self, awaited: bool = True) -> None:
        if self.on_write is None:
            self.durable_offset = self.log_end_offset
            self.on_durable(self)
        else:
            self._is_unawaited = not awaited
            if awaited:
                self.on_write(self)

    def sync_unawaited(self) -> None:
        """Somebody waits for the log end: what was written without a sync gets one."""
        if self._is_unawaited and self.on_write is not None:
            self._is_unawaited = False
            self.on_write(self)

    def begin_check(self, records: memoryview, effort_max: int = EFFORT_AT_ONCE_MAX) -> BatchCheck:
        """The look into a client's batch, as far as it goes with so much effort; for ``append`` when it is over."""
        check = BatchCheck(records, self._config)
        if effort_max > 0:
            check.begin(effort_max)
        return check

    def _admit(self, records: memoryview, now_ms: int, check: BatchCheck | None) -> tuple[memoryview, BatchHeader]:
        if self._takes_batches_as_they_are and len(records) >= HEADER_SIZE and records[MAGIC_POSITION] == MAGIC_V2:
            header = BatchHeader.read(records)
            if is_plainly_good(records, header, self._config, now_ms):
                if check is None:
                    if is_plainly_sound(records, header):
                        return records, header
                    check = BatchCheck(records, self._config)
                check.finish()
                if check.fault is None:
                    return records, header
        return admit(records, config=self._config, now_ms=now_ms, topic_partition=self.topic_partition, check=check)

    def append_copied(self, batches: memoryview, *, now_ms: int) -> None:
        """Append batches that already have their offsets: from a leader, or from the journal. Raises ``KafkaError``.

        Those below the log end are passed over. Nothing is checked but that the others may follow it.
        """
        try:
            for position, header in iterate_headers(batches):
                if header.base_offset < self.log_end_offset:
                    continue
                batch = batches[position : position + header.size_bytes]
                # Before it is written: a marker that cannot be read could not be replayed either.
                marker = parse_marker(batch) if header.is_control and header.producer_id >= 0 else None
                self._write(batch, header, now_ms, marker)
        except DecodeError as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic_partition}: {error}") from None

    def _write(
        self, batch: Buffer, header: BatchHeader, now_ms: int, marker: EndTransactionMarker | None = None
    ) -> None:
        # The last place before the disk, for every way in: a batch that does not move the log end forward would have
        # offsets given out twice, one that cannot be walked with would end the next start, and no index of a segment
        # reaches further than 2**31 - 1 offsets.
        if (
            not 0 <= header.base_offset - self.log_end_offset <= INT32_MAX - header.last_offset_delta
            or not is_walkable(header)
            or header.last_offset_delta >= INT64_MAX - header.base_offset
            or header.partition_leader_epoch < 0
        ):
            raise self._does_not_follow(header)
        config = self._config
        segment = self.segments.active
        if not segment.takes(header, config, age_max_ms=self.segment_age_max_ms, now_ms=now_ms):
            segment = self.roll(now_ms)
        size_before = segment.size_bytes
        try:
            segment.append(batch, header, index_interval_bytes=config.index_interval_bytes)
        except OSError as error:
            self._undo_write(segment, size_before, error)
            self.on_refused(self.topic_partition, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: write failed: {error}") from error
        self.appended_bytes += len(batch)
        self._replay(batch, header, now_ms, marker)

    def _does_not_follow(self, header: BatchHeader) -> KafkaError:
        return KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"a batch at offset {header.base_offset} of {self.topic_partition}, which ends at {self.log_end_offset}, "
            f"has {range_of(header)}; its leader epoch is {header.partition_leader_epoch}, the least is 0; "
            f"offsets grow, by {INT32_MAX} at most, and stay below {INT64_MAX}",
        )

    def _replay(self, batch: Buffer, header: BatchHeader, now_ms: int, marker: EndTransactionMarker | None) -> None:
        """``marker``: the one in the batch, where that is known already."""
        if header.partition_leader_epoch != self.epochs.latest and self.epochs.assign(
            header.partition_leader_epoch, header.base_offset
        ):
            self._epochs_version += 1
        if header.producer_id >= 0:
            if marker is None and header.is_control:
                marker = parse_marker(batch)
            note_producer(self.producers, self.segments.active, header, marker, now_ms=now_ms)
        self.log_end_offset = header.base_offset + header.last_offset_delta + 1

    def _undo_write(self, segment: Segment, size_before: int, error: OSError) -> None:
        """A full disk is an answer, and the log is as before; anything else means that the disk cannot be trusted."""
        try:
            segment.file.truncate(size_before)
        except OSError as second:
            self.go_offline(f"write failed ({error}), and so did taking it back ({second})")
            return
        if error.errno not in NO_ROOM:
            self.go_offline(f"write failed: {error}")

    # Segments

    def roll(self, now_ms: int) -> Segment:
        """Close the active segment and begin the next at the log end."""
        active = self.segments.active
        if active.base_offset == self.log_end_offset:
            return active
        try:
            if self.sync_progress.has_new_files and (names := self.sync_progress.new_names()) is not None:
                # The first segment must be found again before there is a second: a hole at the start of a log could
                # not be told from records that were deleted.
                names.sync(self._disk)
                self.own_files_synced(0, names)
            self._write_snapshot()
            segment = Segment(self._disk, self.folder, self.log_end_offset, created_ms=now_ms, create=True)
        except OSError as error:
            self.on_refused(self.topic_partition, error)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: a new segment could not be made: {error}"
            ) from error
        active.finish()
        self.segments.add(segment)
        self.sync_progress.named(folders=(self.folder,))
        return segment

    def _write_snapshot(self) -> None:
        """Producer state as of the log end, which the next segment begins with.

        A start does without one that is missing or torn, so it is not synced, and a disk that refuses it stops nothing.
        That of a great many producers would hold up the loop: it waits for the next checkpoint, on the worker.
        """
        path, frozen = self._snapshot_path(self.log_end_offset), self.producers.freeze()
        if len(frozen) > SNAPSHOT_AT_ONCE_MAX:
            self._deferred_snapshot = (path, frozen)
            return
        with contextlib.suppress(OSError):
            write_file(self._disk, path, frozen.encode())

    def _snapshot_path(self, offset: int) -> str:
        return f"{self.folder}/{file_name(offset, '.snapshot')}"

    # Durability

    def take_unsynced(self) -> Unsynced:
        progress = self.sync_progress
        ranges = progress.take(self.log_end_offset)
        return Unsynced(self, self.log_end_offset, ranges, progress.own_files_behind(), progress.new_names())

    def synced(self, end_offset: int) -> None:
        if self.offline is None and end_offset > self.durable_offset:
            self.durable_offset = end_offset
            self.on_durable(self)

    def own_files_synced(self, end_offset: int, names: NewNames | None) -> None:
        self.sync_progress.own_files_synced(end_offset, names)

    def go_offline(self, reason: str) -> None:
        """Nothing is served from here until the process starts again and recovers the log from what is on disk."""
        if self.offline is None:
            logger.error("%s is offline: %s", self.topic_partition, reason)
            self.retire(reason)

    def retire(self, reason: str) -> None:
        """The same where nothing went wrong: the log is not served any more."""
        self.offline = reason
        self.on_durable(self)

    def advance_high_watermark(self, offset: int) -> bool:
        """Let readers see up to ``offset``. Says whether anything became visible."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        if self.producers.all_settled:
            self._last_stable_offset = offset
        else:
            self._last_stable_offset = self._compute_last_stable_offset()
            self.producers.forget_completed_below(offset)
        return True

    def _compute_last_stable_offset(self) -> int:
        unstable = self.producers.first_unstable_offset(self.high_watermark)
        stable = self.high_watermark if unstable is None else min(unstable, self.high_watermark)
        return max(stable, self.log_start_offset)

    def _is_offline(self) -> KafkaError:
        state = f"is offline: {self.offline}" if self.offline is not None else f"takes no records: {self.suspended}"
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} {state}")

    def prepare_checkpoint(self, *, closing: bool = False) -> Checkpoint | None:
        """Everything up to the log end, for the recovery point to move there. ``None`` if it is there already.

        Until ``checkpointed`` or ``checkpoint_failed`` is called, compaction does not change the names of segments.
        """
        if self.offline is not None or self.recovery_point == self.log_end_offset:
            # Epochs may have changed all the same: whoever leads assigns them anew after a start.
            return None
        # The one that ends there too: it may have been closed since, and its indexes with it.
        segments = self.segments.reaching(self.recovery_point - 1)
        if closing:
            for segment in segments:
                segment.finish()
        self.checkpoint_runs = True
        changed = self._epochs_version != self._epochs_version_written
        ends = [segment.base_offset for segment in segments[1:]] + [self.log_end_offset]
        checksums = [
            (segment.path(CHECKSUMS_SUFFIX), segment_checksums.encode(segment.checksums(end)))
            for segment, end in zip(segments, ends, strict=True)
        ]
        snapshots = [(self._snapshot_path(self.log_end_offset), self.producers.freeze())]
        if self._deferred_snapshot is not None:
            snapshots.append(self._deferred_snapshot)
        return Checkpoint(
            log=self,
            offset=self.log_end_offset,
            segments=segments,
            index_writes=[write for segment in segments for write in segment.index_writes()],
            snapshots=snapshots,
            epochs_path=f"{self.folder}/{LEADER_EPOCH_FILE}",
            epochs=self.epochs.to_text() if changed else None,
            epochs_version=self._epochs_version,
            checksums=checksums,
            epoch_entries=tuple(self.epochs.entries),
            new_names=self.sync_progress.new_names(),
            cuts=self._cuts,
        )

    def encode_checkpoint(self, *, recovery_point: int, epochs: tuple[tuple[int, int], ...]) -> bytes:
        checkpoint = PartitionCheckpoint(self.topic_id, recovery_point, self.log_start_offset, epochs)
        return partition_checkpoint.encode(checkpoint)

    @property
    def checkpoint_path(self) -> str:
        return f"{self.folder}/{PARTITION_CHECKPOINT_FILE}"

    def persist_log_start(self) -> None:
        """Before records are gone, or anything is said about it: from here on a start does not look for them."""
        epochs = tuple(self.epochs.entries)
        with self.checkpoint_lock:
            content = self.encode_checkpoint(recovery_point=self.recovery_point, epochs=epochs)
            replace_file(self._disk, self.checkpoint_path, content)
        self.persisted_log_start = self.log_start_offset

    def checkpointed(self, checkpoint: Checkpoint) -> None:
        """The recovery point has moved: older snapshots that belong to no segment have had their day."""
        self.checkpoint_runs = False
        for segment in checkpoint.segments:
            segment.indexes_written(checkpoint.index_writes)
        self._epochs_version_written = checkpoint.epochs_version
        if self._deferred_snapshot in checkpoint.snapshots:
            self._deferred_snapshot = None
        if checkpoint.cuts != self._cuts:
            return  # What was written since the log was cut has offsets that this checkpoint has not seen.
        previous = self.recovery_point
        self.recovery_point = max(previous, checkpoint.offset)
        self.own_files_synced(self.recovery_point, checkpoint.new_names)
        for segment in checkpoint.segments:
            if segment is not self.segments.active:
                segment.open_on_demand()
        if previous < self.recovery_point and all(segment.base_offset != previous for segment in self.segments):
            # One that stays does no harm, and goes with the next start.
            with contextlib.suppress(OSError):
                self._disk.remove(self._snapshot_path(previous))

    def checkpoint_failed(self) -> None:
        """The recovery point stays. What was written on the way is written again by the next checkpoint."""
        self.checkpoint_runs = False

    @property
    def needs_journal(self) -> bool:
        """Whether some of what was acknowledged is perhaps in no file but the journal."""
        return self.on_write is not None and self.sync_progress.own_files_end < self.durable_offset

    def recovered(self) -> None:
        """All that a start found or took from the journal is on disk: readers may see it."""
        self.durable_offset = self.high_watermark = self.log_end_offset
        self.sync_progress.handed_over_to(self.log_end_offset)
        self._last_stable_offset = self._compute_last_stable_offset()
        self.producers.forget_completed_below(self.high_watermark)

    def was_cut(self, end_offset: int, producers: ProducerStates) -> None:
        """The segments now end at ``end_offset``; take everything that follows from them back to there."""
        self.log_end_offset = end_offset
        self.producers = producers
        self._cuts += 1
        if self.epochs.truncate_from_end(end_offset):
            self._epochs_version += 1
        self.recovery_point = min(self.recovery_point, end_offset)
        self.durable_offset = min(self.durable_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.sync_progress.cut(end_offset)
        self._last_stable_offset = self._compute_last_stable_offset()

    # Read

    def read(self, offset: int, max_bytes: int, *, isolation: Isolation, at_least_one: bool = True) -> ReadResult:
        """Batches from ``offset`` on, up to what this isolation level may see. Raises OFFSET_OUT_OF_RANGE.

        ``at_least_one``: the first batch comes whole, however large, so that a reader never gets stuck in front of it.
        """
        if self.offline is not None:
            raise self._is_offline()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.topic_partition}; it holds {self.log_start_offset} to {self.log_end_offset}",
            )
        committed = isolation is Isolation.READ_COMMITTED
        limit = self._last_stable_offset if committed else self.high_watermark
        records = b""
        aborted: list[AbortedTransaction] | None = [] if committed else None
        if offset < limit:
            try:
                records, number = read_below(
                    self.segments,
                    limit,
                    offset,
                    max_bytes,
                    at_least_one=at_least_one,
                    log_end_offset=self.log_end_offset,
                )
                if committed:
                    aborted = aborted_within(self.segments, number, offset, records)
            except OSError as error:
                if error.errno not in NOT_OPENED:
                    self.go_offline(f"read failed: {error}")
                text = f"{self.topic_partition}: read failed: {error}"
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
            except DecodeError as error:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic_partition}: {error}") from error
        return ReadResult(records, self.high_watermark, self._last_stable_offset, self.log_start_offset, aborted)

    def set_leader_epoch(self, epoch: int) -> None:
        """What is appended from now on is written by this leader."""
        self.leader_epoch = epoch
        if self.epochs.assign(epoch, self.log_end_offset):
            self._epochs_version += 1

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset | None:
        """The largest known epoch at or below ``epoch`` and where it ends. Kafka's answer to OffsetForLeaderEpoch."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at or after ``timestamp``."""
        return lookup.first_at_or_after(self, timestamp)

    def largest_timestamp(self) -> TimestampOffset | None:
        """The first record with the largest timestamp."""
        return lookup.first_with_largest_timestamp(self)

    # Removing

    def delete_records_before(self, offset: int) -> int:
        """Forget everything before ``offset``. The caller makes the new log start durable before it tells anyone."""
        if self.offline is not None:
            raise self._is_offline()
        if offset < 0 or offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"records of {self.topic_partition} before {offset}; the high watermark is {self.high_watermark}",
            )
        self.advance_log_start(offset)
        return self.log_start_offset

    def advance_log_start(self, offset: int) -> None:
        """Readers see nothing below ``offset`` any more."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if self.epochs.truncate_from_start(offset):
                self._epochs_version += 1
            self._last_stable_offset = self._compute_last_stable_offset()

    def apply_retention(self, now_ms: int) -> int:
        """Remove what the topic's settings say is too old or too much. Returns how many segments went."""
        expired = expired_segments(self, now_ms)
        self.remove_segments(expired, now_ms)
        return len(expired)

    def remove_segments(self, segments: Sequence[Segment], now_ms: int) -> None:
        """Drop the oldest segments. The log never ends up without one, nor with an end that is not on disk."""
        if not segments:
            return
        if segments[-1] is self.segments.active:
            self.roll(now_ms)
            # The new segment carries the log end in its name: that must survive before the old one goes.
            self._disk.sync_directory(self.folder)
        following = self.segments[self.segments.number_for(segments[-1].base_offset) + 1]
        self.advance_log_start(following.base_offset)
        try:
            self.persist_log_start()
        except OSError:
            # The disk may be full, and this is what makes room. Without the file a start reads everything, and does
            # not ask where the log began.
            self._disk.remove(self.checkpoint_path)
            self._disk.sync_directory(self.folder)
        self.segments.replace(segments, ())
        aborted = any(segment.transaction_index.entries for segment in segments)
        for segment in segments:
            self._disk.remove(segment.path(".log"))
            if aborted:
                # A power cut may undo any of this: it must not bring back records without what says they were aborted.
                self._disk.sync_directory(self.folder)
        for segment in segments:
            segment.remove()
            if segment.base_offset != self.recovery_point:
                self._disk.remove(self._snapshot_path(segment.base_offset))

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Compaction has made ``new`` from ``old``, which are closed and synced. The files are the caller's."""
        following = self.segments[self.segments.number_for(old[-1].base_offset) + 1]
        self.sync_progress.segments_replaced(old, following)
        self.segments.replace(old, (new,))

    def close(self) -> None:
        for segment in self.segments:
            segment.close()


def note_producer(
    producers: ProducerStates,
    segment: Segment,
    header: BatchHeader,
    marker: EndTransactionMarker | None,
    *,
    now_ms: int | None,
) -> None:
    """Take a batch into the producer state, and an abort into the transaction index of the segment that holds it."""
    completed = producers.replay(header, marker, now_ms=now_ms)
    if completed is not None and not completed.committed:
        undecided = producers.first_undecided_offset
        segment.transaction_index.append(
            AbortedTransaction(
                producer_id=completed.producer_id,
                first_offset=completed.first_offset,
                last_offset=completed.last_offset,
                last_stable_offset=completed.last_offset + 1 if undecided is None else undecided,
            )
        )


def _nobody(log: PartitionLog) -> None:
    """Until a broker listens."""


def _not_told(topic_partition: TopicPartition, error: OSError) -> None:
    """Until a directory listens."""
