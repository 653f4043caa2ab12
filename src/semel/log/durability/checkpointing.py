"""A checkpoint of one log: all that was written so far is synced, and then its recovery point moves to the log end.

It has three steps. ``prepare_checkpoint`` runs on the loop and does no I/O: it returns what is to be written.
``carry_out`` runs on a worker and only touches files. ``checkpointed`` or ``checkpoint_failed`` runs on the loop again.
Nothing counts as written before ``checkpointed`` is called: after a failure the next checkpoint writes it again.

For a few logs each file is synced. For many, the file system is synced as a whole, twice: once for what was written,
once for the names it then gets. So the time does not grow with the number of partitions. If that fails, it is not known
which write it was, and each file is synced on its own.

Each log has one of three outcomes:

    moved      everything is synced
    skipped    something could not be written or opened: no room, no descriptors, no folder. All of it is derived from
               the log, or is written again, so the next checkpoint tries again; the recovery point stays
    failed     a sync of the log's own records or names failed. A second sync would prove nothing: the log goes offline

A file is open only while it is written, so a checkpoint needs two descriptors, however many logs it has.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from semel.log.disk import NOT_OPENED, Disk, replace_file, write_file
from semel.log.durability import partition_checkpoint
from semel.log.durability.checkpoints import LEADER_EPOCH_FILE, encode_leader_epochs
from semel.log.durability.commit import NewNames
from semel.log.durability.partition_checkpoint import PARTITION_CHECKPOINT_FILE, PartitionCheckpoint
from semel.log.durability.snapshot_files import Snapshot
from semel.log.segments import segment_checksums
from semel.log.segments.segment import IndexWrite, Segment
from semel.log.segments.segment_checksums import CHECKSUMS_SUFFIX

if TYPE_CHECKING:
    from semel.log.partition_log import PartitionLog

ONE_BY_ONE_MAX: Final = 8

_Epochs = tuple[tuple[int, int], ...]  # leader epoch, start offset


@dataclass(slots=True)
class CheckpointState:
    """The state that a log keeps from one checkpoint to the next."""

    log_start_offset: int  # the log start offset in ``partition.checkpoint``
    epochs: _Epochs | None = None  # the epochs in ``leader-epoch-checkpoint``, once this process has written it
    is_running: bool = False  # whether a worker writes files of this log
    # Held to write ``partition.checkpoint``: at checkpoints and for DeleteRecords on workers, and before segments are
    # removed on the loop.
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class Checkpoint:
    """What must be written and synced before the recovery point may move to ``offset``."""

    log: PartitionLog
    offset: int
    segments: list[Segment]
    index_writes: list[IndexWrite]
    snapshots: list[Snapshot]
    outdated_snapshot: (
        int | None
    )  # the offset of the snapshot that is not needed any more when the recovery point moved
    epochs: _Epochs
    epochs_changed: bool
    checksums: list[tuple[str, bytes]]  # path and content, per segment
    new_names: NewNames | None
    truncations: int  # how often the log had been truncated when this was made

    def partition_checkpoint(self) -> bytes:
        """The content of ``partition.checkpoint`` as of now: the log start may have moved since this was prepared."""
        return _encode(self.log, min(self.offset, self.log.log_end_offset), self.epochs)


@dataclass(slots=True)
class Outcome:
    moved: list[Checkpoint] = field(default_factory=list)
    skipped: list[tuple[Checkpoint, OSError]] = field(default_factory=list)
    failed: list[tuple[Checkpoint, OSError]] = field(default_factory=list)
    unwritten: OSError | None = None  # why the directory's checkpoint files could not be written; then no log has moved

    def skip(self, job: Checkpoint, error: OSError) -> None:
        self.skipped.append((job, without_frames(error)))

    def fail(self, job: Checkpoint, error: OSError) -> None:
        self.failed.append((job, without_frames(error)))


def without_frames(error: OSError) -> OSError:
    """The error without its traceback.

    The frames of the traceback refer to this error and to all logs of the checkpoint. Such a reference cycle would keep
    the files of a deleted partition open until the garbage collector finds it.
    """
    return error.with_traceback(None)


# On the loop


def prepare_checkpoint(log: PartitionLog, *, closing: bool = False) -> Checkpoint | None:
    """Return a checkpoint at the log end; ``None`` if the recovery point is there already, or the log is offline or
    being truncated.

    Until ``checkpointed`` or ``checkpoint_failed`` is called, compaction does not rename segments.
    """
    if log.offline is not None or log.is_truncating or log.recovery_point == log.log_end_offset:
        # The epochs may have changed all the same. They are not written for that alone: a start assigns them again.
        return None
    # This includes the segment that ends at the recovery point: it may have been closed since, and that adds index
    # entries.
    segments = log.segments.reaching(log.recovery_point - 1)
    if closing:
        for segment in segments:
            segment.finish()
    log.checkpoints.is_running = True
    ends = [segment.base_offset for segment in segments[1:]] + [log.log_end_offset]
    epochs = tuple(log.epochs.entries)
    previous = log.recovery_point
    return Checkpoint(
        log=log,
        offset=log.log_end_offset,
        segments=segments,
        index_writes=[write for segment in segments for write in segment.index_writes()],
        snapshots=log.snapshots.for_checkpoint(log.log_end_offset, log.producers),
        outdated_snapshot=None if any(segment.base_offset == previous for segment in log.segments) else previous,
        epochs=epochs,
        epochs_changed=epochs != log.checkpoints.epochs,
        checksums=[
            (segment.path(CHECKSUMS_SUFFIX), segment_checksums.encode(segment.checksums(end)))
            for segment, end in zip(segments, ends, strict=True)
        ],
        new_names=log.sync_progress.new_names(),
        truncations=log.truncations,
    )


def checkpointed(checkpoint: Checkpoint) -> None:
    """Apply a checkpoint that was carried out: move the recovery point."""
    log = checkpoint.log
    log.checkpoints.is_running = False
    for segment in checkpoint.segments:
        segment.indexes_written(checkpoint.index_writes)
    log.checkpoints.epochs = checkpoint.epochs
    log.snapshots.written(checkpoint.snapshots)
    if checkpoint.truncations != log.truncations:
        return  # The log was truncated meanwhile: other records, which are not synced, may have these offsets now.
    log.recovery_point = max(log.recovery_point, checkpoint.offset)
    log.own_files_synced(log.recovery_point, checkpoint.new_names)
    for segment in checkpoint.segments:
        if segment is not log.segments.active:
            segment.open_on_demand()


def checkpoint_failed(log: PartitionLog) -> None:
    """Apply a failed checkpoint: the recovery point stays, and the next checkpoint writes everything again."""
    log.checkpoints.is_running = False


def persist_log_start(log: PartitionLog) -> None:
    """Write the log start offset, before records below it are removed or a client is told that they are deleted."""
    with log.checkpoints.lock:
        log_start_offset = log.log_start_offset  # It may move while a worker writes the file.
        replace_file(log.disk, _path(log), _encode(log, log.recovery_point, tuple(log.epochs.entries)))
        log.checkpoints.log_start_offset = log_start_offset


def remove_partition_checkpoint(log: PartitionLog) -> None:
    """Remove ``partition.checkpoint``: the next start then reads the whole log, and requires no record to be there."""
    log.disk.remove(_path(log))
    log.disk.sync_directory(log.folder)


# On a worker


def carry_out(disk: Disk, folder: str, jobs: list[Checkpoint]) -> Outcome:
    """Write and sync the files of these checkpoints. ``folder`` is any folder on the file system of the logs."""
    if len(jobs) > ONE_BY_ONE_MAX:
        with contextlib.suppress(OSError):
            return _all_at_once(disk, folder, jobs)
    return _one_by_one(disk, jobs)


def _all_at_once(disk: Disk, folder: str, jobs: list[Checkpoint]) -> Outcome:
    """Carry out the checkpoints with two syncs of the whole file system. Raises ``OSError`` if one of these fails."""
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
            outcome.skip(job, error)
        else:
            written.append((job, [path for path, _ in small_files], own))
    disk.sync_all(folder)
    for job, paths, own in written:
        try:
            for path in paths:
                disk.rename(path + ".tmp", path)
            _rename_checkpoint(disk, job, own)
        except OSError as error:
            outcome.skip(job, error)
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
            if error.errno in NOT_OPENED:
                outcome.skip(job, error)
            else:
                outcome.fail(job, error)
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
            outcome.skip(job, error)
        else:
            outcome.moved.append(job)
    return outcome


def remove_outdated_snapshots(jobs: Iterable[Checkpoint]) -> None:
    """Remove the snapshots at the recovery points from which these checkpoints have moved, once that is in the files.

    On the worker: while a file system commits its own journal, a removal may take 100 ms.
    """
    for job in jobs:
        if job.outdated_snapshot is not None:
            # A snapshot that could not be removed does no harm, and the next start removes it.
            with contextlib.suppress(OSError):
                job.log.snapshots.remove(job.outdated_snapshot)


def _write_checkpoint(disk: Disk, job: Checkpoint, *, sync: bool = False) -> bytes:
    content = job.partition_checkpoint()
    write_file(disk, _temporary_path(job.log), content, sync=sync)
    return content


def _rename_checkpoint(disk: Disk, job: Checkpoint, content: bytes) -> None:
    """Give the ``partition.checkpoint`` that was written its final name.

    If the log start has moved since then, it is written again: segments may have been removed, so the file must have
    the new log start.
    """
    log = job.log
    with log.checkpoints.lock:
        if job.partition_checkpoint() == content:
            disk.rename(_temporary_path(log), _path(log))
        else:
            replace_file(disk, _path(log), job.partition_checkpoint())


def _small_files(job: Checkpoint) -> list[tuple[str, bytes]]:
    files = [(path, frozen.encode()) for path, frozen in job.snapshots] + job.checksums
    if job.epochs_changed:
        files.append((f"{job.log.folder}/{LEADER_EPOCH_FILE}", encode_leader_epochs(job.epochs)))
    return files


def _encode(log: PartitionLog, recovery_point: int, epochs: _Epochs) -> bytes:
    return partition_checkpoint.encode(PartitionCheckpoint(log.topic_id, recovery_point, log.log_start_offset, epochs))


def _path(log: PartitionLog) -> str:
    return f"{log.folder}/{PARTITION_CHECKPOINT_FILE}"


def _temporary_path(log: PartitionLog) -> str:
    # Not the name that ``replace_file`` uses: the loop may be writing that one at the same time.
    return _path(log) + ".next.tmp"
