"""The checkpointer: when checkpoints run, and what happens when one fails. A state machine between the logs and a
worker.

    idle ── start ──> running ── finished ──> idle            all recovery points moved
                         │  ^                  │
                     start│  │ wanted          │ something was skipped or refused
                         v  │                  v
                      running, wanted       failed ── after a back-off ──> running

- ``running``: one checkpoint, never two, is on the worker. Only ``close`` and the journal wait for it.
- ``wanted``: another checkpoint was asked for meanwhile. It follows, because the running one does not cover what was
  written after it was prepared.
- ``failed``: some recovery points did not move. The disk may have room again later, so it is tried again after
  ``RETRY_MS_MIN``, then after twice as long, up to ``RETRY_MS_MAX``, without end.

The laws: the machine leaves ``running`` whatever exception is raised. A recovery point moves in memory only after it is
in the file. A journal file is released only after a checkpoint that was *prepared after* the switch to the other file
has moved every log, none of which was being truncated at that moment, and only while no log is offline whose records
may be in that file only.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from semel.clock import Clock
from semel.log.disk import NO_ROOM, Disk
from semel.log.durability import checkpoints
from semel.log.durability.checkpointing import (
    Checkpoint,
    Outcome,
    carry_out,
    checkpoint_failed,
    checkpointed,
    prepare_checkpoint,
    remove_outdated_snapshots,
    without_frames,
)
from semel.log.durability.checkpoints import HIGH_WATERMARK_FILE, LOG_START_FILE, RECOVERY_POINT_FILE
from semel.log.durability.journal import Journal
from semel.log.partition_log import PartitionLog
from semel.log.worker import Worker
from semel.types import TopicPartition

logger = logging.getLogger(__name__)


# A start reads again what was written since the last checkpoint, so these bound how long it takes.
CHECKPOINT_BYTES: Final = 64 * 1024 * 1024
CHECKPOINT_INTERVAL_MS: Final = 60_000

HIGH_WATERMARK_INTERVAL_MS: Final = 5_000
"""How often the high watermarks of replicated partitions are written between checkpoints, as in Kafka."""

RETRY_MS_MIN: Final = 1_000
RETRY_MS_MAX: Final = 30_000


class Checkpointer:
    def __init__(
        self,
        path: str,
        *,
        disk: Disk,
        clock: Clock,
        worker: Worker,
        logs: Mapping[TopicPartition, PartitionLog],
        interval_ms: int = CHECKPOINT_INTERVAL_MS,
        refused: Callable[[object, OSError], None],
    ) -> None:
        # By file, the offsets of partitions that could not be opened. They stay in the files as evidence that records
        # are missing.
        self.kept: dict[str, dict[TopicPartition, int]] = {}
        self.journal: Journal | None = None
        self.killed = False
        # The files are written by three threads: at checkpoints, before a topic is created under the name of a deleted
        # one (``partition_folders.py``), and before DeleteRecords is answered.
        self._write_lock = threading.Lock()
        self._path = path
        self._disk = disk
        self._clock = clock
        self._worker = worker
        self._logs = logs
        self._interval_ms = interval_ms
        self._refused = refused  # called in place of a log line if there was no room
        self._running: list[Checkpoint] | None = None
        # Whether the running checkpoint was prepared after the journal had switched, and has all logs.
        self._covers_other_journal = False
        self._unprepared = 0
        self._wanted = False
        self._closing = False
        self._failures = 0  # in a row
        self._retry_ms = 0.0
        self._due_ms = 0.0
        self._high_watermarks_due_ms = 0.0
        self._high_watermarks_before = 0  # the sum of all high watermarks when they were last written
        self._bytes_before = 0
        self._waiting: list[Callable[[], None]] = []
        self._after_this: list[Callable[[], None]] = []
        self._not_held: frozenset[PartitionLog] = frozenset()

    def begin(self, journal: Journal) -> None:
        """Begin, after the logs were loaded. Commits go to this journal from now on."""
        self.journal = journal
        self._bytes_before = self._appended_bytes()
        self._due_ms = self._clock.monotonic_ms() + self._interval_ms
        # This process writes no records of these logs to the journal.
        self._not_held = frozenset(log for log in self._logs.values() if log.offline is not None)

    # When a checkpoint runs

    def start_if_due(self) -> None:
        """Called periodically: start a checkpoint if one is due. So the part of a log that the next start has to read
        is limited."""
        now = self._clock.monotonic_ms()
        if self._failures:
            if now >= self._retry_ms:
                self.start()
            return
        written = self._appended_bytes() - self._bytes_before
        if written >= CHECKPOINT_BYTES or (written and now >= self._due_ms):
            self.start()
        elif now >= self._high_watermarks_due_ms and self._running is None:
            self._high_watermarks_due_ms = now + HIGH_WATERMARK_INTERVAL_MS
            self._write_moved_high_watermarks()

    def _write_moved_high_watermarks(self) -> None:
        """Write the high watermarks if one has moved. A failed write is not repeated before the next interval: a stored
        high watermark that is too low only costs the leader a moment after a start."""
        moved_to = sum([log.high_watermark for log in self._logs.values() if log.is_replicated])
        if moved_to == self._high_watermarks_before:
            return
        self._high_watermarks_before = moved_to

        def written(outcome: object) -> None:
            if isinstance(outcome, OSError) and outcome.errno in NO_ROOM:
                self._refused("the high watermarks", outcome)
            elif isinstance(outcome, BaseException):
                logger.error("the high watermarks in %s could not be written: %s", self._path, outcome)

        self._worker.run(self.write_high_watermarks, written)

    def journal_is_full(self) -> None:
        """Called after every group commit while the journal is full: use the other file, and checkpoint to free this
        one."""
        if self.journal is not None and self.journal.is_full and self.journal.can_switch:
            self.journal.switch()
        if self._running is not None or not self._failures or self._clock.monotonic_ms() >= self._retry_ms:
            self.start()

    def start(self) -> None:
        """Move all recovery points to the log ends, in the background."""
        if self._running is not None:
            self._wanted = True
            return
        self._wanted = False
        self._bytes_before = self._appended_bytes()
        self._due_ms = self._clock.monotonic_ms() + self._interval_ms
        # A log that is being truncated is not part of this checkpoint, and what it keeps may be in the journal only.
        is_complete = not any(log.is_truncating for log in self._logs.values())
        self._covers_other_journal = self.journal is not None and not self.journal.can_switch and is_complete
        jobs = self._running = self._prepare(self._logs.values())
        offsets = self._offsets()
        try:
            self._worker.run(lambda: self._carry_out(jobs, offsets), self._finished)
        except Exception as error:
            self._finished(error)

    def close(self, done: Callable[[], None]) -> None:
        """Run a last checkpoint, which also closes the active segments' indexes. ``done`` is called when none runs."""
        self._closing = True
        self._waiting.append(done)
        self.start()

    def when_no_checkpoint_runs(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once the checkpoint that runs now is over. Another one may follow it."""
        if self._running is None:
            callback()
        else:
            self._after_this.append(callback)

    @property
    def failing(self) -> bool:
        """Whether the last checkpoint failed to move a recovery point."""
        return self._failures > 0

    # How a checkpoint runs

    def _prepare(self, logs: Iterable[PartitionLog]) -> list[Checkpoint]:
        jobs = []
        self._unprepared = 0
        for log in logs:
            try:
                job = prepare_checkpoint(log, closing=self._closing)
            except Exception:
                # A bug, since this does no I/O. The other logs are checkpointed.
                logger.exception("%s: a checkpoint could not be prepared", log.topic_partition)
                self._unprepared += 1
                continue
            if job is not None:
                jobs.append(job)
        return jobs

    def _carry_out(self, jobs: list[Checkpoint], offsets: _Offsets) -> Outcome:
        """Carry out these checkpoints and write the directory's checkpoint files, on the worker.

        A log that fails keeps its old recovery point; the others move.
        """
        # The log of a topic that was deleted meanwhile must not write files of a new topic with the same name.
        outcome = carry_out(self._disk, self._path, [job for job in jobs if self._is_here(job.log)])
        for job in outcome.moved:
            offsets.recovery_points[job.log] = job.offset
        try:
            self._write(LOG_START_FILE, offsets.log_starts)
            self.write_high_watermarks()
            self._write(RECOVERY_POINT_FILE, offsets.recovery_points)
        except OSError as error:
            # The failed syncs stay in the outcome. The logs that were synced keep their recovery points.
            for job in outcome.moved:
                outcome.skip(job, error)
            outcome.moved.clear()
            outcome.unwritten = without_frames(error)
        remove_outdated_snapshots(job for job in outcome.moved if self._is_here(job.log))
        return outcome

    def _write(self, name: str, offsets: Mapping[PartitionLog, int]) -> None:
        with self._write_lock:
            # Selected under the lock: otherwise a log that another thread has just removed from the file would be
            # written into it again.
            here = {log.topic_partition: offset for log, offset in offsets.items() if self._is_here(log)}
            _WRITERS[name](self._disk, f"{self._path}/{name}", {**self.kept.get(name, {}), **here})

    def carry_out_at_once(self, logs: Iterable[PartitionLog]) -> Outcome:
        """Checkpoint these logs in the calling thread, at a start, before requests are served."""
        jobs = self._prepare(logs)
        if not jobs:
            return Outcome()
        outcome = self._carry_out(jobs, self._offsets())
        failure = self._apply(outcome)
        for job, _ in outcome.skipped:
            checkpoint_failed(job.log)
        if failure is not None:
            self._failed(failure)
        return outcome

    def _finished(self, outcome: Outcome | BaseException) -> None:
        if self.killed:
            return
        jobs, self._running = self._running or [], None
        try:
            if isinstance(outcome, BaseException):
                failure: _Failure | None = _Failure("it met an unexpected error", outcome)
            else:
                failure = self._apply(outcome)
        except Exception as error:
            failure = _Failure("it could not be applied", error)
        for job in jobs:
            if job.log.checkpoints.is_running:
                checkpoint_failed(job.log)
        if failure is not None:
            self._failed(failure)
        else:
            self._failures = 0
            self._release_journal()
        after_this, self._after_this = self._after_this, []
        for callback in after_this:
            callback()
        if self._wanted and (self._closing or failure is None):
            self.start()
            return
        self._wanted = False
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done()

    def _apply(self, outcome: Outcome) -> _Failure | None:
        """Apply the outcome. Returns why some recovery points did not move; ``None`` if all of them moved."""
        for job in outcome.moved:
            checkpointed(job)
        for job, error in outcome.failed:
            checkpoint_failed(job.log)
            if self._is_here(job.log):
                job.log.go_offline(f"sync failed: {error}")
        skipped = [(job.log, error) for job, error in outcome.skipped if self._is_here(job.log)]
        if self._unprepared:
            return _Failure(f"{self._unprepared} partitions could not be prepared", None)
        if outcome.unwritten is not None:
            return _Failure("the files beside the logs could not be written", outcome.unwritten)
        if not skipped:
            return None
        log, error = skipped[0]
        return _Failure(
            f"{len(skipped)} partitions keep their recovery points, the first is {log.topic_partition}", error
        )

    def _failed(self, failure: _Failure) -> None:
        self._failures += 1
        wait_ms = min(RETRY_MS_MIN * 2 ** min(self._failures - 1, 16), RETRY_MS_MAX)
        self._retry_ms = self._clock.monotonic_ms() + wait_ms
        reason, error = failure
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            self._refused("the checkpoint files", error)
            return
        logger.error(
            "a checkpoint of %s failed and is tried again in %d s: %s%s",
            self._path,
            wait_ms // 1000,
            reason,
            "" if error is None else f": {error}",
            exc_info=None if error is None or isinstance(error, OSError) else error,
        )

    def _release_journal(self) -> None:
        if self.journal is None or self.journal.can_switch or not self._covers_other_journal:
            return
        held = (log for log in self._logs.values() if log.offline is not None and log not in self._not_held)
        # The records of a partition that could not sync its own file are in the journal only: its file must stay.
        if not any(log.needs_journal for log in held):
            self.journal.release()

    # The checkpoint files of the data directory

    def write_recovery_points(self) -> None:
        self._write(RECOVERY_POINT_FILE, self._offsets().recovery_points)

    def write_log_starts(self) -> None:
        self._write(LOG_START_FILE, self._offsets().log_starts)

    def write_high_watermarks(self) -> None:
        """Write the current high watermarks. May run on any thread.

        Values from an earlier moment must not be written: a log that is truncated has lowered its high watermark, and
        the old value would be in the file again.
        """
        name = HIGH_WATERMARK_FILE
        with self._write_lock:
            here = {topic_partition: log.high_watermark for topic_partition, log in list(self._logs.items())}
            _WRITERS[name](self._disk, f"{self._path}/{name}", {**self.kept.get(name, {}), **here})

    def write_offsets(self) -> None:
        """Write all three checkpoint files. They then have no lines of deleted logs."""
        self.write_recovery_points()
        self.write_log_starts()
        self.write_high_watermarks()

    def _offsets(self) -> _Offsets:
        logs = list(self._logs.values())  # A copy, which the loop does not change while a worker reads it.
        return _Offsets(
            recovery_points={log: log.recovery_point for log in logs},
            log_starts={log: log.log_start_offset for log in logs if log.log_start_offset},
        )

    def _appended_bytes(self) -> int:
        return sum(log.appended_bytes for log in self._logs.values())

    def _is_here(self, log: PartitionLog) -> bool:
        return self._logs.get(log.topic_partition) is log


_WRITERS: Final[Mapping[str, Callable[[Disk, str, Mapping[TopicPartition, int]], None]]] = {
    RECOVERY_POINT_FILE: checkpoints.write_offsets,
    LOG_START_FILE: checkpoints.write_log_starts,
    HIGH_WATERMARK_FILE: checkpoints.write_high_watermarks,
}


class _Failure(NamedTuple):
    """Why a checkpoint did not move some recovery points."""

    reason: str
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class _Offsets:
    """The content of two of the checkpoint files, taken at one moment."""

    recovery_points: dict[PartitionLog, int]
    log_starts: dict[PartitionLog, int]
