"""Opening the partitions of a data directory. A partition that cannot be opened does not affect the others.

The topic id in a folder decides to which topic it belongs. It is there twice: in ``partition.metadata`` (Kafka's file)
and in ``partition.checkpoint`` (ours, with a checksum). If neither can be read, the folder's name decides: the folder
of a deleted topic is renamed, durably, before a topic of the same name is created (``LogDirectory.change``).

The law: nothing that a topic may own is removed. A folder of another topic is renamed to a free name. A partition that
cannot be opened stays exactly as it is, with its lines in the checkpoint files and its entries in the journal, and is
``Unavailable`` until a later start finds it sound. See docs/design/damage.md.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from semel.errors import DecodeError, SemelError
from semel.log.damage import REMEDY, LostRecords
from semel.log.disk import NO_ROOM, Disk, replace_file, write_file
from semel.log.durability import checkpoints, partition_checkpoint
from semel.log.durability.checkpointing import persist_log_start
from semel.log.durability.checkpoints import (
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_FILE,
    LogStarts,
)
from semel.log.durability.journal_replay import JournalContent
from semel.log.durability.partition_checkpoint import PartitionCheckpoint
from semel.log.partition_log import PartitionLog
from semel.log.recovery.loading import load_log
from semel.log.recovery.truncation import restart_at, truncate_where_epochs_go_back
from semel.log.topic_logs import TopicLogs
from semel.types import TopicPartition

logger = logging.getLogger(__name__)

DELETED_FOLDER_SUFFIX: Final = "-delete"
STRAY_FOLDER_SUFFIX: Final = "-stray"

_DELETED_FOLDER: Final = re.compile(r"([0-9a-f]{32})-[0-9]+-delete")


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A partition that should be here and cannot be served."""

    topic_id: UUID
    reason: str


