"""Truncations of logs while the broker runs: many at once, by a worker, so that they do not block the event loop.

While a log is truncated, only the worker uses it. It is suspended, so nothing is appended. All appended bytes are
synced, so no group commit uses it. No checkpoint of it runs, and none begins. Compaction and retention skip it.

The order of the steps is the law, since a crash may come after each of them:

    1. the high watermark and the recovery point are lowered in memory      on the loop, before the worker begins
    2. the checkpoint files that have higher offsets are written            the next start neither counts the removed
                                                                            records as committed nor as lost
    3. a VOID entry is written to the journal                               its replay does not restore them
    4. the files are truncated, and synced                                  only then may something else be appended

A failure in steps 1 to 3 leaves the log as it was, and it continues to be served. A failure in step 4 takes the log
offline: it may have lost records that only the journal held. What each crash leaves is in docs/design/log.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
"""The largest number of logs in one job of the worker. Between two jobs the worker does its other work."""

SUSPENDED: Final = "it is being truncated"

Failures: TypeAlias = dict[PartitionLog, Exception]
"""The logs that were not truncated, with the errors."""


@dataclass(frozen=True, slots=True)
class Truncation:
    log: PartitionLog
    offset: int
    restart: bool  # whether the log is emptied and begins at ``offset``
    high_watermark_before: int
    recovery_point_before: int
    log_start_before: int


class TruncationContext(Protocol):
    """What truncations need from the data directory."""

    def write_offsets(self) -> None:
        """Write the three checkpoint files with the current offsets of the logs. On the worker; raises ``OSError``."""

    def lower_cleaner_offset(self, log: PartitionLog, end_offset: int) -> bool:
        """Lower the offset up to which a log is compacted. Returns whether it was higher. On the worker."""

    def write_cleaner_offsets(self) -> None:
        """Write the offsets up to which logs are compacted. On the worker; raises ``OSError``."""

    def void(self, offsets: Sequence[tuple[PartitionLog, int]]) -> None:
        """Write to the journal that its entries of these logs at or above these offsets are void.

        Runs on the worker. Raises ``OSError``; then ``journal_failed`` is called with it on the loop.
        """

    def journal_failed(self, error: OSError) -> None: ...

    def when_unused(self, logs: Iterable[PartitionLog], callback: Callable[[], None]) -> None:
        """Call ``callback`` once no group commit and no checkpoint uses these logs."""

    def resume(self, log: PartitionLog) -> None:
        """End the suspension of a log that was truncated."""


@dataclass(slots=True)
class _Outcome:
    failed: Failures = field(default_factory=dict)  # these logs are unchanged
    broken: Failures = field(default_factory=dict)  # it is not known what the files of these logs hold
    journal_error: OSError | None = None


class Truncations:
    def __init__(
        self, path: str, disk: Disk, worker: Worker, directory: TruncationContext, now_ms: Callable[[], int]
    ) -> None:
        self._path = path
        self._disk = disk
        self._worker = worker
        self._directory = directory
        self._now_ms = now_ms

    def soon(self, wanted: Mapping[PartitionLog, int], then: Callable[[Failures], None], *, restart: bool) -> None:
        """Truncate these logs to these offsets; with ``restart``, empty them and let them begin at these offsets.

        When all are done, ``then`` is called on the loop with the logs that were not truncated.
        """
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

        def logs_unused() -> None:
            for part in parts:
                self._worker.run(partial(self.carry_out, part), partial(finished, part))

        self._directory.when_unused([job.log for job in jobs], logs_unused)

    def at_once(self, log: PartitionLog, offset: int) -> None:
        """Truncate one log in the calling thread. Raises the error if it fails.

        No group commit and no checkpoint may be using the log.
        """
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
        """Do steps 2 to 4 for these logs, on the worker. If one fails, the others are truncated all the same."""
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
            if log.offline is not None:  # It failed, or was deleted, meanwhile.
                outcome.failed[log] = StorageError(f"{log.topic_partition}: {log.offline}")
                continue
            try:
                cut = None if job.restart else find_cut(log, job.offset)
            except (OSError, DecodeError) as error:
                outcome.failed[log] = error
                continue
            if cut is not None and cut.end_offset < log.log_start_offset:
                # Nothing would be left above the log start.
                job, cut = replace(job, offset=log.log_start_offset, restart=True), None
                log.high_watermark, log.recovery_point = min(log.high_watermark, job.offset), 0
            if cut is not None:
                log.high_watermark = min(log.high_watermark, cut.end_offset)
                log.recovery_point = min(log.recovery_point, cut.end_offset)
            planned.append((job, cut))
        return planned

    def _lower(self, planned: Sequence[tuple[Truncation, Cut | None]]) -> None:
        """Step 2: write the checkpoint files, if a log is restarted or has an offset above the cut in these files."""
        logs = [job.log for job, cut in planned if cut is None or self._is_checkpoint_above(job, cut)]
        if logs:
            self._directory.write_offsets()
        ends = [(job.log, 0 if cut is None else cut.end_offset) for job, cut in planned]
        if [log for log, end_offset in ends if self._directory.lower_cleaner_offset(log, end_offset)]:
            self._directory.write_cleaner_offsets()
        for log in logs:
            persist_log_start(log)  # This writes the recovery point, too.

    def _is_checkpoint_above(self, job: Truncation, cut: Cut) -> bool:
        """Whether a checkpoint file has an offset above the cut.

        The recovery point in the partition's own checkpoint may be higher than the one in memory: a checkpoint writes
        that file first, and may then fail to write the files of the data directory.
        """
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
                pass  # The error does not say which log it was, so each is synced by itself.
        for log, cut in cuts:
            try:
                sync_cut(self._disk, log, cut)
            except OSError as error:
                outcome.broken[log] = error


def begin(log: PartitionLog, offset: int, *, restart: bool) -> Truncation | None:
    """Step 1, on the loop: suspend the log and lower its offsets in memory.

    ``None`` if the log has no records to remove; then only leader epochs without a batch are dropped.
    """
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
