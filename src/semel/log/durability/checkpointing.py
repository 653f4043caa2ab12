"""Carrying out checkpoints: everything a log has written so far, onto the disk, before its recovery point moves.

For a few logs each file is synced. For many, the file system is synced as a whole, twice: once for what was written,
once for the names it then gets. So the time does not grow with the number of partitions. If that fails, it is not known
whose write it was, and each file is asked.

Each log has one of three outcomes:

    moved      everything is synced
    skipped    something could not be written or opened: no room, no descriptors, no folder. All of it is derived from
               the log, or is written again, so the next checkpoint tries again; the recovery point stays
    failed     a sync of the log's own records or names failed. It proves nothing to ask again: the log goes offline

A file is open only while it is written, so a checkpoint needs two descriptors, however many logs it has.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Final

from semel.log.disk import NOT_OPENED, Disk, replace_file, write_file
from semel.log.partition_log import Checkpoint

ONE_BY_ONE_MAX: Final = 8


@dataclass(slots=True)
class Outcome:
    moved: list[Checkpoint] = field(default_factory=list)
    skipped: list[tuple[Checkpoint, OSError]] = field(default_factory=list)
    failed: list[tuple[Checkpoint, OSError]] = field(default_factory=list)


def carry_out(disk: Disk, folder: str, jobs: list[Checkpoint]) -> Outcome:
    """On a worker: touches files only. ``folder`` is any on the file system that holds the logs."""
    if len(jobs) > ONE_BY_ONE_MAX:
        with contextlib.suppress(OSError):
            return _all_at_once(disk, folder, jobs)
    return _one_by_one(disk, jobs)


def _all_at_once(disk: Disk, folder: str, jobs: list[Checkpoint]) -> Outcome:
    """Raises ``OSError`` where the file system as a whole could not be synced."""
    outcome = Outcome()
    written: list[tuple[Checkpoint, list[str], bytes]] = []
    for job in jobs:
        try:
            for write in job.index_writes:
                write.carry_out(disk, sync=False)
            small_files = _small_files(job)
            for path, content in small_files:
                write_file(disk, path + ".tmp", content)
            own = _write_checkpoint(disk, job)
        except OSError as error:
            outcome.skipped.append((job, error))
        else:
            written.append((job, [path for path, _ in small_files], own))
    disk.sync_all(folder)
    for job, paths, own in written:
        try:
            for path in paths:
                disk.rename(path + ".tmp", path)
            _rename_checkpoint(disk, job, own)
        except OSError as error:
            outcome.skipped.append((job, error))
        else:
            outcome.moved.append(job)
    disk.sync_all(folder)
    return outcome


def _one_by_one(disk: Disk, jobs: list[Checkpoint]) -> Outcome:
    outcome = Outcome()
    for job in jobs:
        try:
            for segment in job.segments:
                segment.file.sync()
            if job.new_names is not None:
                job.new_names.sync(disk)
        except OSError as error:
            (outcome.skipped if error.errno in NOT_OPENED else outcome.failed).append((job, error))
            continue
        try:
            for write in job.index_writes:
                write.carry_out(disk, sync=True)
            small_files = _small_files(job)
            for path, content in small_files:
                write_file(disk, path + ".tmp", content, sync=True)
            own = _write_checkpoint(disk, job, sync=True)
            for path, _ in small_files:
                disk.rename(path + ".tmp", path)
            _rename_checkpoint(disk, job, own)
            disk.sync_directory(job.log.folder)
        except OSError as error:
            outcome.skipped.append((job, error))
        else:
            outcome.moved.append(job)
    return outcome


def _write_checkpoint(disk: Disk, job: Checkpoint, *, sync: bool = False) -> bytes:
    content = job.partition_checkpoint()
    write_file(disk, _checkpoint_beside(job), content, sync=sync)
    return content


def _rename_checkpoint(disk: Disk, job: Checkpoint, content: bytes) -> None:
    """Unless the log start has moved meanwhile: then the segments before it are gone, and the file says so."""
    log = job.log
    with log.checkpoint_lock:
        if job.partition_checkpoint() == content:
            disk.rename(_checkpoint_beside(job), log.checkpoint_path)
        else:
            replace_file(disk, log.checkpoint_path, job.partition_checkpoint())


def _checkpoint_beside(job: Checkpoint) -> str:
    # Not the name that ``replace_file`` uses: the loop may be writing that one at the same time.
    return job.log.checkpoint_path + ".next.tmp"


def _small_files(job: Checkpoint) -> list[tuple[str, bytes]]:
    files = [(path, frozen.encode()) for path, frozen in job.snapshots] + job.checksums
    if job.epochs is not None:
        files.append((job.epochs_path, job.epochs))
    return files
