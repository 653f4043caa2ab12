"""The check of the metadata's files for ``semel log verify`` and ``repair``: their damage, and the topics in them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from semel.errors import DecodeError, SemelError, StorageError
from semel.log.disk import Disk, replace_file
from semel.log.durability import checkpoints
from semel.log.durability.checkpoints import META_PROPERTIES_FILE
from semel.log.recovery import last_run
from semel.log.recovery.identity import METADATA_FILES, refuse_kafka, trace_of_logs
from semel.log.recovery.last_run import LAST_RUN_FILE
from semel.log.verification.findings import Finding, Report, Severity
from semel.log.verification.partition import ExpectedTopic
from semel.metadata import change_file, copies, paths
from semel.metadata.change_file import Contents
from semel.metadata.image import Topic
from semel.types import INTERNAL_TOPICS

# How often the files are read until they are equal: a running broker may be writing one of them.
_LOOKS_MAX: Final = 5


def verify_metadata(
    disk: Disk, folder: str, *, running: bool = False
) -> tuple[Report, Mapping[str, ExpectedTopic] | None]:
    """Check ``meta.properties``, ``last-run`` and the two files of the store.

    Returns a report, and the topics: ``None`` if neither file can be read, or if the metadata is in ZooKeeper.

    ``running``: a broker may be writing a change at this moment, which is in none, one or both of the files.

    Raises ``StorageError`` for a directory that is not one of Semel's.
    """
    refuse_kafka(disk, folder)
    report = Report()
    contents = _verify_store(disk, folder, report, running)
    _verify_identity(disk, folder, contents, report)
    _verify_last_run(disk, folder, report)
    return report, None if contents is None else {topic.name: _expected(topic) for topic in topics_in(contents)}


def topics_in(contents: Contents) -> list[Topic]:
    prefix = paths.TOPICS + "/"
    return [
        paths.decode_topic(path[len(prefix) :], known.value)
        for path, known in contents.values.items()
        if path.startswith(prefix)
    ]


def restore_metadata(disk: Disk, folder: str, *, accept_loss: bool) -> str | None:
    """Make both files equal to the right one, or, with ``accept_loss``, to the one with the longest sound part.

    Returns what was done, or ``None`` if nothing had to be done. The folder must be locked. A damaged file that is
    replaced is kept beside the new one.
    """
    path = f"{folder}/{METADATA_FILES[0]}"
    found = copies.look(disk, path)
    try:
        right = copies.choose(found)
    except StorageError:
        best = copies.longest_sound(found)
        if not accept_loss or best is None:
            raise
        right = best
    assert right.data is not None, "what was chosen could be read"
    assert right.contents is not None, "what was chosen could be read"
    data = change_file.HEADER + right.data[len(change_file.HEADER) : right.contents.size_bytes]
    replaced = []
    for file in reversed(found):
        if file.data == data:
            continue
        if file.data is not None and not file.is_whole:
            replace_file(disk, f"{file.path}.damaged", file.data)
        replace_file(disk, file.path, data)
        replaced.append(os.path.basename(file.path))
    if not replaced:
        return None
    return f"{' and '.join(reversed(replaced))} made again from {right.path} as of change {right.contents.sequence}"


def _verify_last_run(disk: Disk, folder: str, report: Report) -> None:
    path = f"{folder}/{LAST_RUN_FILE}"
    report.files += disk.exists(path)
    if (problem := last_run.problem_in(disk, folder)) is not None:
        next_start = "takes the machine for one that died: what other brokers have in sync is copied from them"
        report.findings.append(Finding(path, Severity.DERIVED, problem, next_start))


def _shares_its_metadata(disk: Disk, folder: str) -> bool:
    """Whether, by its ``meta.properties``, the directory belongs to a broker in a cluster of several."""
    try:
        properties = checkpoints.read_meta_properties(disk, f"{folder}/{META_PROPERTIES_FILE}")
    except SemelError:
        return False
    return properties is not None and properties.directory_id is not None


def _verify_store(disk: Disk, folder: str, report: Report, running: bool) -> Contents | None:
    path = f"{folder}/{METADATA_FILES[0]}"
    for _ in range(_LOOKS_MAX):
        found = copies.look(disk, path)
        if all(file.is_whole for file in found) and found[0].sequence_seen == found[1].sequence_seen:
            break
    if running and _is_being_written(*found):
        return found[0].contents
    report.files += sum(file.data is not None for file in found)
    report.bytes += sum(len(file.data or b"") for file in found)
    if all(file.is_missing for file in found):
        if _shares_its_metadata(disk, folder):
            return None
        if (trace := trace_of_logs(disk, folder)) is not None:
            problem = f"it is missing, and so is {METADATA_FILES[1]}, but there are logs ({trace})"
            report.findings.append(
                Finding(path, Severity.LOSS, problem, "refuses the directory", "all topics and their settings")
            )
        return None
    contents = found[0].contents
    is_of_one_file = contents is not None and contents.version == change_file.VERSION_OF_ONE_FILE
    if is_of_one_file and found[0].is_whole and found[1].is_missing:
        return contents  # It gets its second file at the next start.
    try:
        right = copies.choose(found)
    except StorageError as error:
        best = copies.longest_sound(found)
        changes = (
            "all topics and settings" if best is None else f"changes after {best.contents and best.contents.sequence}"
        )
        report.findings.append(Finding(path, Severity.LOSS, str(error), "refuses the directory", changes))
        return None if best is None else best.contents
    for file in found:
        ends_early = (
            file.contents is not None
            and right.contents is not None
            and file.contents.sequence < right.contents.sequence
        )
        if file.trouble is not None or ends_early:
            problem = file.trouble or f"ends with change {file.sequence_seen}; {right.path} is further"
            next_start = f"makes it again from {right.path}"
            report.findings.append(Finding(file.path, Severity.DERIVED, f"it {problem}", next_start))
    return right.contents


def _is_being_written(first: copies.Found, second: copies.Found) -> bool:
    """Whether the files differ at most by one change, which a broker is writing to the first file or to the second."""
    if first.contents is None or second.contents is None:
        return False
    written = first.contents.sequence
    if max(first.sequence_seen, second.sequence_seen) > written:
        return False
    in_first = second.is_whole and second.contents.sequence == written
    in_second = first.is_whole and second.contents.sequence in (written, first.contents.sequence_before)
    return in_first or in_second


def _verify_identity(disk: Disk, folder: str, contents: Contents | None, report: Report) -> None:
    path = f"{folder}/{META_PROPERTIES_FILE}"
    cluster = None if contents is None else contents.values.get(paths.CLUSTER_ID)
    again = "makes it again from the metadata" if cluster is not None else "refuses the directory"
    severity = Severity.DERIVED if cluster is not None else Severity.LOSS
    try:
        properties = checkpoints.read_meta_properties(disk, path)
    except DecodeError as error:
        report.findings.append(Finding(path, severity, str(error).removeprefix(f"{path}: "), again))
        return
    except SemelError as error:
        report.findings.append(
            Finding(path, Severity.LOSS, str(error).removeprefix(f"{path}: "), "refuses the directory")
        )
        return
    if properties is None:
        report.findings.append(Finding(path, severity, "it is missing", again))
        return
    report.files += 1
    if cluster is not None and cluster.value.decode() != properties.cluster_id:
        problem = f"it has cluster id {properties.cluster_id}; the metadata has {cluster.value.decode()}"
        report.findings.append(Finding(path, Severity.DERIVED, problem, "refuses the directory"))
    nodes = set() if contents is None else _nodes(contents)
    if nodes and properties.node_id not in nodes:
        problem = f"it has node id {properties.node_id}; the topics are on node {', '.join(map(str, sorted(nodes)))}"
        report.findings.append(Finding(path, Severity.DERIVED, problem, "refuses the directory"))


def _nodes(contents: Contents) -> set[int]:
    return {replica for topic in topics_in(contents) for state in topic.partitions for replica in state.replicas}


def _expected(topic: Topic) -> ExpectedTopic:
    is_compacted = topic.name in INTERNAL_TOPICS or "compact" in topic.configs.get("cleanup.policy", "")
    return ExpectedTopic(topic.id, is_compacted, len(topic.partitions))
