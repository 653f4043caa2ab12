"""The offset up to which each log is compacted: ``cleaner-offset-checkpoint``, in Kafka's format.

A number that is too low costs another pass of compaction. One that is too high is never corrected: the records below it
would not be compacted, and a tombstone among them would be removed without the record that it deletes. So the file is
read once, at the start, when a log still has what it had when the offset was written. It is lowered before a log is
truncated. And it has no line of a deleted log when a topic of the same name is created.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Final

from semel.errors import DecodeError
from semel.log.disk import Disk
from semel.log.durability import checkpoints
from semel.log.partition_log import PartitionLog
from semel.types import INT64_MAX, TopicPartition

logger = logging.getLogger(__name__)

CLEANER_OFFSET_FILE: Final = "cleaner-offset-checkpoint"


class CleanerOffsets:
    """The file, and its offsets by log. The loop changes the offsets; any thread may write the file."""

    def __init__(self, path: str, disk: Disk, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        self._path = f"{path}/{CLEANER_OFFSET_FILE}"
        self._disk = disk
        self._logs = logs
        self._offsets: dict[PartitionLog, int] = {}
        self._in_file: dict[TopicPartition, PartitionLog | None] = {}  # None: a partition that is not here
        self._lock = threading.Lock()

    def load(self) -> bool:
        """Read the file, after the logs were opened. Returns whether it has lines of partitions that are not here.

        An offset above the log end is of another log, or of a part that was lost: it is removed from the file, because
        the log may have grown past it at the next start. If the file cannot be read, all logs count as not compacted.
        """
        try:
            stored = checkpoints.read_offsets(self._disk, self._path)
        except (DecodeError, OSError) as error:
            logger.warning("compaction begins at the start of all logs: %s", error)
            stored = {}
        self._in_file = {topic_partition: self._logs.get(topic_partition) for topic_partition in stored}
        self._offsets = {
            log: stored[topic_partition]
            for topic_partition, log in self._logs.items()
            if stored.get(topic_partition, INT64_MAX) <= log.log_end_offset
        }
        if any(log is not None and log not in self._offsets for log in self._in_file.values()):
            try:
                self.write()
            except OSError as error:
                logger.warning("offsets above the ends of their logs stay in %s for now: %s", self._path, error)
        return self._has_stale_lines

    def of(self, log: PartitionLog) -> int:
        return self._offsets.get(log, 0)

    def reached(self, log: PartitionLog, offset: int) -> None:
        """Note that the log is compacted up to this offset. ``write`` writes it."""
        self._offsets[log] = offset

    def lower(self, log: PartitionLog, end_offset: int) -> bool:
        """Note that the log is about to be truncated to this offset. Returns whether it was compacted beyond that: then
        the file must be written before the log is truncated."""
        if self._offsets.get(log, 0) <= end_offset:
            return False
        self._offsets[log] = end_offset
        return True

    def write(self) -> None:
        """Write the file, without lines of deleted logs. Raises ``OSError``."""
        with self._lock:
            self._write()

    def forget_deleted(self) -> None:
        """Remove the lines of deleted logs from the file, if it has any. Raises ``OSError``.

        If another thread is writing the file, with the line of a log that was deleted meanwhile, this waits for it.
        """
        with self._lock:
            if self._has_stale_lines:
                self._write()

    def release_deleted(self) -> None:
        """Drop the references to deleted logs. Called on the loop."""
        for log in [log for log in self._offsets if not self._is_here(log)]:
            del self._offsets[log]

    def _write(self) -> None:
        here = {log: offset for log, offset in list(self._offsets.items()) if self._is_here(log)}
        checkpoints.write_offsets(self._disk, self._path, {log.topic_partition: offset for log, offset in here.items()})
        self._in_file = {log.topic_partition: log for log in here}

    @property
    def _has_stale_lines(self) -> bool:
        return any(log is None or not self._is_here(log) for log in list(self._in_file.values()))

    def _is_here(self, log: PartitionLog) -> bool:
        return self._logs.get(log.topic_partition) is log
