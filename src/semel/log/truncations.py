"""Truncations of logs while the broker runs: many at once, by a worker, so that they do not hold up the loop.

While it is truncated a log is lent to the worker. It is suspended, so nothing is appended; all that was appended is
synced, so no group holds it; no checkpoint that holds it runs, and none begins; compaction and retention pass it over.

The order of the steps is the law, since a crash may come after each of them:

    1. the high watermark and the recovery point are lowered in memory      on the loop, before the worker begins
    2. the checkpoint files that said more are written                      what goes is neither confirmed nor missed
    3. a VOID in the journal                                                it will not put back what goes
    4. the files are cut, and synced                                        only now may something else be appended

Before step 3 a failure leaves the log as it was, and it is served on. From then on the log goes offline: what the
journal alone held may be lost to it. What each crash leaves is in docs/design/log.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, TypeAlias

from semel.errors import DecodeError, StorageError
from semel.log.disk import Disk
from semel.log.durability import partition_checkpoint
from semel.log.durability.checkpointing import ONE_BY_ONE_MAX, persist_log_start
from semel.log.partition_log import PartitionLog
from semel.log.recovery.truncation import Cut, cut_off, find_cut, restart_at, sync_cut
from semel.log.worker import Worker

logger = logging.getLogger(__name__)

LOGS_PER_JOB: Final = 100
"""How many logs a worker truncates before it does what else has gathered for it."""

SUSPENDED: Final = "it is being truncated"

Failures: TypeAlias = dict[PartitionLog, Exception]
"""The logs that were not truncated, and why."""


@dataclass(frozen=True, slots=True)
class Truncation:
    log: PartitionLog
    offset: int
    restart: bool  # whether all of it goes, and the log begins at the offset
    high_watermark_before: int
    recovery_point_before: int
    log_start_before: int


class Surroundings(Protocol):
    """What the data directory does for truncations."""

    def write_offsets(self) -> None:
        """Write the three checkpoint files, from what the logs say now. On the worker; raises ``OSError``."""

    def void(self, offsets: Sequence[tuple[PartitionLog, int]]) -> None:
        """Write to the journal that entries of these logs at or above these offsets do not count. On the worker;
        raises ``OSError``, with which ``journal_failed`` is then called on the loop."""

    def journal_failed(self, error: OSError) -> None: ...

    def when_at_rest(self, logs: Iterable[PartitionLog], callback: Callable[[], None]) -> None:
        """Call back when no group and no checkpoint holds these logs."""

    def resume(self, log: PartitionLog) -> None:
        """The log may be appended to again."""


@dataclass(slots=True)
class _Outcome:
    failed: Failures = field(default_factory=dict)  # they are as they were
    broken: Failures = field(default_factory=dict)  # it is not known what their files hold
    journal_error: OSError | None = None


class Truncations:
    def __init__(
        self, path: str, disk: Disk, worker: Worker, directory: Surroundings, now_ms: Callable[[], int]
    ) -> None:
        self._path = path
        self._disk = disk
        self._worker = worker
        self._directory = directory
        self._now_ms = now_ms

    def soon(self, wanted: Mapping[PartitionLog, int], then: Callable[[Failures], None], *, restart: bool) -> None:
        """Truncate these logs to these offsets, or begin them anew there. Then ``then`` is called, on the loop."""
        failed: Failures = {}
        jobs: list[Truncation] = []
        for log, offset in wanted.items():
            if log.offline is not None or log.is_truncating:
                failed[log] = StorageError(f"{log.topic_partition}: {log.offline or SUSPENDED}")
            elif (job := begin(log, offset, restart=restart)) is not None:
                jobs.append(job)
        if not jobs:
            then(failed)
            return
        parts = [jobs[first : first + LOGS_PER_JOB] for first in range(0, len(jobs), LOGS_PER_JOB)]
        remaining = len(parts)

        def finished(part: list[Truncation], outcome: _Outcome | BaseException) -> None:
            nonlocal remaining
            remaining -= 1
            failed.update(self._finish(part, outcome))
            if not remaining:
                then(failed)

        def at_rest() -> None:
            for part in parts:
                self._worker.run(partial(self.carry_out, part), partial(finished, part))

        self._directory.when_at_rest([job.log for job in jobs], at_rest)

    def at_once(self, log: PartitionLog, offset: int) -> None:
        """The same for one log that is at rest, by the caller. Raises the failure."""
        job = begin(log, offset, restart=False)
        if job is not None:
            for error in self._finish([job], self.carry_out([job])).values():
                raise error

    def _finish(self, jobs: Sequence[Truncation], outcome: _Outcome | BaseException) -> Failures:
        if isinstance(outcome, BaseException):
            logger.error("%d logs could not be truncated", len(jobs), exc_info=outcome)
            outcome = _Outcome(broken={job.log: StorageError(f"{type(outcome).__name__}: {outcome}") for job in jobs})
        if outcome.journal_error is not None:
            self._directory.journal_failed(outcome.journal_error)
        for job in jobs:
            log = job.log
            log.is_truncating = False
            self._directory.resume(log)
            if log in outcome.failed:
                log.high_watermark, log.log_start_offset = job.high_watermark_before, job.log_start_before
            elif log in outcome.broken:
                log.go_offline(f"truncation failed: {outcome.broken[log]}")
        return {**outcome.failed, **outcome.broken}

    # On the worker

    def carry_out(self, jobs: Sequence[Truncation]) -> _Outcome:
        """A log that fails does not keep the others from being truncated."""
        outcome = _Outcome()
        planned = self._planned(jobs, outcome)
        try:
            self._lower(planned)
        except OSError as error:
            outcome.failed.update((job.log, error) for job, _ in planned)
            return outcome
        try:
            self._directory.void([(job.log, 0 if cut is None else cut.end_offset) for job, cut in planned])
        except OSError as error:
            outcome.failed.update((job.log, error) for job, _ in planned)
            outcome.journal_error = error
            return outcome
        unsynced: list[tuple[PartitionLog, Cut]] = []
        for job, cut in planned:
            try:
                if cut is None:
                    restart_at(self._disk, job.log, job.offset, now_ms=self._now_ms())
                else:
                    cut_off(self._disk, job.log, cut)
                    unsynced.append((job.log, cut))
            except (OSError, DecodeError) as error:
                outcome.broken[job.log] = error
        self._sync(unsynced, outcome)
        return outcome

    def _planned(self, jobs: Sequence[Truncation], outcome: _Outcome) -> list[tuple[Truncation, Cut | None]]:
        planned: list[tuple[Truncation, Cut | None]] = []
        for job in jobs:
            log = job.log
            if log.offline is not None:  # Or deleted, meanwhile.
                outcome.failed[log] = StorageError(f"{log.topic_partition}: {log.offline}")
                continue
            try:
                cut = None if job.restart else find_cut(log, job.offset)
            except (OSError, DecodeError) as error:
                outcome.failed[log] = error
                continue
            if cut is not None:
                log.high_watermark = min(log.high_watermark, cut.end_offset)
                log.recovery_point = min(log.recovery_point, cut.end_offset)
            planned.append((job, cut))
        return planned

    def _lower(self, planned: Sequence[tuple[Truncation, Cut | None]]) -> None:
        """Lower what the checkpoint files say, where it is more than will be left."""
        logs = [job.log for job, cut in planned if cut is None or self._says_more(job, cut)]
        if logs:
            self._directory.write_offsets()
        for log in logs:
            persist_log_start(log)  # And with it the recovery point.

    def _says_more(self, job: Truncation, cut: Cut) -> bool:
        """Whether a checkpoint claims what goes. That of the partition may say more than the log has in memory: after a
        checkpoint that failed in the files beside it."""
        if max(job.high_watermark_before, job.recovery_point_before) > cut.end_offset:
            return True
        try:
            own = partition_checkpoint.read(self._disk, job.log.folder)
        except DecodeError:
            return True
        return own is not None and own.recovery_point > cut.end_offset

    def _sync(self, cuts: Sequence[tuple[PartitionLog, Cut]], outcome: _Outcome) -> None:
        if len(cuts) > ONE_BY_ONE_MAX:
            try:
                self._disk.sync_all(self._path)
                return
            except OSError:
                pass  # Which of them it was is not known: each is asked.
        for log, cut in cuts:
            try:
                sync_cut(self._disk, log, cut)
            except OSError as error:
                outcome.broken[log] = error


def begin(log: PartitionLog, offset: int, *, restart: bool) -> Truncation | None:
    """Step 1, on the loop. ``None`` if there is nothing to cut but epochs that have no batch."""
    restart = restart or offset < log.log_start_offset
    if not restart and offset >= log.log_end_offset:
        log.follow()
        return None
    log.is_truncating = True
    log.suspended = SUSPENDED
    log.sync_unawaited()
    job = Truncation(log, offset, restart, log.high_watermark, log.recovery_point, log.log_start_offset)
    log.high_watermark = min(log.high_watermark, offset)
    log.recovery_point = 0 if restart else min(log.recovery_point, offset)
    if restart:
        log.log_start_offset = min(log.log_start_offset, offset)
    return job
