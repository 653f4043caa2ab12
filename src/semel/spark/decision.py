"""The decision about a micro-batch: run it, skip it because it is committed, or stop. Pure; the table is in
docs/design/spark.md.

In that table S and E are the offsets where the batch begins and ends, from Spark's offset log. C are the group's
committed offsets, with the note that the pipeline stored as metadata of each offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from semel.client.values import OffsetAndMetadata
from semel.inspection.pipeline_note import Note as Note
from semel.types import TopicPartition


class Place(NamedTuple):
    """One partition of one source of the query. Two sources may read the same topic, with different groups."""

    group_id: str
    topic_partition: TopicPartition


def by_group(offsets: Mapping[Place, OffsetAndMetadata]) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
    groups: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
    for place, at in sorted(offsets.items(), key=lambda entry: entry[0]):
        groups.setdefault(place.group_id, {})[place.topic_partition] = at
    return groups


def begins(committed: Mapping[Place, OffsetAndMetadata]) -> dict[Place, int]:
    """Return where batch 0 begins, for the partitions whose notes say so."""
    notes = {place: Note.parse(at.metadata) for place, at in committed.items()}
    return {place: note.begin for place, note in notes.items() if note is not None and note.begin is not None}


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch as Spark planned it. A partition that is not in ``start`` is new in this batch."""

    query_id: str
    batch_id: int
    start: Mapping[Place, int]
    end: Mapping[Place, int]

    @property
    def is_empty(self) -> bool:
        return dict(self.start) == dict(self.end)

    @property
    def offset_count(self) -> int:
        """The largest number of records that the batch can read."""
        return sum(end - self.start.get(place, 0) for place, end in self.end.items())


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


def decide(batch: Batch, committed: Mapping[Place, OffsetAndMetadata]) -> Decision:
    at = {place: committed[place].offset for place in batch.end if place in committed}
    notes = {place: Note.parse(committed[place].metadata) for place in at}
    strangers = [place for place, note in notes.items() if note is None]
    if strangers:
        return Stop(_foreign(batch, strangers))
    is_past = all(place in at and at[place] >= end for place, end in batch.end.items())
    batches = [note.batch_id for note in notes.values() if note is not None and note.query_id == batch.query_id]
    if max(batches, default=-1) >= batch.batch_id:
        return Skip() if is_past else Stop(_difference(batch, batch.end, at))
    runs_backwards = any(batch.start.get(place, 0) > end for place, end in batch.end.items())
    starts = {place: batch.start[place] for place in batch.end if place in batch.start}
    if at == starts and not runs_backwards:
        return Run()
    if is_past and not batches and not batch.is_empty:
        return Skip()
    return Stop(_difference(batch, batch.start, at))


def _foreign(batch: Batch, places: list[Place]) -> str:
    named = ", ".join(str(place.topic_partition) for place in places[:5])
    return (
        f"batch {batch.batch_id}: the offsets of group {places[0].group_id!r} on {named} were committed by something "
        "that is no pipeline. Give the pipeline a group of its own. Nothing was written"
    )


def _difference(batch: Batch, expected: Mapping[Place, int], at: Mapping[Place, int]) -> str:
    wrong = [
        f"{place.topic_partition} of group {place.group_id!r} is at {at.get(place, 'no offset')}, "
        f"not at {expected.get(place, 'no offset')}"
        for place in batch.end
        if at.get(place) != expected.get(place)
    ]
    return (
        f"batch {batch.batch_id} begins where the group is not: {'; '.join(wrong[:5])}"
        f"{f'; and {len(wrong) - 5} more' if len(wrong) > 5 else ''}. Another consumer commits to this group, its "
        "offsets were deleted or expired, or the checkpoint is another query's. Nothing was written"
    )
