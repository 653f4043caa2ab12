"""Verification of a whole data directory: its checkpoints, its journal, and every partition.

If the broker is running, the recovery points are read first and only what is below them is checked, because the files
grow meanwhile. A problem that is found is checked a second time, and is reported only if it is found again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from semel.errors import DecodeError
from semel.log.disk import Disk
from semel.log.durability import checkpoints
from semel.log.durability.checkpoints import HIGH_WATERMARK_FILE, LOG_START_FILE, RECOVERY_POINT_FILE
from semel.log.verification.findings import Finding, Report, Severity
from semel.log.verification.journal import JournalCheck, check_journal
from semel.log.verification.partition import ExpectedTopic, PartitionCheck
from semel.types import TopicPartition

CLEANER_FILE: Final = "cleaner-offset-checkpoint"

_WITHOUT: Final = {
    RECOVERY_POINT_FILE: "reads every log from end to end",
    LOG_START_FILE: "finds the log starts elsewhere, or lets the logs begin with their first segment",
    HIGH_WATERMARK_FILE: "asks the leaders of replicated partitions, and writes it again",
    CLEANER_FILE: "lets compaction begin at the start of each log",
}


def verify_directory(
    disk: Disk,
    folder: str,
    topics: Mapping[str, ExpectedTopic] | None,
    *,
    deep: bool,
    running: bool,
    advance: Callable[[int], object] = lambda size_bytes: None,
) -> Report:
    """Verify a data directory, except for its metadata. ``topics``: the topics in the metadata; ``None`` if it could
    not be read."""
    report = Report()
    offsets = {name: _offsets_in(disk, f"{folder}/{name}", report) for name in _WITHOUT}
    journal = JournalCheck() if running else check_journal(disk, folder)
    report.findings += journal.findings
    report.files += journal.files
    report.bytes += journal.bytes

    def check(partition: TopicPartition, counted: Callable[[int], object]) -> Report:
        expected = None if topics is None else topics.get(partition.topic)
        recovery_points = (
            _offsets_in(disk, f"{folder}/{RECOVERY_POINT_FILE}", Report()) if running else offsets[RECOVERY_POINT_FILE]
        )
        return PartitionCheck(
            disk=disk,
            folder=f"{folder}/{partition}",
            partition=partition,
            topic=expected,
            is_compacted=expected is None or expected.is_compacted or partition in offsets[CLEANER_FILE],
            recovery_point=recovery_points.get(partition, 0),
            log_start=offsets[LOG_START_FILE].get(partition, 0),
            journal=journal,
            deep=deep,
            running=running,
            advance=counted,
        ).run()

    present = partitions_in(disk, folder)
    if present and not running and not disk.exists(f"{folder}/{RECOVERY_POINT_FILE}"):
        problem = "it is missing, which is usual only before the first checkpoint"
        path = f"{folder}/{RECOVERY_POINT_FILE}"
        report.findings.append(Finding(path, Severity.NOTE, problem, _WITHOUT[RECOVERY_POINT_FILE]))
    for partition in present:
        if topics is not None and not running and not _has(topics, partition):
            problem = "the metadata has no such partition"
            report.findings.append(
                Finding(f"{folder}/{partition}", Severity.NOTE, problem, "sets the folder aside", None, partition)
            )
        report.add(_checked_while_files_move(check, partition, advance) if running else check(partition, advance))
    if topics is not None and not running:
        _report_missing(folder, topics, set(present), offsets[RECOVERY_POINT_FILE], journal, report)
    return report


def partitions_in(disk: Disk, folder: str) -> list[TopicPartition]:
    """The partitions that have a folder."""
    found = []
    for name in disk.list(folder):
        topic, dash, number = name.rpartition("-")
        if dash and topic and number.isascii() and number.isdigit():
            try:
                disk.list(f"{folder}/{name}")
            except (NotADirectoryError, FileNotFoundError):
                continue  # A file with such a name; or a topic that is deleted meanwhile.
            found.append(TopicPartition(topic, int(number)))
    return found


def _checked_while_files_move(
    check: Callable[[TopicPartition, Callable[[int], object]], Report],
    partition: TopicPartition,
    advance: Callable[[int], object],
) -> Report:
    known: set[tuple[str, str]] | None = None
    report = Report()
    for counted in (advance, _uncounted, _uncounted):
        try:
            report = check(partition, counted)
        except FileNotFoundError:
            known = None  # A segment was removed or replaced meanwhile: the partition is checked again.
            continue
        found = {(finding.path, finding.problem) for finding in report.findings}
        report.findings = [
            finding for finding in report.findings if known is None or (finding.path, finding.problem) in known
        ]
        if not report.findings:
            return report
        known = found if known is None else known & found
    return report


def _uncounted(size_bytes: int) -> None:
    """Used as ``advance`` when a partition is checked again: its bytes were counted before."""


def _offsets_in(disk: Disk, path: str, report: Report) -> dict[TopicPartition, int]:
    if not disk.exists(path):
        return {}
    report.files += 1
    name = path.rpartition("/")[2]
    try:
        offsets = checkpoints.read_offsets(disk, path)
        if disk.exists(path + checkpoints.CHECKSUM_SUFFIX) and not checkpoints.is_sound(disk, path):
            raise DecodeError("its checksum does not match")
        return offsets
    except DecodeError as error:
        problem = str(error).removeprefix(f"{path}: ")
        report.findings.append(Finding(path, Severity.DERIVED, problem, _WITHOUT[name]))
        return {}


def _has(topics: Mapping[str, ExpectedTopic], partition: TopicPartition) -> bool:
    topic = topics.get(partition.topic)
    return topic is not None and partition.partition < topic.partitions


def _report_missing(
    folder: str,
    topics: Mapping[str, ExpectedTopic],
    present: set[TopicPartition],
    recovery_points: Mapping[TopicPartition, int],
    journal: JournalCheck,
    report: Report,
) -> None:
    for name, topic in topics.items():
        for number in range(topic.partitions):
            partition = TopicPartition(name, number)
            if partition in present:
                continue
            promised = recovery_points.get(partition, 0)
            reached = journal.end_after((topic.topic_id, number), 0)
            is_lost = promised > reached
            report.findings.append(
                Finding(
                    f"{folder}/{partition}",
                    Severity.LOSS if is_lost else Severity.NOTE,
                    "the folder is missing",
                    "does not serve the partition" if is_lost else "makes it again",
                    f"offsets {reached} to {promised - 1}" if is_lost else None,
                    partition,
                )
            )
