"""Carrying out checkpoints: everything a log has written so far, onto the disk, before its recovery point moves.

For a few logs each file is synced. For many, the file system is synced as a whole, twice: once for what was written,
once for the names it then gets. So the time does not grow with the number of partitions. If that fails, nobody knows
whose write it was, and each file is asked.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Final

from semel.log.disk import Disk, replace_file, write_file
from semel.log.partition_log import Checkpoint

ONE_BY_ONE_MAX: Final = 8


@dataclass(slots=True)
class Outcome:
    moved: list[Checkpoint] = field(default_factory=list)
    failed: list[tuple[Checkpoint, OSError]] = field(default_factory=list)


def carry_out(disk: Disk, folder: str, jobs: list[Checkpoint]) -> Outcome:
    """On a worker: touches files only. ``folder`` is any on the file system that holds the logs."""
    try:
        if len(jobs) > ONE_BY_ONE_MAX:
            with contextlib.suppress(OSError):
                _all_at_once(disk, folder, jobs)
                return Outcome(moved=list(jobs))
        return _one_by_one(disk, jobs)
    finally:
        for job in jobs:
            for file in job.index_files:
                file.close()


def _all_at_once(disk: Disk, folder: str, jobs: list[Checkpoint]) -> None:
    for job in jobs:
        for path, content in _small_files(job):
            write_file(disk, path + ".tmp", content)
    disk.sync_all(folder)
    for job in jobs:
        for path, _ in _small_files(job):
            disk.rename(path + ".tmp", path)
    disk.sync_all(folder)


def _one_by_one(disk: Disk, jobs: list[Checkpoint]) -> Outcome:
    outcome = Outcome()
    for job in jobs:
        try:
            for file in (*job.segment_files, *job.index_files):
                file.sync()
            if job.new_names is not None:
                job.new_names.sync(disk)
            for path, content in _small_files(job):
                replace_file(disk, path, content)
        except OSError as error:
            outcome.failed.append((job, error))
        else:
            outcome.moved.append(job)
    return outcome


def _small_files(job: Checkpoint) -> list[tuple[str, bytes]]:
    files = [(job.snapshot_path, job.snapshot)]
    if job.epochs is not None:
        files.append((job.epochs_path, job.epochs))
    return files
