"""All logs of one broker: opening them after whatever happened, making them durable, moving their recovery points.

Two workers serve the directory. One does group commits and nothing else, since clients wait for it. The other does
checkpoints: it syncs the partitions' own files, writes producer snapshots, and then the recovery points. Only after
that may the journal file which those partitions wrote into be used again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from semel.clock import Clock
from semel.errors import DecodeError, StorageError
from semel.log import checkpoints, identity
from semel.log.checkpointing import Outcome, carry_out
from semel.log.checkpoints import MetaProperties
from semel.log.commit import DIRECT_BYTES_MIN, CommitStatistics, Committer
from semel.log.config import LogConfig
from semel.log.disk import Disk, Lock, write_file
from semel.log.journal import FILE_SIZE_BYTES, Journal, read_entries
from semel.log.journal_replay import replay_journal
from semel.log.loading import load_log
from semel.log.partition_log import Checkpoint, PartitionLog
from semel.log.producer_state import PRODUCER_ID_EXPIRATION_MS
from semel.log.truncation import start_anew_at, truncate_to
from semel.log.worker import Worker
from semel.types import TopicPartition

logger = logging.getLogger(__name__)

LOCK_FILE: Final = ".lock"
META_PROPERTIES_FILE: Final = "meta.properties"
RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_FILE: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
DELETED_FOLDER_SUFFIX: Final = "-delete"
STRAY_FOLDER_SUFFIX: Final = "-stray"

# A start reads again what was written since the last checkpoint, so these bound how long it takes.
CHECKPOINT_BYTES: Final = 64 * 1024 * 1024
CHECKPOINT_INTERVAL_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class TopicLogs:
    """What the metadata says about a topic's logs."""

    topic_id: UUID
    config: LogConfig
    synced: bool  # whether acknowledged means synced (flush=commit, and always for the internal topics)
    partitions: tuple[int, ...] = ()  # those kept here: a start makes the ones that are missing


