"""The log of one partition on one disk (Kafka's UnifiedLog): append, read, and the offsets that limit what is read.

Five offsets, each at or below the next:

    log_start_offset      the first record that can be read
    last_stable_offset    the end of what read_committed consumers see: no transaction is open below it
    high_watermark        the end of what all consumers see
    durable_offset        the end of what is synced, so it may be acknowledged
    log_end_offset        the offset of the next record

``append`` checks the batch and changes nothing, writes it (a failed write is undone), and then replays it into producer
state and leader epochs. There is no ``await`` between these steps. The design and what a crash leaves behind are in
docs/design/log.md. Replication is in ``replica_copies.py``, checkpoints in ``durability/checkpointing.py``, the removal
of segments in ``retention.py``, truncation in ``recovery/truncation.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from uuid import UUID
from zlib import crc32

from semel.errors import DecodeError, ErrorCode, KafkaError
from semel.log import timestamp_lookup
from semel.log.admission import admit, passes_quick_header_check, takes_batches_as_they_are
from semel.log.batch_check import EFFORT_AT_ONCE_MAX, BatchCheck, passes_quick_record_check
from semel.log.config import LogConfig
from semel.log.disk import Disk
from semel.log.durability.checkpointing import CheckpointState
from semel.log.durability.commit import NewNames, Unsynced
from semel.log.durability.snapshot_files import SnapshotFiles
from semel.log.durability.sync_progress import SyncProgress
from semel.log.leader_epochs import EpochEndOffset, LeaderEpochs
from semel.log.log_errors import does_not_follow, out_of_range, read_failed, refusal, write_failed
from semel.log.outcomes import Appended, Isolation, Origin, ReadResult
from semel.log.producers.producer_state import ProducerDescription, ProducerStates
from semel.log.replica_copies import append_copied, may_follow, read_copy, verify_copy
from semel.log.segments.batch_replay import replay_batch
from semel.log.segments.reading import aborted_within, read_below
from semel.log.segments.segment import Segment
from semel.log.segments.segment_list import Segments
from semel.log.segments.transaction_index import AbortedTransaction
from semel.log.timestamp_lookup import TimestampOffset
from semel.types import Buffer, ProducerIdentity, TopicPartition
from semel.wire.control import EndTransactionMarker, build_marker_batch, parse_marker
from semel.wire.records import (
    HEADER_SIZE,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    parse_header,
    patch_offset_and_epoch,
)

logger = logging.getLogger(__name__)


class PartitionLog:
    """The log of one partition; see the module. All methods run on the event loop, except while a worker truncates the
    log (``is_truncating``). Otherwise worker threads only touch its files and read its offsets."""

    # With 30 attributes or more and no slots, Python keeps a dictionary per log, and each append takes a tenth longer.
    __slots__ = (
        "_config",
        "_is_unawaited",
        "_takes_batches_as_they_are",
        "appended_bytes",
        "checkpoints",
        "disk",
        "durable_offset",
        "epochs",
        "folder",
        "has_lost_acknowledged_records",
        "high_watermark",
        "is_truncating",
        "last_stable_offset",
        "leader_epoch",
        "log_end_offset",
        "log_start_offset",
        "offline",
        "on_durable",
        "on_refused",
        "on_write",
        "producers",
        "recovery_point",
        "segment_age_max_ms",
        "segments",
        "snapshots",
        "stored_high_watermark",
        "suspended",
        "sync_progress",
        "topic_id",
        "topic_partition",
        "truncations",
    )

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
        stored_high_watermark: int | None = None,
    ) -> None:
        """``stored_high_watermark``: the high watermark that the last process wrote, for a partition with several
        replicas. ``None``: the log is the only replica, and readers see all of it."""
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
        self.log_end_offset = log_end_offset
        self.durable_offset = log_end_offset
        self.stored_high_watermark = stored_high_watermark
        self.high_watermark = self._high_watermark_at_start()
        self.recovery_point = recovery_point
        self.appended_bytes = 0
        self.on_durable: Callable[[PartitionLog], None] = _ignore_durable
        self.on_refused: Callable[[object, OSError], None] = _ignore_refused
        self.suspended: str | None = None  # why nothing is appended for now; reads are served
        self.on_write: Callable[[PartitionLog], None] | None = None  # the committer, if records are synced before acks
        self._is_unawaited = False  # whether the last append left its sync to a later one
        self.disk = disk
        self.last_stable_offset = self._compute_last_stable_offset()
        # Above the recovery point, records may be synced in the journal only.
        self.sync_progress = SyncProgress(segments, log_end_offset=log_end_offset, own_files_synced_to=recovery_point)
        self.checkpoints = CheckpointState(log_start_offset)
        self.snapshots = SnapshotFiles(disk, folder)
        # Whether records are lost that this broker may have acknowledged (``recovery/last_run.py``).
        self.has_lost_acknowledged_records = False
        self.truncations = 0
        self.is_truncating = False  # whether a worker truncates it (``truncations.py``): nothing else may change it

    def __repr__(self) -> str:
        return f"<PartitionLog {self.topic_partition} [{self.log_start_offset}, {self.log_end_offset})>"

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        # Computed once, because every append needs it.
        self._takes_batches_as_they_are = takes_batches_as_they_are(config)
        self.segment_age_max_ms = config.segment_age_max_ms - self._jitter_ms(config)

    def _jitter_ms(self, config: LogConfig) -> int:
        """A share of ``segment.jitter.ms`` that differs between partitions and is the same after every start."""
        longest_ms = min(config.segment_jitter_ms, config.segment_ms)
        return crc32(str(self.topic_partition).encode()) % longest_ms if longest_ms else 0

    @property
    def partition(self) -> int:
        return self.topic_partition.partition

    @property
    def is_synced(self) -> bool:
        """Whether records are synced before they are acknowledged."""
        return self.on_write is not None

    @property
    def is_replicated(self) -> bool:
        """Whether other brokers have replicas: then the high watermark is not the durable offset."""
        return self.stored_high_watermark is not None

    @property
    def persisted_log_start_offset(self) -> int:
        """The log start offset that is on disk. A follower reports this one to its leader."""
        return self.checkpoints.log_start_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    def describe_producers(self) -> list[ProducerDescription]:
        return self.producers.describe()

    # Append

    def append(
        self,
        records: memoryview,
        now_ms: int,
        header: BatchHeader | None = None,
        check: BatchCheck | None = None,
        require_zero_first: bool = False,
        origin: Origin = Origin.CLIENT,
    ) -> Appended:
        """Write one batch, unless it is a duplicate of one that is in the log. Raises ``KafkaError``.

        ``header``: the header of a client's batch, if it was parsed before; it is checked here.
        ``check``: the check of these records, if it was begun before; without it the check is done here, in full. The
        buffer is patched in place (offset, leader epoch). The batch is on disk, and may be acknowledged, once
        ``high_watermark`` has passed its last offset.
        """
        if self.offline is not None or self.suspended is not None:
            raise refusal(self)
        if origin is Origin.CLIENT:
            records, header = self._admit(records, header, now_ms, check)
        else:
            header = parse_header(records)
        log_append_time_ms = now_ms if header.attributes & TIMESTAMP_TYPE_BIT else None
        if header.producer_id >= 0:
            duplicate = self.producers.check(header, require_zero_first)
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
        self.write_batch(records, header, now_ms)
        self.wrote()
        # The same as Appended(...), in half the time.
        return tuple.__new__(
            Appended, (base_offset, self.log_end_offset - 1, log_append_time_ms, self.log_start_offset, False)
        )

    def append_placed(self, batch: bytes, *, now_ms: int, awaited: bool = True) -> Appended:
        """Write a batch that a coordinator has built for the log end and the current leader epoch.

        Raises like ``append``. ``awaited``: whether a request waits for the batch; otherwise it is synced with the next
        batch, or by ``sync_unawaited``.
        """
        if self.offline is not None or self.suspended is not None:
            raise refusal(self)
        header = BatchHeader.read(batch)
        assert header.base_offset == self.log_end_offset, f"a batch for {header.base_offset} is appended to {self}"
        if header.producer_id >= 0:
            self.producers.check(header)
        self.write_batch(batch, header, now_ms)
        self.wrote(awaited)
        return Appended(header.base_offset, self.log_end_offset - 1, None, self.log_start_offset, False)

    append_copied = append_copied  # batches that already have their offsets: ``replica_copies.py``

    def append_marker(
        self, producer: ProducerIdentity, marker: EndTransactionMarker, *, now_ms: int, transaction_version: int
    ) -> Appended:
        """Append the marker that ends a producer's transaction. Raises ``KafkaError`` if the producer or the
        coordinator is fenced.

        The marker is appended even if the transaction has no records in this partition: it moves the producer's epoch,
        which fences late batches.
        """
        if self.offline is not None or self.suspended is not None:
            raise refusal(self)
        self.producers.check_marker(*producer, marker, transaction_version=transaction_version)
        batch = build_marker_batch(
            marker,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            timestamp=now_ms,
            base_offset=self.log_end_offset,
            partition_leader_epoch=self.leader_epoch,
        )
        header = BatchHeader.read(batch)
        self.write_batch(batch, header, now_ms, marker)
        self.wrote()
        return Appended(header.base_offset, header.last_offset, None, self.log_start_offset, False)

    def wrote(self, awaited: bool = True) -> None:
        if self.on_write is None:
            self.durable_offset = self.log_end_offset
            self.on_durable(self)
        else:
            self._is_unawaited = not awaited
            if awaited:
                self.on_write(self)

    def sync_unawaited(self) -> None:
        """Sync what ``append_placed`` wrote without ``awaited``: a request now waits for it."""
        if self._is_unawaited and self.on_write is not None:
            self._is_unawaited = False
            self.on_write(self)

    def begin_check(
        self, records: memoryview, effort_max: int = EFFORT_AT_ONCE_MAX, header: BatchHeader | None = None
    ) -> BatchCheck:
        """Begin the check of a client's batch, within a limited effort. It is passed to ``append`` when it is done."""
        check = BatchCheck(records, self._config, header)
        if effort_max > 0:
            check.begin(effort_max)
        return check

    def _admit(
        self, records: memoryview, header: BatchHeader | None, now_ms: int, check: BatchCheck | None
    ) -> tuple[memoryview, BatchHeader]:
        if header is None and len(records) >= HEADER_SIZE:
            header = BatchHeader.read(records)
        if (
            self._takes_batches_as_they_are
            and header is not None
            and header.magic == MAGIC_V2
            and passes_quick_header_check(records, header, self._config, now_ms)
        ):
            if check is None:
                if passes_quick_record_check(records, header):
                    return records, header
                check = BatchCheck(records, self._config, header)
            check.finish()
            if check.fault is None and check.newest == header.max_timestamp:
                return records, header
        return admit(
            records,
            config=self._config,
            now_ms=now_ms,
            topic_partition=self.topic_partition,
            header=header,
            check=check,
        )

    def write_batch(
        self, batch: Buffer, header: BatchHeader, now_ms: int, marker: EndTransactionMarker | None = None
    ) -> None:
        # The last check before the disk, for all kinds of append.
        if not may_follow(header, self.log_end_offset):
            raise does_not_follow(self.topic_partition, header, self.log_end_offset)
        config = self._config
        segment = self.segments.active
        try:
            is_taken = segment.takes(header, config, self.segment_age_max_ms, now_ms)
        except OSError as error:
            raise read_failed(self, error) from error
        if not is_taken:
            segment = self.roll(now_ms)
        size_before = segment.size_bytes
        try:
            segment.append(batch, header, config.index_interval_bytes)
        except OSError as error:
            raise write_failed(self, segment, size_before, error) from error
        self.appended_bytes += len(batch)
        self.replay(batch, header, now_ms, marker)

    def replay(self, batch: Buffer, header: BatchHeader, now_ms: int, marker: EndTransactionMarker | None) -> None:
        """Update the leader epochs, the producer state and the log end with a batch that was written.

        ``marker``: the marker in the batch, if it was parsed before.
        """
        if header.partition_leader_epoch != self.epochs.latest:
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            if marker is None and header.is_control:
                marker = parse_marker(batch)
            replay_batch(self.producers, self.segments.active, header, marker, now_ms)
        self.log_end_offset = header.base_offset + header.last_offset_delta + 1

    # Segments

    def roll(self, now_ms: int) -> Segment:
        """Close the active segment and create the next one at the log end. Raises ``KafkaError``."""
        active = self.segments.active
        if active.base_offset == self.log_end_offset:
            return active
        try:
            if self.sync_progress.has_new_files and (names := self.sync_progress.new_names()) is not None:
                # The first segment's name must be durable before there is a second one: after a power cut, a missing
                # first segment would look like deleted records.
                names.sync(self.disk)
                self.own_files_synced(0, names)
            self.snapshots.write_at_roll(self.log_end_offset, self.producers)
            segment = Segment(self.disk, self.folder, self.log_end_offset, created_ms=now_ms, create=True)
        except OSError as error:
            self.on_refused(self.topic_partition, error)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: a new segment could not be made: {error}"
            ) from error
        active.finish()
        self.segments.add(segment)
        self.sync_progress.named(folders=(self.folder,))
        return segment

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
        """Take the log offline: it serves nothing until the process starts again and recovers it from disk."""
        if self.offline is None:
            logger.error("%s is offline: %s", self.topic_partition, reason)
            self.retire(reason)

    def retire(self, reason: str) -> None:
        """Take the log offline without logging an error: it was deleted or replaced."""
        self.offline = reason
        self.on_durable(self)

    def advance_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark to ``offset``, at most to the log end. Returns whether it moved."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        if self.producers.all_settled:
            self.last_stable_offset = offset
        else:
            self.last_stable_offset = self._compute_last_stable_offset()
            self.producers.forget_completed_below(offset)
        return True

    def _compute_last_stable_offset(self) -> int:
        unstable = self.producers.first_unstable_offset(self.high_watermark)
        stable = self.high_watermark if unstable is None else min(unstable, self.high_watermark)
        return max(stable, self.log_start_offset)

    @property
    def needs_journal(self) -> bool:
        """Whether acknowledged records may be in the journal only."""
        return self.on_write is not None and self.sync_progress.own_files_end < self.durable_offset

    def recovered(self) -> None:
        """Set the offsets at the end of recovery, when all records are on disk.

        Readers see all records, or in a partition with several replicas those below the stored high watermark.
        """
        self.durable_offset = self.log_end_offset
        self.high_watermark = self._high_watermark_at_start()
        self.sync_progress.passed_to_committer(self.log_end_offset)
        self.last_stable_offset = self._compute_last_stable_offset()
        self.producers.forget_completed_below(self.high_watermark)

    def _high_watermark_at_start(self) -> int:
        if self.stored_high_watermark is None:
            return self.log_end_offset
        return min(max(self.stored_high_watermark, self.log_start_offset), self.log_end_offset)

    def truncated(self, end_offset: int, producers: ProducerStates) -> None:
        """The segments were truncated to ``end_offset``: set offsets, epochs and producer state back to it."""
        self.log_end_offset = end_offset
        self.producers = producers
        self.snapshots = SnapshotFiles(self.disk, self.folder)  # Drops a snapshot that was left to the next checkpoint.
        self.truncations += 1
        self.epochs.truncate_from_end(end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.durable_offset = min(self.durable_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.sync_progress.cut(end_offset)
        self.last_stable_offset = self._compute_last_stable_offset()

    # Replication

    @property
    def latest_epoch(self) -> int | None:
        """The leader epoch of the last batch, or of the term that this broker has begun as leader."""
        return self.epochs.latest

    def follow(self) -> None:
        """Become a follower: drop a leader epoch that this broker has begun as leader without writing a batch in it.

        Otherwise the log would claim to have records of that epoch.
        """
        self.epochs.truncate_from_end(self.log_end_offset)

    def followed(self, *, high_watermark: int, log_start_offset: int) -> None:
        """Take over the high watermark and the log start offset that the leader sent with its batches.

        The log start is not persisted here (``LogDirectory.persist_log_starts``).
        """
        self.advance_high_watermark(high_watermark)
        self.advance_log_start(min(log_start_offset, self.high_watermark))

    read_copy = read_copy
    verify_copy = verify_copy

    # Read

    def read(self, offset: int, max_bytes: int, *, isolation: Isolation, at_least_one: bool = True) -> ReadResult:
        """Read batches from ``offset`` up to what this isolation level may see. Raises OFFSET_OUT_OF_RANGE.

        ``at_least_one``: the first batch is returned whole even if it is larger than ``max_bytes``, so that a consumer
        can always make progress.
        """
        if self.offline is not None:
            raise refusal(self)
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise out_of_range(self, offset)
        committed = isolation is Isolation.READ_COMMITTED
        limit = self.last_stable_offset if committed else self.high_watermark
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
            except (OSError, DecodeError) as error:
                raise read_failed(self, error) from error
        return ReadResult(records, self.high_watermark, self.last_stable_offset, self.log_start_offset, aborted)

    def set_leader_epoch(self, epoch: int) -> None:
        """Begin a term as leader: ``epoch`` is the leader epoch of all batches that are appended from now on."""
        self.leader_epoch = epoch
        self.epochs.assign(epoch, self.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset | None:
        """The largest known epoch at or below ``epoch`` and where it ends. Kafka's answer to OffsetForLeaderEpoch."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at or after ``timestamp``. For a search in steps see ``timestamp_lookup``."""
        return timestamp_lookup.at_once(timestamp_lookup.first_at_or_after(self, timestamp))

    def largest_timestamp(self) -> TimestampOffset | None:
        """The first record with the largest timestamp."""
        return timestamp_lookup.at_once(timestamp_lookup.first_with_largest_timestamp(self))

    # Removing

    def delete_records_before(self, offset: int) -> int:
        """DeleteRecords: move the log start to ``offset``, never back. Returns the log start offset.

        The caller persists it before it answers the client.
        """
        if self.offline is not None:
            raise refusal(self)
        if offset < 0 or offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"records of {self.topic_partition} before {offset}; the high watermark is {self.high_watermark}",
            )
        self.advance_log_start(offset)
        return self.log_start_offset

    def advance_log_start(self, offset: int) -> None:
        """Hide records below ``offset`` from readers."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)
            self.last_stable_offset = self._compute_last_stable_offset()

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace closed, synced segments by the one that compaction made from them. The caller renames the files."""
        following = self.segments[self.segments.number_for(old[-1].base_offset) + 1]
        self.sync_progress.segments_replaced(old, following)
        self.segments.replace(old, (new,))

    def close(self) -> None:
        for segment in self.segments:
            segment.close()


def _ignore_durable(log: PartitionLog) -> None:
    """Used until a broker sets ``on_durable``."""


def _ignore_refused(what: object, error: OSError) -> None:
    """Used until a directory sets ``on_refused``."""
