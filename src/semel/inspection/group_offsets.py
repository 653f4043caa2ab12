"""A group's offsets beside the ends of its partitions, with its lag; and where a reset of them would go."""

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
    """How far a group has read one partition. ``trouble`` says why no consumer can go on from there."""

    partition: TopicPartition
    committed: int | None
    start: int | None
    end: int | None
    lag: int | None
    member: str | None
    trouble: str | None


def group_offsets(admin: Admin, group: GroupDescription) -> tuple[GroupOffset, ...]:
    """Of every partition that has a committed offset or a member that reads it, with its lag."""
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
    """The member that reads each partition."""
    return {partition: member.member_id for member in group.members for partition in member.assignment}


def offsets_beside(
    group: GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> tuple[GroupOffset, ...]:
    """Committed offsets beside where partitions begin and end; their lag is not counted."""
    owners = owners_of(group)
    found = []
    for partition in sorted({*committed, *owners}):
        offset = committed[partition].offset if partition in committed else None
        start, end = starts.get(partition), ends.get(partition)
        trouble = None if offset is None else _trouble(offset, start, end)
        found.append(GroupOffset(partition, offset, start, end, None, owners.get(partition), trouble))
    return tuple(found)


def _trouble(offset: int, start: int | None, end: int | None) -> str | None:
    """Why a consumer cannot go on from a committed offset, and what it does instead."""
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
    """Where a reset goes. All but the first three take a number."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    OFFSET = "offset"
    SHIFT = "shift"
    TIME = "time"
    """The first record that is as late as a time, in milliseconds since 1970."""


def reset_destinations(
    admin: Admin,
    partitions: Sequence[TopicPartition],
    current: Mapping[TopicPartition, OffsetAndMetadata],
    to: ResetTo,
    number: int | None = None,
) -> dict[TopicPartition, int]:
    """Where each partition is to go. A shift stops at the first or last; ValueError for an offset out of range."""
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