class LogDirectory:
    def __init__(
        self,
        path: str,
        *,
        disk: Disk,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        make_worker: Callable[[str], Worker],
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        journal_size_bytes: int = FILE_SIZE_BYTES,
        direct_bytes_min: int = DIRECT_BYTES_MIN,
        checkpoint_interval_ms: int = CHECKPOINT_INTERVAL_MS,
    ) -> None:
        self.path = path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._disk = disk
        self._clock = clock
        self._loop = loop
        self._commit_worker = make_worker("semel-commit")
        self._checkpoint_worker = make_worker("semel-checkpoint")
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._journal_size_bytes = journal_size_bytes
        self._direct_bytes_min = direct_bytes_min
        self._checkpoint_interval_ms = checkpoint_interval_ms
        self._journal: Journal | None = None
        self._committer: Committer | None = None
        self._lock: Lock | None = None
        self._checkpoint_runs = False
        self._checkpoint_wanted = False
        self._checkpoint_due_ms = 0.0
        self._bytes_at_checkpoint = 0
        self._checkpointed: set[TopicPartition] = set()  # those that the checkpoint files may name
        self._checkpoint_waiters: list[asyncio.Future[None]] = []
        self._killed = False

    @property
    def statistics(self) -> CommitStatistics:
        return self._require_committer().statistics

    @property
    def disk(self) -> Disk:
        return self._disk

    def free_bytes(self) -> int:
        """How much more the disk would take."""
        return self._disk.free_bytes(self.path)

    # Opening

    def acquire(
        self, default: MetaProperties, *, in_metadata: Callable[[], MetaProperties | None] = lambda: None
    ) -> MetaProperties:
        """Take the directory for this process, and say whose it is: ``default``'s if it is new.

        ``in_metadata`` says whose it is according to the metadata store, for the case that ``meta.properties`` is
        missing or damaged. Raises ``StorageError`` if another process has the directory, a newer program or Apache
        Kafka wrote it, or it holds logs and nothing says whose they are.
        """
        self._make_own_folder()
        self._lock = self._disk.lock(f"{self.path}/{LOCK_FILE}")
        identity.refuse_kafka(self._disk, self.path)
        meta_path = f"{self.path}/{META_PROPERTIES_FILE}"
        trouble: str | None = None
        try:
            properties = checkpoints.read_meta_properties(self._disk, meta_path)
        except DecodeError as error:
            properties, trouble = None, str(error)
        if properties is not None:
            return properties
        properties = in_metadata()
        if properties is None:
            if trouble is None and (trace := identity.trace_of_logs(self._disk, self.path)) is not None:
                trouble = f"{meta_path} is missing and so is the metadata, but there are logs ({trace})"
            if trouble is not None:
                raise StorageError(f"{trouble}. Restore the directory from a backup, or give this broker an empty one")
            properties = default
        else:
            logger.warning("%s: made again from the metadata, %s", trouble or f"{meta_path} is missing", properties)
        checkpoints.write_meta_properties(self._disk, meta_path, properties)
        return properties

    def _make_own_folder(self) -> None:
        missing = []
        folder = self.path
        while not self._disk.exists(folder):
            folder = os.path.dirname(folder) or os.curdir  # The folder that a relative path begins in has no name.
            missing.append(folder)
        self._disk.make_folder(self.path)
        for parent in missing:
            self._disk.sync_directory(parent)

    def load(self, topics: Mapping[str, TopicLogs]) -> None:
        """Open every partition of the topics, make those that are missing, and set aside what belongs to none."""
        recovery_points = self._read_offsets(RECOVERY_POINT_FILE)
        log_starts = self._read_offsets(LOG_START_FILE)
        for name in self._disk.list(self.path):
            topic_partition = _parse_folder_name(name)
            if name.endswith(DELETED_FOLDER_SUFFIX):
                self._disk.remove_folder(f"{self.path}/{name}")
            elif topic_partition is not None:
                self._load_one(topic_partition, topics, recovery_points, log_starts)
        for topic, described in topics.items():
            for partition in described.partitions:
                if TopicPartition(topic, partition) not in self.logs:
                    self._make(TopicPartition(topic, partition), described)
        self._checkpointed = {*recovery_points, *log_starts}
        if any(log.recovery_point < recovery_points.get(name, 0) for name, log in self.logs.items()):
            # Something below a recovery point was not sound. Before it is made again, nobody may vouch for it.
            checkpoints.write_offsets(self._disk, f"{self.path}/{RECOVERY_POINT_FILE}", self._recovery_points())
        generation, entries = read_entries(self._disk, self.path)
        replay_journal(entries, self.logs.values(), now_ms=self._clock.now_ms())
        self._restore_log_starts(log_starts)
        self._make_recovered_durable(topics)
        self._start_committing(generation + 1)
        for topic_partition, log in self.logs.items():
            self._attach(log, topics[topic_partition.topic].synced)
        self._bytes_at_checkpoint = self._appended_bytes()

    def _load_one(
        self,
        topic_partition: TopicPartition,
        topics: Mapping[str, TopicLogs],
        recovery_points: Mapping[TopicPartition, int],
        log_starts: Mapping[TopicPartition, int],
    ) -> None:
        folder = self._folder(topic_partition)
        topic = topics.get(topic_partition.topic)
        topic_id = self._topic_id_in(folder)
        if topic_id is None:
            if topic is not None:
                # Never finished: what was acknowledged here since is in the journal.
                self._disk.remove_folder(folder)
            return
        if topic is None or topic_id != topic.topic_id:
            stray = f"{self.path}/{topic_id.hex}-{topic_partition.partition}{STRAY_FOLDER_SUFFIX}"
            logger.warning("%s belongs to no topic (its id is %s) and is set aside as %s", folder, topic_id, stray)
            self._disk.remove_folder(stray)
            self._disk.rename(folder, stray)
            return
        log = self.logs[topic_partition] = load_log(
            self._disk,
            folder,
            topic_partition=topic_partition,
            topic_id=topic.topic_id,
            config=topic.config,
            log_start_offset=log_starts.get(topic_partition, 0),
            recovery_point=recovery_points.get(topic_partition, 0),
            now_ms=self._clock.now_ms(),
            producer_id_expiration_ms=self._producer_id_expiration_ms,
        )
        # The process before this one may have been killed between making a name and syncing it.
        if log.recovery_point > log.segments.first.base_offset:
            log.sync_progress.named(folders=(folder,))
        else:
            log.sync_progress.named(files=(f"{folder}/{PARTITION_METADATA_FILE}",), folders=(folder, self.path))

    def _restore_log_starts(self, log_starts: Mapping[TopicPartition, int]) -> None:
        """After the journal was replayed: only then is it known where a log really ends."""
        for topic_partition, offset in log_starts.items():
            log = self.logs.get(topic_partition)
            if log is None or offset <= log.log_start_offset:
                continue
            if offset <= log.log_end_offset:
                log.advance_log_start(offset)
            else:
                logger.warning("%r ends before its start at %d: it starts anew there", log, offset)
                start_anew_at(self._disk, log, offset, now_ms=self._clock.now_ms())

    def _make_recovered_durable(self, topics: Mapping[str, TopicLogs]) -> None:
        """Where acknowledged means synced, readers see nothing after a start that a power cut could take back."""
        jobs = []
        for topic_partition, log in self.logs.items():
            if topics[topic_partition.topic].synced and (job := log.prepare_checkpoint()) is not None:
                jobs.append(job)
            log.recovered()
        if jobs:
            outcome = self._carry_out(jobs, self._recovery_points(), self._log_starts(), self._high_watermarks())
            self._apply(outcome)

    def _start_committing(self, generation: int) -> None:
        self._journal = Journal(self._disk, self.path, generation=generation, size_max=self._journal_size_bytes)
        self._committer = Committer(
            disk=self._disk,
            worker=self._commit_worker,
            journal=self._journal,
            call_soon=self._loop.call_soon,
            monotonic_ms=self._clock.monotonic_ms,
            journal_is_full=self._journal_is_full,
            direct_bytes_min=self._direct_bytes_min,
        )

    def _attach(self, log: PartitionLog, synced: bool) -> None:
        log.on_write = self._require_committer().wrote if synced else None

    # Partitions

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self.logs.get(topic_partition)

    def create(self, topic_partition: TopicPartition, topic: TopicLogs) -> PartitionLog:
        """Begin a log.

        Its names become durable with its first sync. A power cut before that may take them, and then the next start
        makes the log again, from the metadata and the journal.
        """
        if topic_partition in self._checkpointed:
            # Of a topic with this name that was deleted: its recovery point must not vouch for the new one's records.
            self._checkpointed.discard(topic_partition)
            checkpoints.write_offsets(self._disk, f"{self.path}/{RECOVERY_POINT_FILE}", self._recovery_points())
            self.persist_log_starts()
        log = self._make(topic_partition, topic)
        self._attach(log, topic.synced)
        return log

    def _make(self, topic_partition: TopicPartition, topic: TopicLogs) -> PartitionLog:
        folder = self._folder(topic_partition)
        self._disk.make_folder(folder)
        metadata_path = f"{folder}/{PARTITION_METADATA_FILE}"
        write_file(self._disk, metadata_path, checkpoints.encode_partition_metadata(topic.topic_id))
        log = self.logs[topic_partition] = load_log(
            self._disk,
            folder,
            topic_partition=topic_partition,
            topic_id=topic.topic_id,
            config=topic.config,
            now_ms=self._clock.now_ms(),
            producer_id_expiration_ms=self._producer_id_expiration_ms,
        )
        log.sync_progress.named(files=(metadata_path,), folders=(folder, self.path))
        return log

    def delete(self, topic_partition: TopicPartition) -> None:
        """Forget a log. Its folder gets another name at once, its files go when the worker comes to it."""
        log = self.logs.pop(topic_partition)
        doomed = f"{self.path}/{log.topic_id.hex}-{topic_partition.partition}{DELETED_FOLDER_SUFFIX}"
        self._disk.rename(log.folder, doomed)
        log.retire("the topic was deleted")
        self._checkpoint_worker.run(lambda: self._disk.remove_folder(doomed), _log_failure)

    def truncate(self, log: PartitionLog, offset: int) -> None:
        """Cut a log back to ``offset``, and see to it that no crash brings the rest back."""
        self._require_committer().void(log, offset)
        truncate_to(self._disk, log, offset)

    def persist_log_starts(self) -> None:
        """Before anybody is told that records are deleted."""
        checkpoints.write_offsets(self._disk, f"{self.path}/{LOG_START_FILE}", self._log_starts())

    # Checkpoints

    def checkpoint_if_due(self) -> None:
        """Called now and then: keeps the part of the log that a start would read again short."""
        now = self._clock.monotonic_ms()
        written = self._appended_bytes() - self._bytes_at_checkpoint
        if written >= CHECKPOINT_BYTES or (written and now >= self._checkpoint_due_ms):
            self.checkpoint()

    def checkpoint(self, *, closing: bool = False) -> None:
        """Move all recovery points to the log ends, in the background."""
        if self._checkpoint_runs:
            self._checkpoint_wanted = True
            return
        self._checkpoint_runs = True
        self._bytes_at_checkpoint = self._appended_bytes()
        self._checkpoint_due_ms = self._clock.monotonic_ms() + self._checkpoint_interval_ms
        jobs = [job for log in self.logs.values() if (job := log.prepare_checkpoint(closing=closing)) is not None]
        points, starts, watermarks = self._recovery_points(), self._log_starts(), self._high_watermarks()
        self._checkpoint_worker.run(
            lambda: self._carry_out(jobs, points, starts, watermarks), self._checkpoint_finished
        )

    def _journal_is_full(self) -> None:
        if self._journal is not None and self._journal.is_full and self._journal.can_switch:
            self._journal.switch()
        self.checkpoint()

    def _carry_out(
        self,
        jobs: list[Checkpoint],
        recovery_points: dict[TopicPartition, int],
        log_starts: dict[TopicPartition, int],
        high_watermarks: dict[TopicPartition, int],
    ) -> Outcome:
        """On the worker. A log that fails keeps its old recovery point; the others move."""
        outcome = carry_out(self._disk, self.path, jobs)
        for job in outcome.moved:
            recovery_points[job.log.topic_partition] = job.offset
        checkpoints.write_offsets(self._disk, f"{self.path}/{LOG_START_FILE}", log_starts)
        checkpoints.write_offsets(self._disk, f"{self.path}/{HIGH_WATERMARK_FILE}", high_watermarks)
        checkpoints.write_offsets(self._disk, f"{self.path}/{RECOVERY_POINT_FILE}", recovery_points)
        return outcome

    def _checkpoint_finished(self, outcome: Outcome | BaseException) -> None:
        if self._killed:
            return
        self._checkpoint_runs = False
        if isinstance(outcome, BaseException):
            if not isinstance(outcome, OSError):
                raise outcome
            logger.error("recovery points could not be written and stay where they were: %s", outcome)
        else:
            self._apply(outcome)
        if self._checkpoint_wanted:
            self._checkpoint_wanted = False
            self.checkpoint()
            return
        waiters, self._checkpoint_waiters = self._checkpoint_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _apply(self, outcome: Outcome) -> None:
        for job in outcome.moved:
            job.log.checkpointed(job)
            self._checkpointed.add(job.log.topic_partition)
        still_here = [
            (job, error) for job, error in outcome.failed if self.logs.get(job.log.topic_partition) is job.log
        ]
        for job, error in still_here:
            job.log.go_offline(f"sync failed: {error}")
        # A partition that could not sync its own file has only the journal: then that file must stay.
        if self._journal is not None and not self._journal.can_switch and not still_here:
            self._journal.release()

    # Closing

    async def close(self) -> None:
        """Bring everything to rest: nothing is left for the next start to read again."""
        if self._committer is not None:
            idle: asyncio.Future[None] = self._loop.create_future()
            self._committer.when_idle(lambda: idle.set_result(None))
            await idle
            finished: asyncio.Future[None] = self._loop.create_future()
            self._checkpoint_waiters.append(finished)
            self.checkpoint(closing=True)
            await finished
        self._commit_worker.stop()
        self._checkpoint_worker.stop()
        if self._journal is not None:
            if all(log.recovery_point == log.log_end_offset for log in self.logs.values()):
                self._journal.forget()
            self._journal.close()
        for log in self.logs.values():
            log.close()
        self._release_lock()

    def kill(self) -> None:
        """Drop everything where it stands, as the end of the process would. Files close when nobody holds them."""
        self._killed = True
        self._commit_worker.kill()
        self._checkpoint_worker.kill()
        self._release_lock()

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # Small things

    def _folder(self, topic_partition: TopicPartition) -> str:
        return f"{self.path}/{topic_partition}"

    def _topic_id_in(self, folder: str) -> UUID | None:
        try:
            return checkpoints.read_topic_id(self._disk, f"{folder}/{PARTITION_METADATA_FILE}")
        except DecodeError:
            return None

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        return checkpoints.read_offsets(self._disk, f"{self.path}/{name}")

    def _appended_bytes(self) -> int:
        return sum(log.appended_bytes for log in self.logs.values())

    def _recovery_points(self) -> dict[TopicPartition, int]:
        return {topic_partition: log.recovery_point for topic_partition, log in self.logs.items()}

    def _log_starts(self) -> dict[TopicPartition, int]:
        return {
            topic_partition: log.log_start_offset
            for topic_partition, log in self.logs.items()
            if log.log_start_offset > log.segments.first.base_offset
        }

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        return {topic_partition: log.high_watermark for topic_partition, log in self.logs.items()}

    def _require_committer(self) -> Committer:
        if self._committer is None:
            raise StorageError(f"{self.path} is not loaded")
        return self._committer


def _parse_folder_name(name: str) -> TopicPartition | None:
    topic, dash, number = name.rpartition("-")
    return TopicPartition(topic, int(number)) if dash and topic and number.isascii() and number.isdigit() else None


def _log_failure(outcome: object) -> None:
    if isinstance(outcome, BaseException):
        logger.error("a deleted partition's files could not be removed: %s", outcome)