@dataclass(slots=True)
class Opening:
    """The opening of all partitions of a data directory, in one start. It fills ``logs`` and ``unavailable``."""

    disk: Disk
    path: str
    topics: Mapping[str, TopicLogs]
    now_ms: int
    producer_id_expiration_ms: int
    recovery_points: dict[TopicPartition, int]
    log_starts: LogStarts
    high_watermarks: dict[TopicPartition, int]
    journal: JournalContent
    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    unavailable: dict[TopicPartition, Unavailable] = field(default_factory=dict)
    suspected: frozenset[tuple[UUID, int]] = frozenset()
    """The logs that are known to have lost records, by topic id and partition: they are read from end to end."""
    found_lost: Callable[[UUID, int], None] = lambda topic_id, partition: None
    """Called before a log is truncated to its sound part, because other brokers have the rest."""
    lost: list[TopicPartition] = field(default_factory=list)
    """The logs that were truncated to their sound part."""
    _starts: dict[TopicPartition, int] = field(default_factory=dict)
    """The log start offsets that were on disk. They are applied after the journal was replayed."""

    def run(self) -> None:
        """Open every partition of the topics, create missing ones, and rename folders that belong to no topic."""
        for name in self.disk.list(self.path):
            topic_partition = parse_folder_name(name)
            if name.endswith(DELETED_FOLDER_SUFFIX):
                self._remove_deleted(name)
            elif topic_partition is not None:
                self._run_isolated(topic_partition, self._found)
        for topic, described in self.topics.items():
            for partition in described.partitions:
                topic_partition = TopicPartition(topic, partition)
                if topic_partition not in self.logs and topic_partition not in self.unavailable:
                    self._run_isolated(topic_partition, self._missing)

    def replay_journal(self) -> None:
        for topic_partition in list(self.logs):
            self._run_isolated(topic_partition, self._replay)

    def _run_isolated(self, topic_partition: TopicPartition, work: Callable[[TopicPartition], None]) -> None:
        """Open one partition. If it fails, the others are opened all the same."""
        try:
            try:
                work(topic_partition)
            except LostRecords as error:
                topic = self.topics.get(topic_partition.topic)
                if topic is None or topic_partition.partition not in topic.in_sync_elsewhere:
                    raise
                self._open_sound_part(topic_partition, topic, str(error))
        except Exception as error:
            topic = self.topics.get(topic_partition.topic)
            self._forget_log(topic_partition)
            folder = f"{self.path}/{topic_partition}"
            reason = str(error) if isinstance(error, SemelError) else f"{type(error).__name__}: {error}"
            if folder not in reason:
                reason = f"{folder}: {reason}"
            if REMEDY not in reason:
                reason = f"{reason}; {REMEDY}"
            if topic is None:
                logger.error("%s belongs to no topic and stays as it is: %s", folder, reason)
                return
            logger.error("%s is offline: %s", topic_partition, reason)
            self.unavailable[topic_partition] = Unavailable(topic.topic_id, reason)

    def _forget_log(self, topic_partition: TopicPartition) -> None:
        log = self.logs.pop(topic_partition, None)
        if log is not None:
            log.close()

    def _open_sound_part(self, topic_partition: TopicPartition, topic: TopicLogs, reason: str) -> None:
        """Truncate a damaged log to its sound part: other brokers have the rest, and this broker fetches it again.

        Every batch is read. If the log cannot be opened even so, its folder is set aside, and an empty log is made.
        """
        self._forget_log(topic_partition)
        folder = f"{self.path}/{topic_partition}"
        logger.error("%s is read from end to end, and fetches from other brokers what it lost: %s", folder, reason)
        self.found_lost(topic.topic_id, topic_partition.partition)
        self.recovery_points.pop(topic_partition, None)
        if topic_partition in self.lost:  # The second time: the sound part does not reach the journal's entries.
            self.journal.forget(topic.topic_id, topic_partition.partition)
        else:
            self.lost.append(topic_partition)
        if self.disk.exists(folder):
            try:
                self._open(topic_partition, topic, folder, None)
                truncate_where_epochs_go_back(self.disk, self.logs[topic_partition])
                # This writes the recovery point, too: the removed records must not be required by the next start.
                persist_log_start(self.logs[topic_partition])
                return
            except LostRecords:
                self._set_aside(folder, topic.topic_id, topic_partition.partition)
        self._missing(topic_partition)

    # To which topic a folder belongs

    def _found(self, topic_partition: TopicPartition) -> None:
        folder = f"{self.path}/{topic_partition}"
        topic = self.topics.get(topic_partition.topic)
        checkpoint = self._checkpoint_in(folder)
        topic_id = self._topic_id_in(folder, topic, checkpoint)
        if topic_id is None:
            logger.warning("%s belongs to no topic, and does not say to which it belonged; it stays as it is", folder)
        elif topic is None or topic_id != topic.topic_id:
            if topic is not None:
                self._forget_offsets(topic_partition)
            self._set_aside(folder, topic_id, topic_partition.partition)
        else:
            if checkpoint is not None and checkpoint.topic_id != topic_id:
                checkpoint = None
            partition = topic_partition.partition
            if (topic_id, partition) in self.suspected and partition in topic.in_sync_elsewhere:
                self._open_sound_part(topic_partition, topic, "the last run has found it damaged")
            else:
                self._open(topic_partition, topic, folder, checkpoint)

    def _topic_id_in(self, folder: str, topic: TopicLogs | None, checkpoint: PartitionCheckpoint | None) -> UUID | None:
        path = f"{folder}/{PARTITION_METADATA_FILE}"
        try:
            topic_id, problem = checkpoints.read_topic_id(self.disk, path), "is missing"
        except DecodeError as error:
            topic_id, problem = None, f"cannot be read ({error})"
        if topic_id is not None:
            return topic_id
        if checkpoint is not None:
            topic_id = checkpoint.topic_id
        elif topic is not None:
            topic_id = topic.topic_id
        if topic is not None and topic_id == topic.topic_id:
            # Usual after a power cut: the partition was made, and its names were not synced yet.
            logger.warning("%s %s; it is written again, for topic id %s", path, problem, topic_id)
            replace_file(self.disk, path, checkpoints.encode_partition_metadata(topic_id))
        return topic_id

    def _checkpoint_in(self, folder: str) -> PartitionCheckpoint | None:
        try:
            return partition_checkpoint.read(self.disk, folder)
        except DecodeError as error:
            logger.warning("%s; the partition is read from end to end instead", error)
            return None

    def _forget_offsets(self, topic_partition: TopicPartition) -> None:
        """Remove the lines of a former topic from the checkpoint files, before its folder is renamed.

        Other brokers have deleted the topic and created a new one with its name. Records of the old topic must not be
        required of the new one.
        """
        for name, offsets, write in (
            (RECOVERY_POINT_FILE, self.recovery_points, checkpoints.write_offsets),
            (LOG_START_FILE, self.log_starts.offsets, checkpoints.write_log_starts),
            (HIGH_WATERMARK_FILE, self.high_watermarks, checkpoints.write_high_watermarks),
        ):
            if offsets.pop(topic_partition, None) is not None:
                write(self.disk, f"{self.path}/{name}", offsets)

    def _set_aside(self, folder: str, topic_id: UUID, partition: int) -> None:
        stray = f"{self.path}/{topic_id.hex}-{partition}{STRAY_FOLDER_SUFFIX}"
        number = 1
        while self.disk.exists(stray):
            number += 1
            stray = f"{self.path}/{topic_id.hex}-{partition}.{number}{STRAY_FOLDER_SUFFIX}"
        logger.warning("%s belongs to no topic (its id is %s) and is set aside as %s", folder, topic_id, stray)
        self.disk.rename(folder, stray)
        self.disk.sync_directory(self.path)

    def _remove_deleted(self, name: str) -> None:
        """Remove a folder that this program has renamed for deletion, if no topic has its id."""
        matched = _DELETED_FOLDER.fullmatch(name)
        ids = {topic.topic_id for topic in self.topics.values()}
        if matched is None or UUID(hex=matched[1]) in ids:
            logger.warning("%s/%s is not a folder of a deleted topic; it stays as it is", self.path, name)
            return
        try:
            self.disk.remove_folder(f"{self.path}/{name}")
        except OSError as error:
            logger.error("%s/%s, of a deleted topic, could not be removed: %s", self.path, name, error)

    # The log in a folder

    def _open(
        self, topic_partition: TopicPartition, topic: TopicLogs, folder: str, checkpoint: PartitionCheckpoint | None
    ) -> None:
        recovery_point = self.recovery_points.get(topic_partition, 0)
        own_start = None if checkpoint is None else checkpoint.log_start_offset
        start = self._starts[topic_partition] = self.log_starts.of(topic_partition, own_start)
        log = self.logs[topic_partition] = load_log(
            self.disk,
            folder,
            topic_partition=topic_partition,
            topic_id=topic.topic_id,
            config=topic.config,
            log_start_offset=start,
            now_ms=self.now_ms,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            required_end=recovery_point if checkpoint is None else None,
            checkpoint=checkpoint,
            journal_end=lambda offset: self.journal.end_after(topic.topic_id, topic_partition.partition, offset),
            stored_high_watermark=(
                self.high_watermarks.get(topic_partition, 0) if topic_partition.partition in topic.replicated else None
            ),
        )
        # The process before this one may have been killed between making a name and syncing it.
        if log.recovery_point > log.segments.first.base_offset:
            log.sync_progress.named(folders=(folder,))
        else:
            log.sync_progress.named(files=(f"{folder}/{PARTITION_METADATA_FILE}",), folders=(folder, self.path))

    def _missing(self, topic_partition: TopicPartition) -> None:
        """Make the log of a partition that has no folder. Raises ``LostRecords`` if the disk has lost the folder.

        Otherwise nothing of it was synced, and the journal holds everything.
        """
        topic = self.topics[topic_partition.topic]
        start = self.log_starts.of(topic_partition, None)
        recovery_point = self.recovery_points.get(topic_partition, 0)
        held = self.journal.end_after(topic.topic_id, topic_partition.partition, start)
        if recovery_point > max(start, held):
            raise LostRecords(f"{self.path}/{topic_partition}", held, recovery_point)
        try:
            self.logs[topic_partition] = make_log(
                self.disk, self.path, topic_partition, topic, self.now_ms, self.producer_id_expiration_ms
            )
        except OSError as error:
            if error.errno in NO_ROOM and held == 0:
                return  # The log would be empty. It is made later, like the log of a new topic, when there is room.
            raise
        self._starts[topic_partition] = start

    def _replay(self, topic_partition: TopicPartition) -> None:
        log = self.logs[topic_partition]
        self.journal.replay(log, now_ms=self.now_ms)
        offset = self._starts.get(log.topic_partition, 0)
        if offset <= log.log_start_offset:
            return
        # Only now is it known where the log really ends.
        if offset <= log.log_end_offset:
            log.advance_log_start(offset)
        else:
            logger.warning("%r ends before its start at %d: it is emptied and starts there", log, offset)
            restart_at(self.disk, log, offset, now_ms=self.now_ms)


