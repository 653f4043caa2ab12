"""A group's committed offsets, with the ends of its partitions and its lag; and where a reset would take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from semel.client.admin.partitions import OffsetSpec
from semel.inspection.lag import readable_after
from semel.inspection.offsets import offsets_at, offsets_where_known

if TYPE_CHECKING:
    from semel.blocking import Admin
    from semel.client.admin.group_descriptions import GroupDescription
    from semel.client.values import OffsetAndMetadata
    from semel.types import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """How far a group has read one partition. ``trouble`` says why a consumer cannot continue from there, if so."""

    partition: TopicPartition
    committed: int | None
    start: int | None
    end: int | None
    lag: int | None
    member: str | None
    trouble: str | None


def group_offsets(admin: Admin, group: GroupDescription) -> tuple[GroupOffset, ...]:
    """Return the group's offsets and lag for every partition with a committed offset or a member that reads it."""
    committed = admin.groups.list_offsets(group.group_id)
    partitions = sorted({*committed, *owners_of(group)})
    starts = offsets_where_known(admin, partitions, OffsetSpec.EARLIEST)
    ends = offsets_where_known(admin, partitions, OffsetSpec.LATEST)
    return tuple(
        found
        if found.committed is None or found.trouble is not None
        else replace(found, lag=readable_after(admin, found.partition, found.committed))
        for found in offsets_beside(group, committed, starts, ends)
    )


def owners_of(group: GroupDescription) -> dict[TopicPartition, str]:
    """Return the id of the member that reads each partition."""
    return {partition: member.member_id for member in group.members for partition in member.assignment}


def offsets_beside(
    group: GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> tuple[GroupOffset, ...]:
    """Return committed offsets with the start and end of each partition, without the lag."""
    owners = owners_of(group)
    found = []
    for partition in sorted({*committed, *owners}):
        offset = committed[partition].offset if partition in committed else None
        start, end = starts.get(partition), ends.get(partition)
        trouble = None if offset is None else _trouble(offset, start, end)
        found.append(GroupOffset(partition, offset, start, end, None, owners.get(partition), trouble))
    return tuple(found)


def _trouble(offset: int, start: int | None, end: int | None) -> str | None:
    """Return why a consumer cannot continue from a committed offset and what it does instead; ``None`` if it can."""
    if start is None or end is None:
        return "the partition is not there, or cannot be asked"
    if start <= offset <= end:
        return None
    where = f"before the first record, {start}" if offset < start else f"behind the end, {end}"
    return (
        f"{offset} is out of range, {where}: a consumer goes on at {start} with auto.offset.reset=earliest, at {end} "
        "with latest, and stops with none"
    )


class ResetTo(Enum):
    """The target of an offset reset. All but the first three need a number."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    OFFSET = "offset"
    SHIFT = "shift"
    TIME = "time"
    """The first record with this timestamp or a later one, in milliseconds since 1970."""


def reset_destinations(
    admin: Admin,
    partitions: Sequence[TopicPartition],
    current: Mapping[TopicPartition, OffsetAndMetadata],
    to: ResetTo,
    number: int | None = None,
) -> dict[TopicPartition, int]:
    """Return the offset to which each partition is reset.

    A shift stops at the first or at the end offset. Raises ``ValueError`` for a given offset that is out of range.
    """
    starts = offsets_at(admin, partitions, OffsetSpec.EARLIEST)
    ends = offsets_at(admin, partitions, OffsetSpec.LATEST)
    at_time: Mapping[TopicPartition, int] = {}
    if to is ResetTo.TIME:
        assert number is not None
        at_time = offsets_at(admin, partitions, number)
    destinations: dict[TopicPartition, int] = {}
    for partition in partitions:
        start, end = starts.get(partition, 0), ends.get(partition, 0)
        here = current[partition].offset if partition in current else None
        wanted: int | None
        match to:
            case ResetTo.EARLIEST:
                wanted = start
            case ResetTo.LATEST:
                wanted = end
            case ResetTo.CURRENT:
                wanted = here
            case ResetTo.OFFSET:
                wanted = number
                if number is None or not start <= number <= end:
                    raise ValueError(
                        f"{number}: {partition.topic}:{partition.partition} has the offsets {start} to {end}"
                    )
            case ResetTo.SHIFT:
                wanted = None if here is None else here + (number or 0)
            case ResetTo.TIME:
                wanted = at_time.get(partition, end)
        if wanted is not None:
            destinations[partition] = max(start, min(wanted, end))
    return destinations
