"""The folders of partitions: they are made for a new log, and renamed when a log is deleted.

A file system that is committing its own journal may take 100 ms to change one name. So one worker does this, in
batches, in the order of the requests; during a start the caller does it. The event loop does its part before (it
removes a deleted log from ``LogDirectory.logs``) and after (it puts a new log there).

The law: no log is made in the folder of a deleted log, and no log is made as long as a power cut could undo the rename
of such a folder, or the checkpoint files may have lines of a deleted log. These lines are removed before the rename:
another broker may have made a new topic of that name already, and a start would miss the old records in it.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from semel.log.disk import Disk
from semel.log.partition_log import PartitionLog
from semel.log.recovery.opening import make_log
from semel.log.topic_logs import TopicLogs
from semel.types import TopicPartition

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FolderChanges:
    """One job for the worker: first the renames, then the new logs."""

    now_ms: int
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The folders of deleted logs, and their new names."""
    settled: bool = False
    """Whether the renames must be durable when the job is done."""
    wanted: Mapping[TopicPartition, TopicLogs] = field(default_factory=dict)
    """The logs to be made, with their topics."""


@dataclass(slots=True)
class FolderOutcome:
    made: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    failed: dict[TopicPartition, Exception] = field(default_factory=dict)
    """The logs that could not be made, with the errors; no new files are left of them."""
    renamed: list[str] = field(default_factory=list)
    """The new names of the folders that were renamed; their content can be removed."""
    unsettled: OSError | None = None
    """Why the new names could not be made durable."""


class PartitionFolders:
    def __init__(
        self,
        path: str,
        disk: Disk,
        *,
        producer_id_expiration_ms: int,
        is_here: Callable[[], bool],
        write_checkpoint_files: Callable[[], None],
    ) -> None:
        self.has_unsettled_names = False
        """Whether a power cut may undo the rename of a deleted log's folder."""
        self.has_stale_lines = False
        """Whether the checkpoint files may have lines of a deleted log."""
        self.killed = False
        self._path = path
        self._disk = disk
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._is_here = is_here
        self._write_checkpoint_files = write_checkpoint_files
        self._to_rename: dict[str, str] = {}

    @property
    def has_failed_renames(self) -> bool:
        return bool(self._to_rename)

    def carry_out(self, changes: FolderChanges) -> FolderOutcome:
        """Do one job, on the worker. If one log cannot be made, the others are made all the same."""
        outcome = FolderOutcome()
        if changes.renamed:
            self.has_stale_lines = True
            with suppress(OSError):  # On a full disk the folders are renamed all the same: that makes room.
                self._remove_stale_lines()
        refused = self._rename(changes.renamed, outcome)
        if changes.settled or changes.wanted:
            try:
                self._settle()
            except OSError as error:
                outcome.unsettled = error
        for topic_partition, topic in changes.wanted.items():
            if self.killed:
                break
            refusal = outcome.unsettled or refused.get(f"{self._path}/{topic_partition}")
            if refusal is not None:
                outcome.failed[topic_partition] = refusal
                continue
            try:
                outcome.made[topic_partition] = self._make(topic_partition, topic, changes.now_ms)
            except Exception as error:
                outcome.failed[topic_partition] = error
        return outcome

    def _rename(self, wanted: Mapping[str, str], outcome: FolderOutcome) -> dict[str, OSError]:
        """Rename these folders and those whose rename failed before. Returns the folders that could not be renamed,
        with the errors."""
        self._to_rename.update(wanted)
        refused = {}
        for folder, new_name in list(self._to_rename.items()):
            try:
                with suppress(FileNotFoundError):
                    self._disk.rename(folder, new_name)
            except OSError as error:
                refused[folder] = error
                if folder in wanted:
                    logger.error("%s, of a topic that was deleted, stays for now: %s", folder, error)
            else:
                self.has_unsettled_names = True
                del self._to_rename[folder]
                outcome.renamed.append(new_name)
        return refused

    def _remove_stale_lines(self) -> None:
        if self.has_stale_lines:
            self._write_checkpoint_files()
            self.has_stale_lines = False

    def _settle(self) -> None:
        self._remove_stale_lines()
        if self.has_unsettled_names:
            # A start assigns a folder without a readable topic id to the topic of its name, so the renames must be
            # durable.
            self._disk.sync_directory(self._path)
            self.has_unsettled_names = False

    def _make(self, topic_partition: TopicPartition, topic: TopicLogs, now_ms: int) -> PartitionLog:
        if not self._is_here():
            # Otherwise a directory that was moved away would be created again, and could not be moved back.
            raise FileNotFoundError(errno.ENOENT, "the data directory is gone", self._path)
        return make_log(self._disk, self._path, topic_partition, topic, now_ms, self._producer_id_expiration_ms)
