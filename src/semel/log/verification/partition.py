"""Verification of one partition's folder: its segments in order, and all derived files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from semel.errors import DecodeError
from semel.log.disk import Disk
from semel.log.durability import checkpoints, partition_checkpoint
from semel.log.durability.checkpoints import PARTITION_METADATA_FILE
from semel.log.durability.partition_checkpoint import PARTITION_CHECKPOINT_FILE
from semel.log.segments import segment_checksums
from semel.log.verification.findings import Finding, Report, Severity
from semel.log.verification.indexes import SegmentIndexes
from semel.log.verification.journal import JournalCheck
from semel.log.verification.producers import ReplayedProducers, SeenEpochs
from semel.log.verification.walk import Walk, WalkedBatch, walk
from semel.types import INT64_MAX, TopicPartition, kafka_uuid

_INTERRUPTED: Final = (".deleted", ".cleaned", ".swap", ".tmp")
_OFFLINE: Final = "does not serve the partition and leaves its files as they are"
_SERVED_UP_TO: Final = "serves the partition, and reading fails there"


@dataclass(frozen=True, slots=True)
class ExpectedTopic:
    """What the metadata says about a topic."""

    topic_id: UUID
    is_compacted: bool
    partitions: int


@dataclass(slots=True)
class PartitionCheck:
    """The check of one partition's folder. Nothing is changed."""

    disk: Disk
    folder: str
    partition: TopicPartition
    topic: ExpectedTopic | None
    """``None`` if the metadata could not be read or does not have the topic."""
    is_compacted: bool
    """Whether the log may have been compacted, so that there may be holes between its offsets."""
    recovery_point: int
    log_start: int
    journal: JournalCheck
    deep: bool
    running: bool
    """Whether a broker writes to the folder meanwhile: then only what is below the recovery point is checked."""
    advance: Callable[[int], object] = lambda size_bytes: None
    report: Report = field(default_factory=Report)
    _end_offset: int = 0
    _unsound: Walk | None = None
    _matches_checksums: bool = False
    """Whether a start would not read the unsound segment, because its size agrees with its checksums file."""
    _topic_id: UUID | None = None
    _previous: int | None = None
    """The base offset of the segment that was checked last."""
    _known_start: int | None = None
    _known_epochs: tuple[tuple[int, int], ...] = ()
    _replays: bool = True
    """Whether every batch so far was replayed into the producer state."""

    def run(self) -> Report:
        names = self.disk.list(self.folder)
        self.report.partitions = 1
        self._check_identity(names)
        self._read_checkpoint(names)
        base_offsets = self._base_offsets(names)
        self._check_start(base_offsets)
        self._check_orphans(names, base_offsets)
        if base_offsets:
            self._check_segments(names, base_offsets)
        self._check_end()
        if self.running and any(name.endswith(_INTERRUPTED) for name in {*names, *self.disk.list(self.folder)}):
            # Compaction is just replacing files: the log file may be the new one and its index the old one.
            self.report.findings = [found for found in self.report.findings if found.severity is Severity.LOSS]
        return self.report

    def _found(self, name: str, severity: Severity, problem: str, next_start: str, lost: str | None = None) -> None:
        path = name if name.startswith("/") else f"{self.folder}/{name}"
        self.report.findings.append(Finding(path, severity, problem, next_start, lost, self.partition))

    def _check_identity(self, names: list[str]) -> None:
        if self.running and self.recovery_point == 0:
            return  # The partition may be new, and its files not complete yet.
        path = f"{self.folder}/{PARTITION_METADATA_FILE}"
        self.report.files += PARTITION_METADATA_FILE in names
        try:
            topic_id = checkpoints.read_topic_id(self.disk, path)
        except DecodeError as error:
            problem = str(error).removeprefix(f"{path}: ")
            self._found(PARTITION_METADATA_FILE, Severity.DERIVED, problem, "writes it again from the metadata")
            return
        self._topic_id = topic_id
        if topic_id is None:
            self._found(PARTITION_METADATA_FILE, Severity.DERIVED, "is missing", "writes it again from the metadata")
        elif self.topic is not None and topic_id != self.topic.topic_id:
            self._found(
                PARTITION_METADATA_FILE,
                Severity.LOSS,
                f"it has topic id {kafka_uuid(topic_id)}; the metadata has {kafka_uuid(self.topic.topic_id)}",
                "sets the folder aside, because it is of another topic with this name",
            )
        for name in names:
            if name.endswith(_INTERRUPTED) and not self.running:
                self._found(name, Severity.NOTE, "is left from work that was interrupted", "finishes it or removes it")

    def _read_checkpoint(self, names: list[str]) -> None:
        """Read the partition's own checkpoint. It takes precedence over the lines in the data directory's files."""
        if PARTITION_CHECKPOINT_FILE not in names:
            return
        self.report.files += 1
        try:
            checkpoint = partition_checkpoint.read(self.disk, self.folder)
        except DecodeError as error:
            problem = str(error).removeprefix(f"{self.folder}/{PARTITION_CHECKPOINT_FILE}: ")
            self._found(PARTITION_CHECKPOINT_FILE, Severity.DERIVED, problem, "reads the partition from end to end")
            return
        if checkpoint is None or self.running:
            return
        self._topic_id = self._topic_id or checkpoint.topic_id
        if self.topic is None or checkpoint.topic_id == self.topic.topic_id:
            self.recovery_point = checkpoint.recovery_point
            self.log_start = max(self.log_start, checkpoint.log_start_offset)
            self._known_start = checkpoint.log_start_offset
            self._known_epochs = checkpoint.epochs

    def _check_start(self, base_offsets: list[int]) -> None:
        if self._known_start is not None and base_offsets and base_offsets[0] > self.log_start:
            name = f"{base_offsets[0]:020d}.log"
            problem = f"it is the first segment; the log starts at offset {self.log_start}"
            self._found(name, Severity.LOSS, problem, _OFFLINE, _offsets(self.log_start, base_offsets[0]))

    def _base_offsets(self, names: list[str]) -> list[int]:
        base_offsets = []
        for name in names:
            stem, dot, suffix = name.partition(".")
            if dot and suffix == "log":
                if len(stem) == 20 and stem.isascii() and stem.isdigit():
                    base_offsets.append(int(stem))
                else:
                    self._found(
                        name, Severity.LOSS, "is no name of a segment: it has twenty digits", "does not read it"
                    )
        return base_offsets

    def _check_orphans(self, names: list[str], base_offsets: list[int]) -> None:
        """Check for index files without a log file: the segment is lost, unless retention or compaction was interrupted
        while it removed the segment."""
        stems = {f"{base_offset:020d}" for base_offset in base_offsets}
        for name in names:
            stem, _, suffix = name.partition(".")
            if suffix != "index" or stem in stems or not (stem.isascii() and stem.isdigit()) or self.running:
                continue
            end = min((offset for offset in base_offsets if offset > int(stem)), default=self.recovery_point)
            before = max((offset for offset in base_offsets if offset < int(stem)), default=None)
            if end <= self.log_start or (before is not None and (self._synced_end(before) or 0) > int(stem)):
                self._found(name, Severity.NOTE, "its segment was removed", "removes it")
            else:
                problem = f"{stem}.log is missing, and this index of it is there"
                self._found(name, Severity.LOSS, problem, _OFFLINE, _offsets(int(stem), end))

    def _check_segments(self, names: list[str], base_offsets: list[int]) -> None:
        limit = self.recovery_point if self.running else None
        producers = ReplayedProducers(
            self.disk, self.folder, names, self.partition, base_offsets[0], is_compacted=self.is_compacted
        )
        epochs = SeenEpochs(self.disk, self.folder, self.partition)
        self._end_offset = base_offsets[0]
        for base_offset in base_offsets:
            if limit is not None and base_offset >= limit:
                break
            self._check_chain(base_offset)
            stem = f"{self.folder}/{base_offset:020d}"
            # Above the recovery point a start does not use the index files.
            indexes = SegmentIndexes(self.disk, stem, base_offset, self.partition, self.recovery_point)
            walked = Walk(f"{stem}.log", base_offset)
            already_ended = len(producers.ended)
            for batch in walk(
                self.disk,
                walked.path,
                walked,
                deep=self.deep,
                has_holes=self.is_compacted,
                trusted_until=self.recovery_point,
                until=limit,
            ):
                if batch.header.base_offset < self.recovery_point:
                    indexes.batch(batch)
                if self._has_its_epoch(walked.path, batch):
                    epochs.batch(batch)
                self._replays = self._replays and self.deep and not walked.corrupt
                if self._replays:
                    producers.batch(batch)
            self._replays = self._replays and self.deep and not walked.corrupt and walked.trouble is None
            if self._replays:
                ended = producers.ended[already_ended:]
                ended = [done for done in ended if done.transaction.last_offset < self.recovery_point]
                # Compaction removes the records of aborted transactions, so their first offsets are not known.
                indexes.completed(ended, known_from=INT64_MAX if self.is_compacted else base_offsets[0])
            if base_offset != base_offsets[-1] and walked.end_offset < self.recovery_point:
                indexes.closed()
            if not self.running:
                indexes.check_checksums(walked)
            self._note(walked, indexes, is_closed=base_offset != base_offsets[-1])
            self._previous = base_offset
        self.report.files += producers.files + epochs.exists
        self.report.findings += producers.findings(min(self._end_offset, self.recovery_point) if self._replays else -1)
        self.report.findings += epochs.findings(self.recovery_point)

    def _has_its_epoch(self, path: str, batch: WalkedBatch) -> bool:
        """Whether a batch has the leader epoch that the partition's checkpoint has for its offset. No checksum covers
        the epoch of a batch."""
        header = batch.header
        if not self._known_epochs or not self.log_start <= header.base_offset < self.recovery_point:
            return True
        began = [epoch for epoch, start_offset in self._known_epochs if start_offset <= header.base_offset]
        if not began or began[-1] == header.partition_leader_epoch:
            return True
        self._found(
            path,
            Severity.DERIVED,
            f"position {batch.position}: the batch at offset {header.base_offset} has leader epoch "
            f"{header.partition_leader_epoch}; the partition had {began[-1]} there",
            "serves the batch with that epoch; its records are sound",
        )
        return False

    def _check_chain(self, base_offset: int) -> None:
        if self._unsound is not None or base_offset == self._end_offset:
            return
        name = f"{base_offset:020d}.log"
        self._replays = self._replays and self.is_compacted  # A snapshot may include batches that are missing here.
        if base_offset < self._end_offset:
            problem = f"it begins at offset {base_offset}; the segment before it ends at {self._end_offset}"
            self._found(name, Severity.LOSS, problem, _OFFLINE)
        elif base_offset <= self.recovery_point and not self._may_be_hole(base_offset):
            self._found(
                name,
                Severity.LOSS,
                f"it begins at offset {base_offset}; the segment before it ends at {self._end_offset}",
                _OFFLINE,
                _offsets(self._end_offset, base_offset),
            )

    def _may_be_hole(self, base_offset: int) -> bool:
        """Whether compaction may have removed the records between a segment and the one before it."""
        synced_end = None if self._previous is None else self._synced_end(self._previous)
        return self.is_compacted and synced_end in (None, base_offset)

    def _synced_end(self, base_offset: int) -> int | None:
        return segment_checksums.read_end_offset(self.disk, f"{self.folder}/{base_offset:020d}")

    def _note(self, walked: Walk, indexes: SegmentIndexes, *, is_closed: bool) -> None:
        report = self.report
        report.files += 1 + indexes.files
        report.bytes += walked.size_bytes
        report.batches += walked.batches
        report.records += walked.records
        for corrupt in walked.corrupt:
            self._found(
                walked.path,
                Severity.LOSS,
                f"position {corrupt.position}: {corrupt.problem}",
                "serves the partition, and clients refuse this batch",
                _offsets(corrupt.header.base_offset, corrupt.header.next_offset),
            )
        if walked.trouble is None and not walked.corrupt:
            report.findings += indexes.findings()
        self.advance(walked.size_bytes)
        if self._unsound is None:
            self._end_offset = walked.end_offset
            if walked.trouble is not None:
                self._unsound = walked
                self._matches_checksums = is_closed and indexes.match_checksums
        elif walked.batches:
            self._unsound.resumes_at = self._unsound.resumes_at or walked.end_offset
            self._unsound.last_offset_seen = walked.end_offset - 1

    def _check_end(self) -> None:
        """Check that the log and the journal hold everything up to the recovery point, and up to the last sound batch
        after an unsound one."""
        if self.running and self._unsound is None and self._end_offset >= self.recovery_point:
            return
        topic_id = self._topic_id if self.topic is None else self.topic.topic_id
        key = (topic_id or UUID(int=0), self.partition.partition)
        end = self._end_offset
        reached = self.journal.end_after(key, end)
        walked = self._unsound
        seen = 0 if walked is None or walked.last_offset_seen is None else walked.last_offset_seen + 1
        promised = max(self.recovery_point, seen)
        if walked is not None:
            path, problem = walked.path, f"{walked.trouble}; {walked.size_bytes - walked.position} bytes are not sound"
        else:
            path, problem = self.folder, f"the log ends at offset {end}; it was synced up to {self.recovery_point}"
        if reached >= promised:
            if walked is not None:
                self._found(
                    path, Severity.NOTE, problem, "cuts it there and takes what was acknowledged from the journal"
                )
        else:
            is_served = walked is not None and self._matches_checksums
            self._found(
                path, Severity.LOSS, problem, _SERVED_UP_TO if is_served else _OFFLINE, _offsets(reached, promised)
            )
        gap = self.journal.gap_after(key, end)
        if gap is not None and reached >= promised:
            problem = f"the journal continues at offset {gap}; the log ends at {end}"
            self._found(self.folder, Severity.LOSS, problem, _OFFLINE, _offsets(end, gap))
        if (unreached := self.journal.unreached_after(key, reached)) is not None:
            path, last = unreached
            problem = "an entry is not sound, and sound ones of the same generation follow"
            self._found(path, Severity.LOSS, problem, "does not replay what follows", _offsets(reached, last))
        if self.log_start > max(reached, end) and self.log_start < INT64_MAX:
            problem = f"the log starts at offset {self.log_start} according to its checkpoint, and ends at {reached}"
            self._found(self.folder, Severity.NOTE, problem, "makes it empty and begins there")


def _offsets(first: int, end: int) -> str:
    return f"offset {first}" if end - first == 1 else f"offsets {first} to {end - 1} ({end - first} records at most)"
