"""The decision at the start of a query: whether its checkpoint and its group's offsets belong together. Pure.

Spark's checkpoint says which batch was planned last, where it ends, and, once ``foreachBatch`` has returned, that it is
done. Spark runs the last batch again unless it is done; else it plans the next one from where the last one ends. The
group's offsets say what was committed. docs/design/spark.md has the table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from semel.client.values import OffsetAndMetadata
from semel.spark.decision import Batch, Note, Skip, SourcePartition, Stop, batch_zero_offsets, decide

_RECOVER: Final = (
    "`semel pipeline recover FILE`, or recover() of the pipeline, says what either choice would write again, and sets "
    "the offsets when it is told whether that batch was written"
)


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The last batch that Spark has planned."""

    query_id: str
    batch_id: int
    planned_ms: int
    start: Mapping[SourcePartition, int] | None
    """The offsets where the batch begins; ``None`` for batch 0, whose start Spark does not write down."""
    end: Mapping[SourcePartition, int]
    is_done: bool
    """Whether Spark's commit log has the batch."""

    def without(self, partitions: Collection[SourcePartition]) -> LastBatch:
        """Return the batch without these partitions, which no source reads any more."""
        if not partitions:
            return self
        kept = [
            None
            if at is None
            else {partition: offset for partition, offset in at.items() if partition not in partitions}
            for at in (self.start, self.end)
        ]
        return replace(self, start=kept[0], end=kept[1] or {})

    @property
    def record_count(self) -> int | None:
        """The largest number of records that the batch can read; ``None`` if its start is not known."""
        if self.start is None:
            return None
        return Batch(self.query_id, self.batch_id, self.start, self.end).offset_count

    @property
    def if_written(self) -> str:
        """What follows if the user says that the batch was written."""
        return f"goes on behind batch {self.batch_id}; if it was not written, its records are missing"

    @property
    def if_not_written(self) -> str:
        if self.is_done:
            return "Spark does not run it again: its commit log says that it is done"
        if self.start is None:
            return "where it begins is not known: give the query a new checkpoint location, and startingOffsets"
        return (
            f"runs batch {self.batch_id} again; if it was written, the output of up to {self.record_count} records is "
            "there twice"
        )

    def offsets(
        self, *, is_written: bool, owner: str, sinks: tuple[str, ...] = (), generation: int = 0
    ) -> dict[SourcePartition, OffsetAndMetadata] | None:
        """Return the offsets, with notes, that the group should have: behind the batch if it was written, else before
        it. ``None`` if they are not known."""
        at, batch_id = (self.end, self.batch_id) if is_written else (self.start, self.batch_id - 1)
        if at is None:
            return None
        note = str(Note(self.query_id, batch_id, sinks=sinks, owner=owner, generation=generation))
        return {partition: OffsetAndMetadata(offset, note) for partition, offset in at.items()}


@dataclass(frozen=True, slots=True)
class Continue:
    """The query continues from the group's committed offsets."""


@dataclass(frozen=True, slots=True)
class Restore:
    """The group's offsets have expired, and the start commits them again: by Spark's commit log the last batch was
    written, so its end offsets are the right ones."""


@dataclass(frozen=True, slots=True)
class Refuse:
    reason: str
    remedy: str


Continuation: TypeAlias = Continue | Restore | Refuse


