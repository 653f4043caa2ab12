"""``semel log repair``: repairs a data directory in steps, which are shown before they are carried out.

Without ``--accept-loss`` a step loses nothing: it writes a file again from another one, or removes a file that the next
start makes again from the log. With ``--accept-loss`` damaged data is given up: topics and settings that are no longer
in any metadata file, or the records of a partition from the first damage on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from semel.errors import DecodeError, StorageError
from semel.log.disk import Disk, replace_file
from semel.log.durability import checkpoints, partition_checkpoint
from semel.log.durability.checkpoints import LEADER_EPOCH_FILE, META_PROPERTIES_FILE, PARTITION_METADATA_FILE
from semel.log.recovery.accepted_loss import accept_loss, lower_recovery_point, sound_part
from semel.log.recovery.identity import METADATA_FILES
from semel.log.recovery.last_run import LAST_RUN_FILE
from semel.log.verification.directory import CLEANER_FILE
from semel.log.verification.findings import Finding, Report, Severity
from semel.log.verification.partition import ExpectedTopic
from semel.metadata.verification import restore_metadata
from semel.types import TopicPartition

METADATA: Final = "metadata"

_INDEXES: Final = (".index", ".timeindex", ".txnindex")
_MADE_AGAIN_BY_A_START: Final = (".snapshot", ".checksums", LEADER_EPOCH_FILE, META_PROPERTIES_FILE, LAST_RUN_FILE)


@dataclass(frozen=True, slots=True)
class Step:
    """One repair: a description of what it does, and the function that does it."""

    text: str
    carry_out: Callable[[], object]


def plan(
    disk: Disk, folder: str, report: Report, topics: Mapping[str, ExpectedTopic] | None, accepted: Collection[str]
) -> tuple[list[Step], list[Finding]]:
    """Return the steps that repair the findings, and the findings that no step repairs."""
    steps: list[Step] = []
    left: list[Finding] = []
    planned: set[str] = set()
    lossy = {finding.partition for finding in report.findings if finding.severity is Severity.LOSS} - {None}
    for finding in report.findings:
        if not finding.is_damage or finding.path in planned:
            continue
        partition = finding.partition
        if finding.severity is Severity.LOSS and partition is not None and str(partition) in accepted:
            if str(partition) not in planned:
                planned.add(str(partition))
                steps.append(_cut(disk, folder, partition, None if topics is None else topics.get(partition.topic)))
            continue
        # A partition with lost data is not changed unless the loss is accepted: its files may help to recover the data.
        is_left = partition in lossy and str(partition) not in accepted
        step = None if is_left else _step(disk, folder, finding, topics, accepted)
        if step is None:
            left.append(finding)
        else:
            planned.add(finding.path)
            steps.append(step)
    return steps, left


def _cut(disk: Disk, folder: str, partition: TopicPartition, topic: ExpectedTopic | None) -> Step:
    is_compacted = topic is None or topic.is_compacted or _was_compacted(disk, folder, partition)
    part = sound_part(disk, f"{folder}/{partition}", is_compacted=is_compacted)
    topic_id = None if topic is None else topic.topic_id
    return Step(
        f"cut {partition} at offset {part.end_offset}, and give up everything from there on",
        lambda: accept_loss(disk, folder, partition, topic_id, is_compacted=is_compacted),
    )


def _was_compacted(disk: Disk, folder: str, partition: TopicPartition) -> bool:
    """Whether compaction may have left gaps in the partition, even if the topic has another cleanup policy now."""
    try:
        return partition in checkpoints.read_offsets(disk, f"{folder}/{CLEANER_FILE}")
    except DecodeError:
        return True


def _step(
    disk: Disk, folder: str, finding: Finding, topics: Mapping[str, ExpectedTopic] | None, accepted: Collection[str]
) -> Step | None:
    path, name = finding.path, os.path.basename(finding.path)
    if path in (f"{folder}/{file}" for file in METADATA_FILES):
        if finding.severity is Severity.DERIVED:
            return Step(
                f"make {path} again from the other copy", lambda: restore_metadata(disk, folder, accept_loss=False)
            )
        if METADATA in accepted:
            text = "make both metadata files again from the one that is sound furthest, and give up what is behind that"
            return Step(text, lambda: restore_metadata(disk, folder, accept_loss=True))
        return None
    if finding.severity is not Severity.DERIVED:
        return None
    if name == PARTITION_METADATA_FILE and finding.partition is not None:
        topic = None if topics is None else topics.get(finding.partition.topic)
        if topic is None:
            return None
        data = checkpoints.encode_partition_metadata(topic.topic_id)
        return Step(f"write {path} again from the metadata", lambda: replace_file(disk, path, data))
    if name.endswith(_INDEXES) and finding.partition is not None:
        partition, base_offset = finding.partition, int(name.partition(".")[0])

        def make_again() -> None:
            lower_recovery_point(disk, folder, partition, base_offset)
            _remove(disk, path)

        return Step(f"remove {path}: the next start makes it again from the log", make_again)
    if name == LEADER_EPOCH_FILE and (epochs := _known_epochs(disk, os.path.dirname(path))) is not None:
        text = f"write {path} again from the partition's checkpoint"
        return Step(text, lambda: replace_file(disk, path, checkpoints.encode_leader_epochs(epochs)))
    if name.endswith(_MADE_AGAIN_BY_A_START):
        return Step(f"remove {path}: the next start makes it again", lambda: _remove(disk, path))
    return None


def _known_epochs(disk: Disk, folder: str) -> Sequence[tuple[int, int]] | None:
    try:
        checkpoint = partition_checkpoint.read(disk, folder)
    except DecodeError:
        return None
    return None if checkpoint is None else checkpoint.epochs


def _remove(disk: Disk, path: str) -> None:
    disk.remove(path)
    disk.sync_directory(os.path.dirname(path))


def carry_out(steps: list[Step]) -> Iterator[str]:
    """Carry out the steps one after the other, and yield the text of each when it is done.

    Raises ``StorageError`` for a step that fails.
    """
    for step in steps:
        try:
            step.carry_out()
        except OSError as error:
            raise StorageError(f"could not {step.text}: {error}") from None
        yield step.text


def remedy_for(finding: Finding, folder: str) -> str:
    """Return what an operator can do about a finding that no step repairs."""
    if finding.path in (f"{folder}/{file}" for file in METADATA_FILES):
        return f"restore a copy, or give up what is lost: semel log repair {folder} --accept-loss {METADATA}"
    if finding.path.endswith(".log") and finding.severity is Severity.DERIVED:
        return "restore a copy of the file; its records are sound"
    if finding.severity is Severity.DERIVED:
        return "nothing to do: the next start sees to it"
    if finding.partition is not None:
        return f"restore a copy, or give up what is lost: semel log repair {folder} --accept-loss {finding.partition}"
    return "restore a copy"