def make_log(
    disk: Disk,
    path: str,
    topic_partition: TopicPartition,
    topic: TopicLogs,
    now_ms: int,
    producer_id_expiration_ms: int,
) -> PartitionLog:
    """Create an empty log. Raises ``OSError``; then no new files are left."""
    folder = f"{path}/{topic_partition}"
    existed = disk.exists(folder)
    metadata_path = f"{folder}/{PARTITION_METADATA_FILE}"
    try:
        disk.make_folder(folder)
        write_file(disk, metadata_path, checkpoints.encode_partition_metadata(topic.topic_id))
        log = load_log(
            disk,
            folder,
            topic_partition=topic_partition,
            topic_id=topic.topic_id,
            config=topic.config,
            now_ms=now_ms,
            producer_id_expiration_ms=producer_id_expiration_ms,
            stored_high_watermark=0 if topic_partition.partition in topic.replicated else None,
        )
    except OSError:
        if not existed:
            with contextlib.suppress(OSError):
                disk.remove_folder(folder)
        raise
    log.sync_progress.named(files=(metadata_path,), folders=(folder, path))
    return log


def parse_folder_name(name: str) -> TopicPartition | None:
    topic, dash, number = name.rpartition("-")
    return TopicPartition(topic, int(number)) if dash and topic and number.isascii() and number.isdigit() else None
