"""The data directory: all logs of one broker (Kafka's LogManager). It opens them after any crash, commits what is
appended to them, and checkpoints them.

Two workers serve the directory. One does group commits only, because clients wait for them. The other does checkpoints:
it syncs the partitions' own files, writes producer snapshots, and then the recovery points. Only then may the journal
file that holds the same records be used again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from semel.clock import Clock
from semel.errors import DecodeError, StorageError
from semel.log.disk import NO_ROOM, Disk, Lock
from semel.log.durability import checkpoints
from semel.log.durability.checkpointer import CHECKPOINT_INTERVAL_MS, Checkpointer
from semel.log.durability.checkpointing import persist_log_start
from semel.log.durability.checkpoints import (
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_FILE,
    MetaProperties,
)
from semel.log.durability.commit import DIRECT_BYTES_MIN, CommitStatistics, Committer
from semel.log.durability.journal import FILE_SIZE_BYTES, Entry, Journal, Kind, read_entries, write_kept
from semel.log.durability.journal_replay import JournalContent
from semel.log.durability.write_refusals import WriteRefusals
from semel.log.partition_log import PartitionLog
from semel.log.producers.producer_state import PRODUCER_ID_EXPIRATION_MS
from semel.log.recovery import identity
from semel.log.recovery.opening import DELETED_FOLDER_SUFFIX, Opening, Unavailable, make_log
from semel.log.recovery.truncation import truncate_to
from semel.log.topic_logs import TopicLogs
from semel.log.worker import Worker, done_by
from semel.types import TopicPartition

logger = logging.getLogger(__name__)

LOCK_FILE: Final = ".lock"


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
        self.unavailable: dict[TopicPartition, Unavailable] = {}
        self._has_unsettled_names = False  # whether a deleted log's folder may get its old name back in a power cut
        self._disk = disk
        self._clock = clock
        self._loop = loop
        self._commit_worker = make_worker("semel-commit")
        self._checkpoint_worker = make_worker("semel-checkpoint")
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._journal_size_bytes = journal_size_bytes
        self._direct_bytes_min = direct_bytes_min
        self._journal: Journal | None = None
        self._committer: Committer | None = None
        self._lock: Lock | None = None
        self.refusals = WriteRefusals(path, disk, clock)
        self._is_gone = False  # whether the folder itself is not where it should be
        self._to_delete: dict[str, str] = {}  # folders of deleted logs, and what they are renamed to
        self._checkpointer = Checkpointer(
            path,
            disk=disk,
            clock=clock,
            worker=self._checkpoint_worker,
            logs=self.logs,
            interval_ms=checkpoint_interval_ms,
            refused=self.refusals.refused,
        )

    @property
    def statistics(self) -> CommitStatistics:
        return self._require_committer().statistics

    @property
    def disk(self) -> Disk:
        return self._disk

    def free_bytes(self) -> int:
        """The free space of the disk."""
        return self._disk.free_bytes(self.path)

    def give_room(self) -> bool:
        """On a full disk: give back what the journal has in reserve. Returns whether it had something."""
        return self._journal is not None and self._journal.give_room()

    # Opening

    def acquire(
        self, default: MetaProperties, *, in_metadata: Callable[[], MetaProperties | None] = lambda: None
    ) -> MetaProperties:
        """Lock the directory for this process. Returns its ``MetaProperties``: ``default`` if it is new.

        ``in_metadata``: the properties in the metadata store, for the case that ``meta.properties`` is
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
        """Open every partition of the topics, create missing ones, and rename folders that belong to no topic.

        A partition that cannot be opened is ``unavailable`` then, and the others are served.
        """
        recovery_points = self._read_offsets(RECOVERY_POINT_FILE)
        high_watermarks = self._read_offsets(HIGH_WATERMARK_FILE)
        log_starts = checkpoints.read_log_starts(self._disk, f"{self.path}/{LOG_START_FILE}")
        generation, entries = read_entries(self._disk, self.path)
        opening = Opening(
            disk=self._disk,
            path=self.path,
            topics=topics,
            now_ms=self._clock.now_ms(),
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            recovery_points=recovery_points,
            log_starts=log_starts,
            journal=JournalContent(entries),
            logs=self.logs,
            unavailable=self.unavailable,
        )
        opening.run()
        opening.replay_journal()
        self._checkpointer.kept = {
            name: {partition: offsets[partition] for partition in self.unavailable if partition in offsets}
            for name, offsets in (
                (RECOVERY_POINT_FILE, recovery_points),
                (LOG_START_FILE, log_starts.offsets),
                (HIGH_WATERMARK_FILE, high_watermarks),
            )
        }
        named, here = {*recovery_points, *log_starts.offsets}, {*self.logs, *self.unavailable}
        lowered = any(log.recovery_point < recovery_points.get(name, 0) for name, log in self.logs.items())
        if named - here or lowered:
            # Something below a recovery point was not sound: before it is made again, nothing may vouch for it. Or a
            # topic was deleted: what is said of it must not be taken for another of its name.
            try:
                self._checkpointer.write_recovery_points()
            except OSError as error:
                if error.errno not in NO_ROOM or lowered:
                    raise
                self._has_unsettled_names = True  # It is written before a topic is made, which may have such a name.
        self._checkpointer.named = named
        self._keep_journal_of_unavailable(entries)
        self._make_recovered_durable(topics)
        self._start_committing(generation + 1)
        for topic_partition, log in self.logs.items():
            self._attach(log, topics[topic_partition.topic].synced)
        self._checkpointer.begin(self._require_journal())

    def _keep_journal_of_unavailable(self, entries: Sequence[Entry]) -> None:
        """Save the journal entries of partitions that could not be opened: the journal is about to be overwritten."""
        wanted = {(found.topic_id, name.partition) for name, found in self.unavailable.items()}
        kept = [entry for entry in entries if (entry.topic_id, entry.partition) in wanted]
        if all(entry.kind is Kind.DATA for entry in kept):
            # The same entry may have been found in both places. Behind a VOID it may be meant twice.
            kept = list({(*entry[:4], bytes(entry.payload)): entry for entry in kept}.values())
        write_kept(self._disk, self.path, kept)

    def _make_recovered_durable(self, topics: Mapping[str, TopicLogs]) -> None:
        """Sync recovered records before readers see them, for logs that are synced before they are acknowledged.

        On a full disk the records are synced and the recovery points stay, until there is room for a checkpoint. Raises
        ``StorageError`` if records could not be synced: the journal, which may be the only copy, will be overwritten.
        """
        synced = [log for name, log in self.logs.items() if topics[name.topic].synced]
        outcome = self._checkpointer.carry_out_at_once(synced)
        for job, error in outcome.skipped:
            if error.errno in NO_ROOM:
                continue
            raise StorageError(
                f"{job.log.topic_partition} could not be brought to rest after the last run: {error}. Nothing is lost; "
                "make room and start again"
            )
        for log in self.logs.values():
            log.recovered()

    def _start_committing(self, generation: int) -> None:
        self._journal = Journal(self._disk, self.path, generation=generation, size_max=self._journal_size_bytes)
        self._committer = Committer(
            disk=self._disk,
            worker=self._commit_worker,
            journal=self._journal,
            call_soon=self._loop.call_soon,
            monotonic_ms=self._clock.monotonic_ms,
            journal_is_full=self._checkpointer.journal_is_full,
            direct_bytes_min=self._direct_bytes_min,
        )

    def _attach(self, log: PartitionLog, synced: bool) -> None:
        log.on_write = self._require_committer().wrote if synced else None
        log.on_refused = self.refusals.refused

    # Partitions

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self.logs.get(topic_partition)

    def create(self, topic_partition: TopicPartition, topic: TopicLogs) -> PartitionLog:
        """Create a log.

        Its names become durable with its first sync. A power cut before that may take them, and then the next start
        makes the log again, from the metadata and the journal.
        """
        if topic_partition in self._checkpointer.named:
            # Of a topic with this name that was deleted: its recovery point must not vouch for the new one's records.
            self._checkpointer.write_recovery_points()
            self.persist_log_starts()
            self._checkpointer.named.discard(topic_partition)
        if self._has_unsettled_names:
            self.names_settled()
        if self._lock is not None and not self._disk.exists(f"{self.path}/{LOCK_FILE}"):
            # Otherwise a directory that was moved away would be created again, and could not be moved back.
            raise FileNotFoundError(errno.ENOENT, "the data directory is gone", self.path)
        self._clear_away(self._folder(topic_partition))
        log = self.logs[topic_partition] = make_log(
            self._disk, self.path, topic_partition, topic, self._clock.now_ms(), self._producer_id_expiration_ms
        )
        self._attach(log, topic.synced)
        return log

    def delete(self, topic_partition: TopicPartition) -> None:
        """Delete a log. Its folder is renamed at once; the worker removes its files later.

        If the rename fails, ``tidy`` tries again; before that, no log is created in the folder. ``names_settled`` makes
        the new name durable.
        """
        self._has_unsettled_names = True
        for offsets in self._checkpointer.kept.values():
            offsets.pop(topic_partition, None)
        log = self.logs.pop(topic_partition, None)
        found = log or self.unavailable.pop(topic_partition, None)
        if found is None:
            return
        if log is not None:
            log.retire("the topic was deleted")
        folder = self._folder(topic_partition)
        self._to_delete[folder] = f"{self.path}/{found.topic_id.hex}-{topic_partition.partition}{DELETED_FOLDER_SUFFIX}"
        try:
            self._clear_away(folder)
        except OSError as error:
            logger.error("the files of %s, which was deleted, stay for now: %s", topic_partition, error)

    def names_settled(self) -> None:
        """Make the renames of deleted logs durable, and remove their lines from the checkpoint files.

        Only then may a topic of the same name be created: a folder without a readable topic id belongs to the topic of
        its name.
        """
        self._checkpointer.write_recovery_points()  # Replacing the file syncs the folder.
        self._has_unsettled_names = False

    def tidy(self) -> None:
        """Called periodically: check that the directory exists, retry renames that failed, keep the reserve."""
        self._look_for_own_folder()
        if self._journal is not None and not self._is_gone:
            self._journal.reserve()
        for folder in list(self._to_delete):
            with contextlib.suppress(OSError):
                self._clear_away(folder)

    def _look_for_own_folder(self) -> None:
        """Suspend appends while the directory is missing: open files can be written, but are lost to a start."""
        gone = not self._disk.exists(f"{self.path}/{LOCK_FILE}")
        if gone != self._is_gone:
            self._is_gone = gone
            if gone:
                logger.error("%s is gone: nothing is appended until it is back", self.path)
            else:
                logger.warning("%s is back", self.path)
            for log in self.logs.values():
                log.suspended = f"the data directory {self.path} is gone" if gone else None

    def _clear_away(self, folder: str) -> None:
        """Rename the folder of a deleted log, so that a log can be created under its name."""
        doomed = self._to_delete.get(folder)
        if doomed is None:
            return
        with contextlib.suppress(FileNotFoundError):
            self._disk.rename(folder, doomed)
        del self._to_delete[folder]
        self._checkpoint_worker.run(lambda: self._disk.remove_folder(doomed), _log_failure)

    def truncate(self, log: PartitionLog, offset: int) -> None:
        """Truncate a log to ``offset``. After a crash the rest does not come back."""
        self._require_committer().void(log, offset)
        log.recovery_point = min(log.recovery_point, offset)
        persist_log_start(log)  # And with it the recovery point: what is cut is not to be missed.
        truncate_to(self._disk, log, offset)

    def persist_log_starts(self) -> None:
        """Write the log start offsets. Called before DeleteRecords is answered."""
        moved = [
            log
            for log in self.logs.values()
            if log.log_start_offset > log.checkpoints.log_start_offset and log.offline is None
        ]

        def persist() -> None:
            for log in moved:
                persist_log_start(log)
            self._checkpointer.write_log_starts()

        try:
            persist()
        except OSError as error:
            if error.errno not in NO_ROOM or not self.give_room():
                raise
            persist()

    # Checkpoints

    def checkpoint_if_due(self) -> None:
        """Called periodically: start a checkpoint if one is due."""
        self._checkpointer.start_if_due()

    def checkpoint(self) -> None:
        """Move all recovery points to the log ends, in the background."""
        self._checkpointer.start()

    # Closing

    async def close(self) -> bool:
        """Commit and checkpoint everything, and close. Returns whether the next start has nothing to recover.

        It waits for the disk without a limit and without blocking the loop. The caller has a deadline, after which it
        calls ``kill``.
        """
        if self._committer is not None:
            await _told(self._loop, self._committer.when_idle)
            await _told(self._loop, self._checkpointer.close)
        clean = not self._checkpointer.failing
        if self._journal is not None:
            forget = all(log.recovery_point == log.log_end_offset for log in self.logs.values())
            await done_by(self._commit_worker, self._loop, self._journal.forget if forget else _nothing)
        await done_by(self._checkpoint_worker, self._loop, _nothing)
        self._commit_worker.stop()
        self._checkpoint_worker.stop()
        if self._journal is not None:
            self._journal.close()
        for log in self.logs.values():
            log.close()
        self._release_lock()
        return clean

    def kill(self) -> None:
        """Stop at once, as the end of the process would. Files close with their last reference."""
        self._checkpointer.killed = True
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

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(self._disk, f"{self.path}/{name}")
        except DecodeError as error:
            logger.warning("%s; the partitions' own checkpoints are used", error)
            return {}

    def _require_journal(self) -> Journal:
        assert self._journal is not None
        return self._journal

    def _require_committer(self) -> Committer:
        if self._committer is None:
            raise StorageError(f"{self.path} is not loaded")
        return self._committer


def _log_failure(outcome: object) -> None:
    if isinstance(outcome, BaseException):
        logger.error("a deleted partition's files could not be removed: %s", outcome)


async def _told(loop: asyncio.AbstractEventLoop, ask: Callable[[Callable[[], None]], None]) -> None:
    """Wait until the callback that is passed to ``ask`` is called."""
    told: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not told.done():
            told.set_result(None)

    ask(tell)
    await told


def _nothing() -> None:
    """Work that does nothing: when a worker has done it, all earlier work is done."""
