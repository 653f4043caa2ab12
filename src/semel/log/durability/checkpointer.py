"""When checkpoints run, and what becomes of them: the state machine between the logs and the worker that syncs.

    idle ── start ──> running ── finished ──> idle            all recovery points moved
                         │  ^                  │
                     start│  │ wanted          │ something was skipped or refused
                         v  │                  v
                      running, wanted       failed ── after a back-off ──> running

- ``running``: at most one checkpoint is on the worker. Nothing waits for it but ``close`` and the journal.
- ``wanted``: it was asked for again meanwhile; another one follows, since the running one does not cover what was
  written after it was prepared.
- ``failed``: some recovery points stay where they were. The disk may have room again later: it is tried again after
  ``RETRY_MS_MIN``, then twice as long, up to ``RETRY_MS_MAX``, for as long as it takes.

The laws: whatever is raised at whatever step, the machine leaves ``running``. A recovery point moves in memory only
after it is in the file. A journal file is released only after a checkpoint that was *prepared after* the switch to the
other file has moved every log, and while no log is offline whose records may be in that file only.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from semel.clock import Clock
from semel.log.disk import Disk
from semel.log.durability import checkpoints
from semel.log.durability.checkpointing import Outcome, carry_out
from semel.log.durability.checkpoints import HIGH_WATERMARK_FILE, LOG_START_FILE, RECOVERY_POINT_FILE
from semel.log.durability.journal import Journal
from semel.log.partition_log import Checkpoint, PartitionLog
from semel.log.worker import Worker
from semel.types import TopicPartition

logger = logging.getLogger(__name__)


# A start reads again what was written since the last checkpoint, so these bound how long it takes.
CHECKPOINT_BYTES: Final = 64 * 1024 * 1024
CHECKPOINT_INTERVAL_MS: Final = 60_000

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
    ) -> None:
        self.named: set[TopicPartition] = set()  # those that the checkpoint files may name
        # What the files said of partitions that could not be opened, by file. They go on saying it: it is the evidence
        # that records are missing.
        self.kept: dict[str, dict[TopicPartition, int]] = {}
        self.journal: Journal | None = None
        self.killed = False
        self._write_lock = (
            threading.Lock()
        )  # The loop writes them too, before it makes a topic of a deleted one's name.
        self._path = path
        self._disk = disk
        self._clock = clock
        self._worker = worker
        self._logs = logs
        self._interval_ms = interval_ms
        self._running: list[Checkpoint] | None = None
        self._covers_other_journal = False  # whether the running one was prepared after the journal had switched
        self._unprepared = 0
        self._wanted = False
        self._closing = False
        self._failures = 0  # in a row
        self._retry_ms = 0.0
        self._due_ms = 0.0
        self._bytes_before = 0
        self._waiting: list[Callable[[], None]] = []
        self._not_held: frozenset[PartitionLog] = frozenset()

    def begin(self, journal: Journal) -> None:
        """The logs are loaded, and this journal is written from now on."""
        self.journal = journal
        self._bytes_before = self._appended_bytes()
        # What these lack, the journal of an earlier process lacks too.
        self._not_held = frozenset(log for log in self._logs.values() if log.offline is not None)

    # Asking for one

    def start_if_due(self) -> None:
        """Called now and then: keeps the part of the log that a start would read again short."""
        now = self._clock.monotonic_ms()
        if self._failures:
            if now >= self._retry_ms:
                self.start()
            return
        written = self._appended_bytes() - self._bytes_before
        if written >= CHECKPOINT_BYTES or (written and now >= self._due_ms):
            self.start()

    def journal_is_full(self) -> None:
        """Called after every group while it is: go on in the other file, and see to it that this one gets free."""
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
        self._covers_other_journal = self.journal is not None and not self.journal.can_switch
        jobs = self._running = self._prepare(self._logs.values())
        offsets = self._offsets()
        try:
            self._worker.run(lambda: self._carry_out(jobs, offsets), self._finished)
        except Exception as error:
            self._finished(error)

    def close(self, done: Callable[[], None]) -> None:
        """One more, which closes the active segments' indexes too; ``done`` is called when none runs any more."""
        self._closing = True
        self._waiting.append(done)
        self.start()

    @property
    def failing(self) -> bool:
        """Whether the last checkpoint left a recovery point where it was."""
        return self._failures > 0

    # Doing it

    def _prepare(self, logs: Iterable[PartitionLog]) -> list[Checkpoint]:
        jobs = []
        self._unprepared = 0
        for log in logs:
            try:
                job = log.prepare_checkpoint(closing=self._closing)
            except Exception:
                # A bug, since nothing here touches the disk. The other logs do not pay for it.
                logger.exception("%s: a checkpoint could not be prepared", log.topic_partition)
                self._unprepared += 1
                continue
            if job is not None:
                jobs.append(job)
        return jobs

    def _carry_out(self, jobs: list[Checkpoint], offsets: _Offsets) -> Outcome:
        """On the worker. A log that fails keeps its old recovery point; the others move."""
        # Of a topic that was deleted meanwhile, neither files nor offsets may reach one that is made under its name.
        outcome = carry_out(self._disk, self._path, [job for job in jobs if self._is_here(job.log)])
        for job in outcome.moved:
            offsets.recovery_points[job.log] = job.offset
        self._write(LOG_START_FILE, offsets.log_starts)
        self._write(HIGH_WATERMARK_FILE, offsets.high_watermarks)
        self._write(RECOVERY_POINT_FILE, offsets.recovery_points)
        return outcome

    def _write(self, name: str, offsets: Mapping[PartitionLog, int]) -> None:
        here = {log.topic_partition: offset for log, offset in offsets.items() if self._is_here(log)}
        write = checkpoints.write_log_starts if name == LOG_START_FILE else checkpoints.write_offsets
        with self._write_lock:
            write(self._disk, f"{self._path}/{name}", {**self.kept.get(name, {}), **here})

    def carry_out_at_once(self, logs: Iterable[PartitionLog]) -> Outcome:
        """While nobody is served: for a start."""
        jobs = self._prepare(logs)
        if not jobs:
            return Outcome()
        outcome = self._carry_out(jobs, self._offsets())
        self._apply(outcome)
        return outcome

    def _finished(self, outcome: Outcome | BaseException) -> None:
        if self.killed:
            return
        jobs, self._running = self._running or [], None
        try:
            if isinstance(outcome, BaseException):
                failure = f"the files beside the logs could not be written: {outcome}"
                if not isinstance(outcome, OSError):
                    logger.error("a checkpoint met an unexpected error", exc_info=outcome)
            else:
                failure = self._apply(outcome)
        except Exception as error:
            logger.exception("a checkpoint could not be applied")
            failure = str(error)
        for job in jobs:
            if job.log.checkpoint_runs:
                job.log.checkpoint_failed()
        if failure:
            self._failed(failure)
        else:
            self._failures = 0
            self._release_journal()
        if self._wanted and (self._closing or not failure):
            self.start()
            return
        self._wanted = False
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done()

    def _apply(self, outcome: Outcome) -> str:
        """Returns why some recovery points stay, or nothing if none does."""
        for job in outcome.moved:
            job.log.checkpointed(job)
            self.named.add(job.log.topic_partition)
        for job, error in outcome.failed:
            job.log.checkpoint_failed()
            if self._is_here(job.log):
                job.log.go_offline(f"sync failed: {error}")
        skipped = [(job.log, error) for job, error in outcome.skipped if self._is_here(job.log)]
        if self._unprepared:
            return f"{self._unprepared} partitions could not be prepared"
        if not skipped:
            return ""
        log, error = skipped[0]
        return f"{len(skipped)} partitions keep their recovery points, the first is {log.topic_partition}: {error}"

    def _failed(self, reason: str) -> None:
        self._failures += 1
        wait_ms = min(RETRY_MS_MIN * 2 ** min(self._failures - 1, 16), RETRY_MS_MAX)
        self._retry_ms = self._clock.monotonic_ms() + wait_ms
        logger.error("a checkpoint of %s failed and is tried again in %d s: %s", self._path, wait_ms // 1000, reason)

    def _release_journal(self) -> None:
        if self.journal is None or self.journal.can_switch or not self._covers_other_journal:
            return
        held = (log for log in self._logs.values() if log.offline is not None and log not in self._not_held)
        # A partition that could not sync its own file has only the journal: then that file must stay.
        if not any(log.needs_journal for log in held):
            self.journal.release()

    # The offsets beside the logs

    def write_recovery_points(self) -> None:
        self._write(RECOVERY_POINT_FILE, self._offsets().recovery_points)

    def write_log_starts(self) -> None:
        self._write(LOG_START_FILE, self._offsets().log_starts)

    def _offsets(self) -> _Offsets:
        logs = self._logs.values()
        return _Offsets(
            recovery_points={log: log.recovery_point for log in logs},
            log_starts={log: log.log_start_offset for log in logs if log.log_start_offset},
            high_watermarks={log: log.high_watermark for log in logs},
        )

    def _appended_bytes(self) -> int:
        return sum(log.appended_bytes for log in self._logs.values())

    def _is_here(self, log: PartitionLog) -> bool:
        return self._logs.get(log.topic_partition) is log


@dataclass(frozen=True, slots=True)
class _Offsets:
    """What the three files say, as of one moment."""

    recovery_points: dict[PartitionLog, int]
    log_starts: dict[PartitionLog, int]
    high_watermarks: dict[PartitionLog, int]
