"""``semel log repair --accept-loss``: a damaged partition is truncated to its sound part.

The law: everything before the first unsound batch stays, byte for byte, and no other file refers to more than that. The
log is truncated and synced before the recovery point is lowered, so a repair that was interrupted can be repeated and
keeps as much. In a cluster, ``last-run`` names the partition before that: the broker must leave its in-sync set, or the
other replicas would be truncated to this one. It is only for a directory whose broker is stopped and whose lock is
held.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from semel.errors import DecodeError
from semel.log.disk import Disk, read_file, replace_file
from semel.log.durability import checkpoints, partition_checkpoint
from semel.log.durability.checkpoints import HIGH_WATERMARK_FILE, PARTITION_METADATA_FILE, RECOVERY_POINT_FILE
from semel.log.durability.journal import Kind
from semel.log.recovery.identity import METADATA_FILES
from semel.log.recovery.last_run import LastRun
from semel.log.segments import segment_checksums
from semel.log.verification.journal import entry_at
from semel.log.verification.walk import Walk, walk
from semel.types import TopicPartition
from semel.wire.records import iterate_headers

_DERIVED_OF_A_SEGMENT: Final = (".index", ".timeindex", ".txnindex", ".checksums")
_OFFSET_FILES: Final = (
    (RECOVERY_POINT_FILE, checkpoints.read_offsets, checkpoints.write_offsets),
    (HIGH_WATERMARK_FILE, checkpoints.read_high_watermarks, checkpoints.write_high_watermarks),
)
_PARTITION_CHECKPOINT: Final = "partition.checkpoint"


@dataclass(frozen=True, slots=True)
class SoundPart:
    """The sound part of a partition's log: its end offset, and the segment in which it ends; ``None`` if there is no
    segment."""

    end_offset: int
    segment: int | None
    position: int
    removed: tuple[int, ...]
    """The base offsets of the segments after it, which are removed."""


def sound_part(disk: Disk, folder: str, *, is_compacted: bool) -> SoundPart:
    """Read a partition from end to end, up to the first batch that is not sound or not in its place."""
    if not disk.exists(folder):
        return SoundPart(0, None, 0, ())
    stems = [name.removesuffix(".log") for name in disk.list(folder) if name.endswith(".log")]
    base_offsets = [int(stem) for stem in stems if len(stem) == 20 and stem.isascii() and stem.isdigit()]
    found = SoundPart(base_offsets[0] if base_offsets else 0, None, 0, tuple(base_offsets))
    synced_end: int | None = None
    for number, base_offset in enumerate(base_offsets):
        may_be_hole = is_compacted and base_offset > found.end_offset and synced_end in (None, base_offset)
        if base_offset != found.end_offset and not may_be_hole:
            break
        synced_end = segment_checksums.read_end_offset(disk, f"{folder}/{base_offset:020d}")
        walked = Walk(f"{folder}/{base_offset:020d}.log", base_offset)
        for _ in walk(disk, walked.path, walked, deep=True, has_holes=is_compacted):
            pass
        found = SoundPart(walked.end_offset, base_offset, walked.position, tuple(base_offsets[number + 1 :]))
        if walked.trouble is not None:
            break
    return found


def accept_loss(
    disk: Disk, data_folder: str, partition: TopicPartition, topic_id: UUID | None, *, is_compacted: bool
) -> SoundPart:
    """Truncate a partition to its sound part, and lower every checkpoint that refers to more. Raises ``OSError``.

    ``topic_id``: ``None`` if the metadata is not in the directory.
    """
    folder = f"{data_folder}/{partition}"
    part = sound_part(disk, folder, is_compacted=is_compacted)
    if topic_id is None:
        topic_id = _topic_id_in(disk, folder)
    if topic_id is not None and not any(disk.exists(f"{data_folder}/{name}") for name in METADATA_FILES):
        LastRun.read(disk, data_folder, has_logs=True).found_lost([(topic_id, partition.partition)])
    if disk.exists(folder):
        _cut(disk, folder, part)
    lower_recovery_point(disk, data_folder, partition, part.segment or 0)
    if topic_id is not None:
        _forget_in_journal(disk, data_folder, topic_id, partition.partition, part.end_offset)
    return part


def _topic_id_in(disk: Disk, folder: str) -> UUID | None:
    with contextlib.suppress(DecodeError):
        topic_id = checkpoints.read_topic_id(disk, f"{folder}/{PARTITION_METADATA_FILE}")
        if topic_id is not None:
            return topic_id
    with contextlib.suppress(DecodeError):
        checkpoint = partition_checkpoint.read(disk, folder)
        if checkpoint is not None:
            return checkpoint.topic_id
    return None


def _cut(disk: Disk, folder: str, part: SoundPart) -> None:
    if part.segment is not None:
        with contextlib.closing(disk.open(f"{folder}/{part.segment:020d}.log")) as file:
            if file.size() > part.position:
                file.truncate(part.position)
            file.sync()
    for base_offset in part.removed:
        disk.remove(f"{folder}/{base_offset:020d}.log")
    for name in disk.list(folder):
        stem, _, suffix = name.partition(".")
        offset = int(stem) if stem.isascii() and stem.isdigit() else None
        is_derived = f".{suffix}" in _DERIVED_OF_A_SEGMENT and offset is not None and offset >= (part.segment or 0)
        is_ahead = suffix == "snapshot" and offset is not None and offset > part.end_offset
        if is_derived or is_ahead or name == _PARTITION_CHECKPOINT:
            disk.remove(f"{folder}/{name}")
    disk.sync_directory(folder)


def lower_recovery_point(disk: Disk, data_folder: str, partition: TopicPartition, offset: int) -> None:
    """Lower the partition's recovery point and high watermark to ``offset``, if they are higher.

    The next start reads the log from there and builds derived files again.
    """
    for name, read, write in _OFFSET_FILES:
        path = f"{data_folder}/{name}"
        offsets = read(disk, path)
        if offsets.get(partition, 0) > offset:
            write(disk, path, {**offsets, partition: offset})


def _forget_in_journal(disk: Disk, data_folder: str, topic_id: UUID, partition: int, end_offset: int) -> None:
    """Remove the journal entries that do not continue the partition: a start refuses entries above a hole."""
    files = []
    for name in disk.list(data_folder):
        if name.startswith("journal."):
            data = read_file(disk, f"{data_folder}/{name}")
            first = entry_at(memoryview(data), 0)
            if first is not None:
                files.append((first[0], name, data))
    reached = end_offset
    for _, name, data in sorted(files):
        view, position, kept = memoryview(data), 0, []
        while (found := entry_at(view, position)) is not None:
            _, entry, end = found
            if entry.topic_id != topic_id or entry.partition != partition or entry.kind is Kind.VOID:
                kept.append(data[position:end])
            elif entry.base_offset <= reached:
                kept.append(data[position:end])
                reached = max(reached, *(header.next_offset for _, header in iterate_headers(entry.payload)))
            position = end
        if sum(map(len, kept)) < position:
            replace_file(disk, f"{data_folder}/{name}", b"".join(kept))
