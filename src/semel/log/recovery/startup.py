"""One start of a data directory: from the files of the last run to logs that can be served (LogManager's loadLogs).

The order is the law. First every log is opened, and the records that only the journal has are appended to it. Then
losses are recorded (``last_run.py``), before the evidence of them is overwritten. Only when everything that was
recovered is synced in the partitions' own files may the journal, which may have been the only copy, be overwritten.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from semel.errors import DecodeError, StorageError
from semel.log.disk import NO_ROOM, Disk
from semel.log.durability import checkpoints
from semel.log.durability.checkpointer import Checkpointer
from semel.log.durability.checkpoints import HIGH_WATERMARK_FILE, LOG_START_FILE, RECOVERY_POINT_FILE
from semel.log.durability.journal import Entry, Kind, read_entries, write_kept
from semel.log.durability.journal_replay import JournalContent
from semel.log.partition_log import PartitionLog
from semel.log.recovery.last_run import LastRun
from semel.log.recovery.opening import Opening, Unavailable
from semel.log.topic_logs import TopicLogs
from semel.types import TopicPartition

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Started:
    journal_generation: int
    """The generation of the journal that was found; the next journal must have a later one."""
    cut: Collection[TopicPartition]
    """The logs that were truncated to their sound part, because other brokers have the rest."""
    has_unsettled_names: bool
    """Whether checkpoint files may still name partitions that do not exist any more."""


class Startup:
    """One start of a data directory. ``logs`` and ``unavailable`` are empty at first; at the end, every partition of
    ``topics`` is in one of them, except a new one for which the disk had no room."""

    def __init__(
        self,
        path: str,
        *,
        disk: Disk,
        now_ms: int,
        producer_id_expiration_ms: int,
        topics: Mapping[str, TopicLogs],
        logs: dict[TopicPartition, PartitionLog],
        unavailable: dict[TopicPartition, Unavailable],
        checkpointer: Checkpointer,
        last_run: LastRun,
    ) -> None:
        self._path = path
        self._disk = disk
        self._now_ms = now_ms
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._topics = topics
        self._logs = logs
        self._unavailable = unavailable
        self._checkpointer = checkpointer
        self._last_run = last_run

    def run(self) -> Started:
        """Open all logs and make recovered records durable. Raises ``OSError`` or ``StorageError`` if the broker cannot
        start."""
        if self._last_run.is_first:
            # This directory may replace a disk that was lost. Its logs must count as lost after empty ones were made.
            self._last_run.found_lost(
                (topic.topic_id, partition)
                for topic in self._topics.values()
                for partition in topic.replicated.intersection(topic.partitions)
            )
        recovery_points = self._read_recovery_points()
        high_watermarks = checkpoints.read_high_watermarks(self._disk, f"{self._path}/{HIGH_WATERMARK_FILE}")
        log_starts = checkpoints.read_log_starts(self._disk, f"{self._path}/{LOG_START_FILE}")
        generation, entries = read_entries(self._disk, self._path)
        opening = Opening(
            disk=self._disk,
            path=self._path,
            topics=self._topics,
            now_ms=self._now_ms,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            recovery_points=recovery_points,
            log_starts=log_starts,
            high_watermarks=high_watermarks,
            journal=JournalContent(entries),
            logs=self._logs,
            unavailable=self._unavailable,
            suspected=self._last_run.lost,
            found_lost=lambda topic_id, partition: self._last_run.found_lost([(topic_id, partition)]),
        )
        opening.run()
        opening.replay_journal()
        lost = self._find_losses(recovery_points)
        self._checkpointer.kept = {
            name: {partition: offsets[partition] for partition in self._unavailable if partition in offsets}
            for name, offsets in (
                (RECOVERY_POINT_FILE, recovery_points),
                (LOG_START_FILE, log_starts.offsets),
                (HIGH_WATERMARK_FILE, high_watermarks),
            )
        }
        named = {*recovery_points, *log_starts.offsets, *high_watermarks}
        here = {*self._logs, *self._unavailable}
        lowered = any(log.recovery_point < recovery_points.get(name, 0) for name, log in self._logs.items())
        lowered = lowered or bool(opening.lost)
        if named - here or lowered:
            # Either something below a recovery point was unsound: the recovery point must be lowered before it is made
            # again. Or a topic was deleted: its lines must not be taken for those of a new topic with the same name.
            try:
                self._checkpointer.write_recovery_points()
            except OSError as error:
                if error.errno not in NO_ROOM or lowered:
                    raise
        self._keep_journal_of_unavailable(entries)
        self._make_recovered_durable()
        if lost:
            # Other records may get the offsets of the lost ones, and must not be below the old high watermark.
            self._checkpointer.write_high_watermarks()
        self._last_run.started()
        # Such names may still be in the file of the log starts; or in all files, if there was no room.
        return Started(generation, opening.lost, has_unsettled_names=bool(named - here))

    def _read_recovery_points(self) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(self._disk, f"{self._path}/{RECOVERY_POINT_FILE}")
        except DecodeError as error:
            logger.warning("%s; the partitions' own checkpoints are used", error)
            return {}

    def _find_losses(self, recovery_points: Mapping[TopicPartition, int]) -> bool:
        """Record which logs have lost records that this broker may have acknowledged, before the evidence of it is
        overwritten: these logs end below their recovery point or stored high watermark.

        Returns whether such a log was found.
        """
        shorter = [
            (log.topic_id, log.partition)
            for name, log in self._logs.items()
            if log.stored_high_watermark is not None
            and log.log_end_offset < max(log.stored_high_watermark, recovery_points.get(name, 0))
        ]
        self._last_run.found_lost(shorter)
        for log in self._logs.values():
            log.has_lost_acknowledged_records = (log.topic_id, log.partition) in self._last_run.lost
        return bool(shorter)

    def _keep_journal_of_unavailable(self, entries: Sequence[Entry]) -> None:
        """Save the journal entries of partitions that could not be opened: the journal is about to be overwritten."""
        wanted = {(found.topic_id, name.partition) for name, found in self._unavailable.items()}
        kept = [entry for entry in entries if (entry.topic_id, entry.partition) in wanted]
        if all(entry.kind is Kind.DATA for entry in kept):
            # The same entry may be in ``journal.kept`` and in the journal. With a VOID, an entry may be repeated on
            # purpose, so then all are kept.
            kept = list({(*entry[:4], bytes(entry.payload)): entry for entry in kept}.values())
        write_kept(self._disk, self._path, kept)

    def _make_recovered_durable(self) -> None:
        """Sync recovered records before readers see them, for logs that are synced before they are acknowledged.

        On a full disk the records are synced and the recovery points stay, until there is room for a checkpoint. Raises
        ``StorageError`` if records could not be synced: the journal, which may be the only copy, will be overwritten.
        """
        synced = [log for name, log in self._logs.items() if self._topics[name.topic].synced]
        outcome = self._checkpointer.carry_out_at_once(synced)
        for job, error in outcome.skipped:
            if error.errno in NO_ROOM:
                continue
            raise StorageError(
                f"{job.log.topic_partition} could not be brought to rest after the last run: {error}. Nothing is lost; "
                "make room and start again"
            )
        for log in self._logs.values():
            log.recovered()
