"""The history of a group, read from its partition of ``__consumer_offsets``: for ``semel group trace`` and the console.

A classic group writes one record for each rebalance that was completed, with leader, assignor and assignments. A group
of KIP-848's protocol writes its epoch, and the subscription, the target and the assignment of each member. Which
assignors the members of a classic group voted for is not in the log; the one that was chosen is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from semel.coordinator.group import records as group_records
from semel.coordinator.group.consumer.records import (
    AssignedPartition,
    ConsumerGroupTombstone,
    ConsumerMember,
    CurrentAssignment,
    GroupEpoch,
    Target,
    TargetEpoch,
)
from semel.coordinator.group.formats import Kind
from semel.coordinator.group.records import GroupMetadata, GroupRecord, GroupTombstone, OffsetCommit
from semel.coordinator.partitioning import partition_for
from semel.errors import DecodeError, ErrorCode, KafkaError
from semel.inspection.compaction_gaps import CompactionGaps
from semel.inspection.internal_records import assignment_of, subscription_of
from semel.inspection.log_reading import batches
from semel.inspection.times import time_text
from semel.types import CONSUMER_OFFSETS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from semel.blocking import Admin


@dataclass(frozen=True, slots=True)
class MemberShare:
    """A member of a group, with its subscription and the partitions that it was assigned."""

    member_id: str
    client_id: str | None
    topics: list[str]
    partitions: list[str]


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """A record that the group's coordinator has written, other than an offset commit."""

    time: str | None
    offset: int
    event: str
    generation: int | None
    """The generation, or the epoch of a group of KIP-848's protocol."""
    assignor: str | None = None
    leader: str | None = None
    members: list[MemberShare] = field(default_factory=list)
    commits: int = 0
    """The number of offsets that were committed between the event before and this one."""


@dataclass(frozen=True, slots=True)
class GroupTrace:
    group: str
    complete_since: str | None
    """The time since when the history is complete; ``None`` if nothing is missing."""
    events: list[GroupEvent]
    commits: int
    """The number of offsets that were committed since the last event."""


def group_trace(admin: Admin, group_id: str, *, offsets_max: int | None = None) -> GroupTrace:
    """Read the history of a group. Raises ``KafkaError`` with GROUP_ID_NOT_FOUND if the log has no record of it.

    ``offsets_max`` limits the reading to the last offsets of the partition; ``complete_since`` of the result says since
    when the history is complete.
    """
    coordinator_partition = _coordinator_partition(admin, group_id)
    names = {topic.topic_id: topic.name for topic in admin.topics.list().values()}
    gaps, events, commits, is_known = CompactionGaps(), [], 0, False
    for batch in batches(admin, coordinator_partition, offsets_max=offsets_max):
        gaps.passed(batch.header)
        if batch.header.is_control:
            continue
        for record in batch.records():
            read = _read(record.key, record.value)
            if read is None or _group_of(read) != group_id:
                continue
            is_known = True
            if isinstance(read, OffsetCommit):
                commits += 1
                continue
            event = _event(read, time_text(record.timestamp), record.offset, commits, names)
            if event is not None:
                events.append(event)
                commits = 0
    if not is_known:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{coordinator_partition} has no record of group {group_id!r}")
    return GroupTrace(group_id, gaps.complete_since, events, commits)


def _coordinator_partition(admin: Admin, group_id: str) -> TopicPartition:
    """Return the partition that has the records of a group.

    Its topic is created when a client first looks up a coordinator, so it may not exist yet.
    """
    try:
        partitions = len(admin.topics.describe(CONSUMER_OFFSETS_TOPIC).partitions)
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"this cluster has no record of group {group_id!r}, nor of any other: there is no topic "
            f"{CONSUMER_OFFSETS_TOPIC}, or this client may not describe it",
        ) from error
    return TopicPartition(CONSUMER_OFFSETS_TOPIC, partition_for(group_id, partitions))


def _read(key: bytes | None, value: bytes | None) -> GroupRecord | None:
    try:
        return group_records.decode(key, value)
    except DecodeError:
        return None


def _group_of(record: GroupRecord) -> str:
    return record.key.group_id if hasattr(record, "key") else record.group_id


def _event(
    record: GroupRecord, time: str | None, offset: int, commits: int, names: dict[UUID, str]
) -> GroupEvent | None:
    match record:
        case GroupMetadata():
            members = [_classic_member(member) for member in record.members]
            what = "rebalanced" if members else "empty"
            return GroupEvent(time, offset, what, record.generation, record.protocol, record.leader, members, commits)
        case GroupTombstone() | ConsumerGroupTombstone(kind=Kind.CONSUMER_GROUP_METADATA):
            return GroupEvent(time, offset, "deleted", None, commits=commits)
        case ConsumerGroupTombstone(kind=Kind.CONSUMER_GROUP_MEMBER_METADATA):
            left = [MemberShare(record.name or "", None, [], [])]
            return GroupEvent(time, offset, "member left", None, members=left, commits=commits)
        case GroupEpoch():
            return GroupEvent(time, offset, "group epoch", record.epoch, commits=commits)
        case TargetEpoch():
            return GroupEvent(time, offset, "target epoch", record.epoch, commits=commits)
        case ConsumerMember():
            member = MemberShare(record.member_id, record.client_id, list(record.topic_names), [])
            return GroupEvent(time, offset, "member", None, record.assignor, None, [member], commits)
        case Target():
            shared = [MemberShare(record.member_id, None, [], _named(record.partitions, names))]
            return GroupEvent(time, offset, "target", None, members=shared, commits=commits)
        case CurrentAssignment():
            shared = [MemberShare(record.member_id, None, [], _named(record.assigned, names))]
            what = "assigned" if not record.revoking else "revoking"
            return GroupEvent(time, offset, what, record.epoch, members=shared, commits=commits)
        case _:
            return None


def _classic_member(member: group_records.Member) -> MemberShare:
    wanted, given = subscription_of(member.subscription), assignment_of(member.assignment)
    return MemberShare(
        member.member_id,
        member.client_id,
        wanted["topics"] if isinstance(wanted, dict) else [],
        given if isinstance(given, list) else [],
    )


def _named(partitions: frozenset[AssignedPartition], names: dict[UUID, str]) -> list[str]:
    return [f"{names.get(one.topic_id, str(one.topic_id))}:{one.partition}" for one in sorted(partitions)]
