"""The data directory: all logs of one broker (Kafka's LogManager). It opens them after any crash, commits what is
appended to them, and checkpoints them.

Three workers serve the directory. One does group commits only, because clients wait for them. One does checkpoints: it
syncs the partitions' own files, writes producer snapshots, and then the recovery points. Only then may the journal file
that holds the same records be used again. The third makes and renames the folders of partitions
(``partition_folders.py``), truncates logs (``truncations.py``), and writes log starts for DeleteRecords. What happens
at a start is in ``recovery/startup.py``.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from semel.clock import Clock
from semel.errors import StorageError
from semel.log.compaction.cleaner_offsets import CleanerOffsets
from semel.log.disk import NO_ROOM, Disk, Lock
from semel.log.durability.checkpointer import CHECKPOINT_INTERVAL_MS, Checkpointer
from semel.log.durability.checkpointing import persist_log_start
from semel.log.durability.checkpoints import MetaProperties
from semel.log.durability.commit import DIRECT_BYTES_MIN, CommitStatistics, Committer
from semel.log.durability.journal import FILE_SIZE_BYTES, Journal
from semel.log.durability.write_refusals import WriteRefusals
from semel.log.partition_folders import FolderChanges, FolderOutcome, PartitionFolders
from semel.log.partition_log import PartitionLog
from semel.log.producers.producer_state import PRODUCER_ID_EXPIRATION_MS
from semel.log.recovery import identity
from semel.log.recovery.last_run import LastRun
from semel.log.recovery.opening import DELETED_FOLDER_SUFFIX, Unavailable
from semel.log.recovery.startup import Startup
from semel.log.topic_logs import TopicLogs
from semel.log.truncations import Failures, Truncations
from semel.log.worker import Worker, done_by, wait_for_callback
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
        is_unsynced: bool = False,
    ) -> None:
        """``is_unsynced``: whether logs may have records that were acknowledged before they were synced (flush=os)."""
        self.path = path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.unavailable: dict[TopicPartition, Unavailable] = {}
        self._disk = disk
        self._clock = clock
        self._loop = loop
        self._commit_worker = make_worker("semel-commit")
        self._checkpoint_worker = make_worker("semel-checkpoint")
        self._folder_worker = make_worker("semel-folders")
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._journal_size_bytes = journal_size_bytes
        self._direct_bytes_min = direct_bytes_min
        self._journal: Journal | None = None
        self._committer: Committer | None = None
        self._lock: Lock | None = None
        self._is_unsynced = is_unsynced
        self._last_run: LastRun | None = None
        self._damaged: set[PartitionLog] = set()  # the logs whose damage was reported since the start
        self.refusals = WriteRefusals(path, disk, clock)
        self._is_gone = False  # whether the data directory itself is missing
        self._checkpointer = Checkpointer(
            path,
            disk=disk,
            clock=clock,
            worker=self._checkpoint_worker,
            logs=self.logs,
            interval_ms=checkpoint_interval_ms,
            refused=self.refusals.refused,
        )
        self.cleaner_offsets = CleanerOffsets(path, disk, self.logs)
        self._folders = PartitionFolders(
            path,
            disk,
            producer_id_expiration_ms=producer_id_expiration_ms,
            is_here=lambda: self._lock is None or disk.exists(f"{path}/{LOCK_FILE}"),
            write_checkpoint_files=self._forget_deleted,
        )
        self._truncations = Truncations(path, disk, self._folder_worker, self, clock.now_ms)

    @property
    def statistics(self) -> CommitStatistics:
        return self._require_committer().statistics

    @property
    def disk(self) -> Disk:
        return self._disk

    def free_bytes(self) -> int:
        """The free space of the disk."""
        return self._disk.free_bytes(self.path)

    def release_reserve(self) -> bool:
        """On a full disk: release the space that the journal has in reserve. Returns whether there was any."""
        return self._journal is not None and self._journal.release_reserve()

    # Opening

    def acquire(
        self, default: MetaProperties, *, in_metadata: Callable[[], MetaProperties | None] = lambda: None
    ) -> MetaProperties:
        """Lock the directory for this process. Returns its ``MetaProperties``: ``default`` if it is new.

        ``in_metadata``: the properties in the metadata store, for the case that ``meta.properties`` is
        missing or damaged. Raises ``StorageError`` if another process has locked the directory, if a newer program or
        Apache Kafka wrote it, or if it is not new and its properties are neither in the file nor in the metadata.
        """
        self._make_own_folder()
        self._lock = self._disk.lock(f"{self.path}/{LOCK_FILE}")
        self._read_last_run()
        return identity.establish(self._disk, self.path, default, in_metadata)

    @property
    def machine_died(self) -> bool:
        """Whether records that an earlier run did not sync may be lost, and the cluster does not know it yet
        (``losses_reported``)."""
        return self._read_last_run().machine_died

    @property
    def was_unsynced(self) -> bool:
        """Whether the run whose machine died acknowledged records before they were synced, whatever this run does."""
        return self._read_last_run().was_unsynced

    async def losses_reported(self) -> None:
        """Record that the broker has left the in-sync sets of the partitions that may have lost records. Raises
        ``OSError``.

        Until this has returned, every start sets ``machine_died`` and ``has_lost_acknowledged_records`` again.
        """
        last_run, but = self._read_last_run(), [(log.topic_id, log.partition) for log in self._damaged]
        await done_by(self._folder_worker, self._loop, lambda: last_run.losses_reported(but=but))
        for log in self.logs.values():
            log.has_lost_acknowledged_records = False

    def report_damage(self, log: PartitionLog, reason: str) -> None:
        """Take a log offline because a batch in the middle of it is damaged. Other brokers have the batch.

        First the damage is recorded on disk. So the next start reads the whole log and truncates it at the damage, and
        the broker fetches the rest again.
        """
        if log in self._damaged or log.offline is not None:
            return
        self._damaged.add(log)

        def noted(outcome: object) -> None:
            if isinstance(outcome, BaseException):
                logger.error("%s: the next start will not look for the damage: %s", log.topic_partition, outcome)
            log.go_offline(f"{reason}; what is damaged is fetched from other brokers after the next start")

        found = [(log.topic_id, log.partition)]
        self._folder_worker.run(lambda: self._read_last_run().found_lost(found), noted)

    def _read_last_run(self) -> LastRun:
        if self._last_run is None:
            has_logs = identity.trace_of_logs(self._disk, self.path) is not None
            self._last_run = LastRun.read(self._disk, self.path, has_logs=has_logs, is_unsynced=self._is_unsynced)
        return self._last_run

    def _make_own_folder(self) -> None:
        missing = []
        folder = self.path
        while not self._disk.exists(folder):
            folder = os.path.dirname(folder) or os.curdir  # The first folder of a relative path has an empty dirname.
            missing.append(folder)
        self._disk.make_folder(self.path)
        for parent in missing:
            self._disk.sync_directory(parent)

    def load(self, topics: Mapping[str, TopicLogs]) -> None:
        """Open every partition of the topics, create missing ones, and rename folders that belong to no topic.

        A partition that cannot be opened is put into ``unavailable``; the others are opened all the same.
        """
        startup = Startup(
            self.path,
            disk=self._disk,
            now_ms=self._clock.now_ms(),
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            topics=topics,
            logs=self.logs,
            unavailable=self.unavailable,
            checkpointer=self._checkpointer,
            last_run=self._read_last_run(),
        )
        started = startup.run()
        has_stale_lines = self.cleaner_offsets.load()
        self._folders.has_stale_lines = started.has_unsettled_names or has_stale_lines
        self._start_committing(started.journal_generation + 1)
        # These logs were truncated and fetch the rest again. The journal's old entries would not fit what they fetch.
        self._require_committer().void([(self.logs[name], 0) for name in started.cut if name in self.logs])
        for topic_partition, log in self.logs.items():
            self._attach(log, topics[topic_partition.topic].synced)
        self._checkpointer.begin(self._require_journal())

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
        """Create a log during a start, waiting for the disk. Raises ``OSError`` or ``StorageError``."""
        outcome = self._folders.carry_out(FolderChanges(self._clock.now_ms(), wanted={topic_partition: topic}))
        self._changed({topic_partition: topic}, outcome)
        if topic_partition in outcome.failed:
            raise outcome.failed[topic_partition]
        return outcome.made[topic_partition]

    def change(
        self,
        done: Callable[[FolderOutcome], None],
        *,
        deleted: Iterable[TopicPartition] = (),
        settled: bool = False,
        wanted: Mapping[TopicPartition, TopicLogs] | None = None,
    ) -> None:
        """Delete and create logs, in this order. A worker does what needs the disk; then ``done`` is called.

        When this returns, deleted logs are no longer in ``logs``. The worker then renames their folders, and their
        files are removed later. If a rename fails, ``tidy`` tries it again; until it succeeds, no log is created in
        that folder. Only after a change with ``settled`` may the metadata have a new topic with the name of a deleted
        one: then the renames are durable, and the checkpoint files have no lines of the deleted logs.

        The names of a new log's folder and files become durable with its first sync. A power cut before that may
        remove them, and then the next start makes the log again, from the metadata and the journal.
        """
        wanted = wanted or {}
        changes = FolderChanges(self._clock.now_ms(), dict(filter(None, map(self._delete, deleted))), settled, wanted)

        def carried_out(outcome: FolderOutcome | BaseException) -> None:
            if isinstance(outcome, BaseException):
                logger.error("logs could not be made or deleted", exc_info=outcome)
                failure = StorageError(f"{type(outcome).__name__}: {outcome}")
                outcome = FolderOutcome(failed=dict.fromkeys(wanted, failure))
            self._changed(wanted, outcome)
            done(outcome)

        self._folder_worker.run(lambda: self._folders.carry_out(changes), carried_out)

    def _delete(self, topic_partition: TopicPartition) -> tuple[str, str] | None:
        """Remove a partition from ``logs`` or ``unavailable``. Returns its folder and the folder's new name."""
        for offsets in self._checkpointer.kept.values():
            offsets.pop(topic_partition, None)
        log = self.logs.pop(topic_partition, None)
        found = log or self.unavailable.pop(topic_partition, None)
        if found is None:
            return None
        if log is not None:
            log.retire("the topic was deleted")
        name = f"{found.topic_id.hex}-{topic_partition.partition}{DELETED_FOLDER_SUFFIX}"
        return f"{self.path}/{topic_partition}", f"{self.path}/{name}"

    def _forget_deleted(self) -> None:
        """Remove the lines of deleted logs from all checkpoint files. Raises ``OSError``."""
        self._checkpointer.write_offsets()
        self.cleaner_offsets.forget_deleted()

    def _changed(self, wanted: Mapping[TopicPartition, TopicLogs], outcome: FolderOutcome) -> None:
        for topic_partition, log in outcome.made.items():
            self.logs[topic_partition] = log
            self._attach(log, wanted[topic_partition].synced)
        for folder in outcome.renamed:
            self._checkpoint_worker.run(partial(self._disk.remove_folder, folder), _log_failure)

    def tidy(self) -> None:
        """Called periodically: check that the directory exists, retry failed renames, fill the journal's reserve."""
        self._look_for_own_folder()
        if self._journal is not None and not self._is_gone:
            self._journal.reserve()
        if self._folders.has_failed_renames:
            self.change(lambda _: None)

    def _look_for_own_folder(self) -> None:
        """Suspend appends while the directory is missing: open files could be written, but the next start would not
        find them."""
        gone = not self._disk.exists(f"{self.path}/{LOCK_FILE}")
        if gone != self._is_gone:
            self._is_gone = gone
            if gone:
                logger.error("%s is gone: nothing is appended until it is back", self.path)
            else:
                logger.warning("%s is back", self.path)
            for log in self.logs.values():
                if not log.is_truncating:
                    self.resume(log)

    def resume(self, log: PartitionLog) -> None:
        """End the suspension of a log, unless the data directory is missing."""
        log.suspended = f"the data directory {self.path} is gone" if self._is_gone else None

    # Truncation

    def truncate(self, log: PartitionLog, offset: int) -> None:
        """Truncate a log to ``offset`` in the calling thread, waiting for the disk. Raises the error if it fails.

        No group commit and no checkpoint may be using the log. The removed records do not come back after a crash.
        """
        self._truncations.at_once(log, offset)

    def truncate_soon(self, wanted: Mapping[PartitionLog, int], then: Callable[[Failures], None]) -> None:
        """Truncate logs to these offsets on a worker; then call ``then`` with the logs that could not be truncated.

        A log that ends before its offset stays as it is; a log that begins after its offset is emptied and begins
        there. Meanwhile the logs are suspended. The caller must have ended their compaction.
        """
        self._truncations.soon(wanted, then, restart=False)

    def restart_soon(self, wanted: Mapping[PartitionLog, int], then: Callable[[Failures], None]) -> None:
        """Empty logs, so that each begins at its offset. Otherwise like ``truncate_soon``."""
        self._truncations.soon(wanted, then, restart=True)

    def when_unused(self, logs: Iterable[PartitionLog], callback: Callable[[], None]) -> None:
        """Call ``callback`` once no group commit and no checkpoint uses these logs, which are suspended."""
        self._require_committer().when_settled(logs, lambda: self._checkpointer.when_no_checkpoint_runs(callback))

    def write_offsets(self) -> None:
        """Write the checkpoint files with the current offsets of the logs. Raises ``OSError``."""
        self._checkpointer.write_offsets()

    def lower_cleaner_offset(self, log: PartitionLog, end_offset: int) -> bool:
        """See ``CleanerOffsets.lower``."""
        return self.cleaner_offsets.lower(log, end_offset)

    def write_cleaner_offsets(self) -> None:
        """See ``CleanerOffsets.write``."""
        self.cleaner_offsets.write()

    def void(self, offsets: Sequence[tuple[PartitionLog, int]]) -> None:
        """See ``Committer.void``."""
        self._require_committer().void(offsets)

    def journal_failed(self, error: OSError) -> None:
        self._require_committer().journal_failed(error)

    async def persist_log_starts(self) -> None:
        """Write the log start offsets that moved. Called before DeleteRecords is answered, and before a follower
        reports its log start to the leader. Raises ``OSError``."""
        moved = [
            log
            for log in self.logs.values()
            if log.log_start_offset > log.persisted_log_start_offset and log.offline is None
        ]
        if not moved:
            return

        def persist() -> None:
            for log in moved:
                # A log may have been deleted meanwhile, and this worker may have made a new log in its folder.
                if self.logs.get(log.topic_partition) is log:
                    persist_log_start(log)
            self._checkpointer.write_log_starts()

        try:
            await done_by(self._folder_worker, self._loop, persist)
        except OSError as error:
            if error.errno not in NO_ROOM or not self.release_reserve():
                raise
            await done_by(self._folder_worker, self._loop, persist)

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
            await wait_for_callback(self._loop, self._committer.when_idle)
            await wait_for_callback(self._loop, self._checkpointer.close)
        clean = not self._checkpointer.failing
        if self._journal is not None:
            forget = all(log.recovery_point == log.log_end_offset for log in self.logs.values())
            await done_by(self._commit_worker, self._loop, self._journal.forget if forget else _nothing)
            if clean and forget:
                # If this fails and the machine is restarted, the next start assumes that it died: that costs time only.
                with suppress(OSError):
                    await done_by(self._folder_worker, self._loop, self._read_last_run().stopped)
        # The folder worker first: for folders that it has renamed, the checkpoint worker then removes the files.
        await done_by(self._folder_worker, self._loop, _nothing)
        await done_by(self._checkpoint_worker, self._loop, _nothing)
        self._commit_worker.stop()
        self._folder_worker.stop()
        self._checkpoint_worker.stop()
        if self._journal is not None:
            self._journal.close()
        for log in self.logs.values():
            log.close()
        self._release_lock()
        return clean

    def kill(self) -> None:
        """Stop at once, like a process that is killed. Files are closed with the last reference to them."""
        self._checkpointer.killed = self._folders.killed = True
        self._commit_worker.kill()
        self._checkpoint_worker.kill()
        self._folder_worker.kill()
        self._release_lock()

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # Helpers

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


def _nothing() -> None:
    """Work that does nothing: when a worker has done it, all earlier work is done."""
