"""The decision about a micro-batch: run it, skip it because it is committed, or stop. Pure; the table is in
docs/design/spark.md.

In that table S and E are the offsets where the batch begins and ends, from Spark's offset log. C are the group's
committed offsets, with the note that the pipeline stored as metadata of each offset.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from semel.client.values import OffsetAndMetadata
from semel.inspection.pipeline_note import Note as Note
from semel.types import TopicPartition


class SourcePartition(NamedTuple):
    """One partition of one source of the query. Two sources may read the same topic, with different groups."""

    group_id: str
    topic_partition: TopicPartition


def by_group(
    offsets: Mapping[SourcePartition, OffsetAndMetadata],
) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
    groups: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
    for partition, at in sorted(offsets.items(), key=lambda entry: entry[0]):
        groups.setdefault(partition.group_id, {})[partition.topic_partition] = at
    return groups


def batch_zero_offsets(committed: Mapping[SourcePartition, OffsetAndMetadata]) -> dict[SourcePartition, int]:
    """Return where batch 0 begins, for the partitions whose notes say so."""
    notes = {partition: Note.parse(at.metadata) for partition, at in committed.items()}
    return {partition: note.begin for partition, note in notes.items() if note is not None and note.begin is not None}


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch as Spark planned it. A partition that is not in ``start`` is new in this batch."""

    query_id: str
    batch_id: int
    start: Mapping[SourcePartition, int]
    end: Mapping[SourcePartition, int]

    def without(self, partitions: Collection[SourcePartition]) -> Batch:
        """Return the batch without these partitions, which no source reads any more: nothing of them is read or
        committed."""
        if not partitions:
            return self
        start, end = (
            {partition: offset for partition, offset in at.items() if partition not in partitions}
            for at in (self.start, self.end)
        )
        return replace(self, start=start, end=end)

    @property
    def is_empty(self) -> bool:
        return dict(self.start) == dict(self.end)

    @property
    def offset_count(self) -> int:
        """The largest number of records that the batch can read."""
        return sum(end - self.start.get(partition, 0) for partition, end in self.end.items())


@dataclass(frozen=True, slots=True)
class Run:
    pass


@dataclass(frozen=True, slots=True)
class Skip:
    """The batch is committed already."""


@dataclass(frozen=True, slots=True)
class Stop:
    reason: str


Decision: TypeAlias = Run | Skip | Stop


def decide(batch: Batch, committed: Mapping[SourcePartition, OffsetAndMetadata]) -> Decision:
    at = {partition: committed[partition].offset for partition in batch.end if partition in committed}
    notes = {partition: Note.parse(committed[partition].metadata) for partition in at}
    foreign_commits = [partition for partition, note in notes.items() if note is None]
    if foreign_commits:
        return Stop(_foreign(batch, foreign_commits))
    is_past = all(partition in at and at[partition] >= end for partition, end in batch.end.items())
    batches = [note.batch_id for note in notes.values() if note is not None and note.query_id == batch.query_id]
    if max(batches, default=-1) >= batch.batch_id:
        return Skip() if is_past else Stop(_difference(batch, batch.end, at))
    runs_backwards = any(batch.start.get(partition, 0) > end for partition, end in batch.end.items())
    starts = {partition: batch.start[partition] for partition in batch.end if partition in batch.start}
    if at == starts and not runs_backwards:
        return Run()
    if is_past and not batches and not batch.is_empty:
        return Skip()
    return Stop(_difference(batch, batch.start, at))


def _foreign(batch: Batch, partitions: list[SourcePartition]) -> str:
    named = ", ".join(str(partition.topic_partition) for partition in partitions[:5])
    return (
        f"batch {batch.batch_id}: the offsets of group {partitions[0].group_id!r} on {named} were committed by "
        "something that is no pipeline. Give the pipeline a group of its own. Nothing was written"
    )


def _difference(batch: Batch, expected: Mapping[SourcePartition, int], at: Mapping[SourcePartition, int]) -> str:
    wrong = [
        f"{partition.topic_partition} of group {partition.group_id!r} is at {at.get(partition, 'no offset')}, "
        f"not at {expected.get(partition, 'no offset')}"
        for partition in batch.end
        if at.get(partition) != expected.get(partition)
    ]
    return (
        f"batch {batch.batch_id} begins where the group is not: {'; '.join(wrong[:5])}"
        f"{f'; and {len(wrong) - 5} more' if len(wrong) > 5 else ''}. Another consumer commits to this group, its "
        "offsets were deleted or expired, or the checkpoint is another query's. Nothing was written"
    )