def continuation(
    last: LastBatch,
    committed: Mapping[SourcePartition, OffsetAndMetadata],
    *,
    may_have_expired: bool,
    is_stateful: bool,
) -> Continuation:
    """Decide what a start does with this checkpoint and these committed offsets.

    ``may_have_expired``: the last batch is so long ago that the broker may have removed the group's offsets. Offsets
    that are missing sooner were deleted, or the group is another: then the user has to decide.
    """
    at = {partition: committed[partition].offset for partition in last.end if partition in committed}
    if not at and (last.end if last.is_done else last.start) == {}:
        # The topics of the checkpoint were deleted, so the group has none of their offsets, and new ones begin anew.
        return Continue() if not committed else Refuse(_none_shared(last, committed), _remedy(True, is_stateful))
    if not at:
        return Restore() if last.is_done and may_have_expired else Refuse(_no_offsets(last), _RECOVER)
    foreign_commits = [partition for partition in at if Note.parse(committed[partition].metadata) is None]
    if foreign_commits:
        return Refuse(
            f"the offset of {_named(foreign_commits[0])} was committed by something that is no pipeline: a consumer "
            f"of this group, or a tool that has set it. The checkpoint is at batch {last.batch_id}",
            _RECOVER,
        )
    begin = last.end if last.is_done else last.start if last.start is not None else batch_zero_offsets(committed)
    if last.is_done:
        goes_on = at == dict(last.end)
    else:
        decision = decide(Batch(last.query_id, last.batch_id, begin, last.end), committed)
        # A batch that would be skipped must also end where the group is. If the group is further, the next batch would
        # begin before the group's offsets.
        goes_on = not isinstance(decision, Stop) and (not isinstance(decision, Skip) or at == dict(last.end))
    if goes_on:
        notes = [Note.parse(committed[partition].metadata) for partition in at]
        newest = max(
            (note.batch_id for note in notes if note is not None and note.query_id == last.query_id), default=-1
        )
        if newest <= last.batch_id:
            return Continue()
        # A batch without new records moves no offset, and may write rows, as when a window closes.
        return Refuse(
            f"the checkpoint is at batch {last.batch_id}, and the group is at batch {newest} of the same one, with "
            "the same offsets: the checkpoint is an older copy",
            _remedy(is_ahead=True, is_stateful=is_stateful),
        )
    is_ahead = all(partition in at and at[partition] >= end for partition, end in last.end.items())
    return Refuse(_elsewhere(last, begin, committed, is_ahead), _remedy(is_ahead, is_stateful))


def retention_notice(idle_ms: int, kept_ms: int) -> str | None:
    """Return a warning if the time since the last batch is at least half of the time for which brokers keep the offsets
    of an idle group."""
    if 2 * idle_ms < kept_ms:
        return None
    return (
        f"the last batch was {_hours(idle_ms)} ago, and the brokers keep the offsets of an idle group for "
        f"{_hours(kept_ms)}: raise offsets.retention.minutes to twice the time between two runs at least"
    )


def _hours(duration_ms: int) -> str:
    return f"{duration_ms / 3_600_000:.1f} h"


def _remedy(is_ahead: bool, is_stateful: bool) -> str:
    if not is_ahead:
        return _RECOVER
    if is_stateful:
        return "Restore the newest copy of the checkpoint; without it, begin with a new group and a new sink"
    return "The query keeps no state: give it a new checkpoint location, and it goes on exactly where the group is"


def _no_offsets(last: LastBatch) -> str:
    groups = " and ".join(repr(group_id) for group_id in sorted({partition.group_id for partition in last.end}))
    known = (
        f"Spark's commit log says that batch {last.batch_id} was written"
        if last.is_done
        else f"whether batch {last.batch_id} was written is not known"
    )
    return (
        f"the checkpoint is at batch {last.batch_id}, and group {groups} has no offsets: they were deleted, have "
        f"expired, or the group is another; {known}"
    )


def _none_shared(last: LastBatch, committed: Mapping[SourcePartition, OffsetAndMetadata]) -> str:
    return (
        f"the checkpoint is at batch {last.batch_id}, all its topics were deleted, and the group has an offset of "
        f"{_named(min(committed))}, which this checkpoint does not know: it is an older copy, or another query's"
    )


def _elsewhere(
    last: LastBatch,
    begin: Mapping[SourcePartition, int],
    committed: Mapping[SourcePartition, OffsetAndMetadata],
    is_ahead: bool,
) -> str:
    def at(partition: SourcePartition) -> int | None:
        return committed[partition].offset if partition in committed else None

    partition = next(
        (partition for partition in last.end if at(partition) != begin.get(partition)), next(iter(last.end))
    )
    note = Note.parse(committed[partition].metadata) if partition in committed else None
    by = ""
    if note is not None and note.query_id:
        by = f", by batch {note.batch_id} of {'this' if note.query_id == last.query_id else 'another'} checkpoint"
    return (
        f"the checkpoint goes on from {_named(partition)} at {begin.get(partition, 'no offset')}, with batch "
        f"{last.batch_id + last.is_done}, and the group is at "
        f"{'no offset' if at(partition) is None else at(partition)}{by}: "
        + ("the checkpoint is an older copy" if is_ahead else "the group's offsets were set back")
        + ", or it is another query's"
    )


def _named(partition: SourcePartition) -> str:
    return f"{partition.topic_partition} of group {partition.group_id!r}"
