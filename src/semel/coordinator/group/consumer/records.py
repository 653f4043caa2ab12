"""Records of a consumer group, as values. The state of a group is the last record of each key, in any order of keys.

Compaction removes older records of a key, so a record may follow one that was written because of it; nothing here may
depend on the order between keys. ``encode`` and ``decode`` convert records to Kafka's bytes and back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from semel.coordinator.group.consumer import formats
from semel.coordinator.group.formats import Kind
from semel.coordinator.group.versioned import VERSION_SIZE_BYTES, read_value, versioned
from semel.types import Buffer
from semel.wire.codec import decoder

_VERSION: Final = 0


class AssignedPartition(NamedTuple):
    """A partition of a topic. The topic is known by its id: one created again under the same name is another topic."""

    topic_id: UUID
    partition: int


Partitions: TypeAlias = frozenset[AssignedPartition]
NO_PARTITIONS: Final[Partitions] = frozenset()


class MemberState(IntEnum):
    """The state of a member on the way to its target assignment.

    STABLE <-> UNREVOKED_PARTITIONS: the member must revoke partitions first, and confirm it
    STABLE <-> UNRELEASED_PARTITIONS: the member has the free partitions; others must revoke the rest first
    """

    STABLE = 1
    UNREVOKED_PARTITIONS = 2
    UNRELEASED_PARTITIONS = 3
    UNKNOWN = 127
    """A state that a newer broker has written. The member must join again."""


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    """The epoch of a group, which grows with every change of members, subscriptions or subscribed topics.

    A different ``metadata_hash`` shows that the subscribed topics changed.
    """

    group_id: str
    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class ClassicProtocols:
    """The JoinGroup values of a member that uses the classic protocol: its assignors, each with its metadata."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member and its subscription."""

    group_id: str
    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    """The subscribed topics, sorted."""
    topic_regex: str | None
    rebalance_timeout_ms: int
    assignor: str | None
    classic: ClassicProtocols | None = None
    """Set only for a member that uses the classic protocol."""


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    """The epoch of the group for which the targets were computed."""

    group_id: str
    epoch: int
    assigned_ms: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    """The target assignment of a member: the partitions that it is to own in the end."""

    group_id: str
    member_id: str
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """The current assignment of a member. The partitions that it is assigned or must still revoke are its own alone."""

    group_id: str
    member_id: str
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Partitions = NO_PARTITIONS
    revoking: Partitions = NO_PARTITIONS

    @property
    def owned(self) -> Partitions:
        return self.assigned | self.revoking if self.revoking else self.assigned


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that match a regular expression."""

    group_id: str
    regex: str
    topics: tuple[str, ...]
    """The names of the topics, sorted."""
    version: int
    resolved_ms: int


ConsumerGroupRecord: TypeAlias = GroupEpoch | ConsumerMember | TargetEpoch | Target | CurrentAssignment | ResolvedRegex


@dataclass(frozen=True, slots=True)
class ConsumerGroupTombstone:
    """Removes the record of this kind from the group: of the member or the regular expression ``name``, if given."""

    kind: Kind
    group_id: str
    name: str | None = None
    """The member id or the regular expression, for kinds that have one."""


KINDS: Final = frozenset(
    {
        Kind.CONSUMER_GROUP_METADATA,
        Kind.CONSUMER_GROUP_PARTITION_METADATA,
        Kind.CONSUMER_GROUP_MEMBER_METADATA,
        Kind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
        Kind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
        Kind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
        Kind.CONSUMER_GROUP_REGULAR_EXPRESSION,
    }
)

_OF_A_MEMBER: Final = frozenset(
    {
        Kind.CONSUMER_GROUP_MEMBER_METADATA,
        Kind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
        Kind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    }
)


def encode(record: ConsumerGroupRecord | ConsumerGroupTombstone) -> tuple[bytes, bytes | None]:
    """Return the key and the value; a tombstone's value is ``None``."""
    if isinstance(record, ConsumerGroupTombstone):
        return _key(record.kind, record.group_id, record.name), None
    kind, name, value = _parts(record)
    return _key(kind, record.group_id, name), versioned(value, _VERSION)


def decode(kind: Kind, key: Buffer, value: Buffer | None) -> ConsumerGroupRecord | ConsumerGroupTombstone | None:
    """Return the record; ``None`` for a kind that Kafka 4.0 wrote and that is not needed. Raises ``DecodeError``."""
    if kind is Kind.CONSUMER_GROUP_PARTITION_METADATA:
        return None
    group_id, name = _key_parts(kind, key)
    if value is None:
        return ConsumerGroupTombstone(kind, group_id, name)
    return _record(kind, group_id, name or "", value)


def grouped(partitions: Iterable[AssignedPartition]) -> dict[UUID, list[int]]:
    """Group the partitions by topic, sorted: so the same set always gives the same bytes."""
    topics: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(partitions, key=lambda assigned: (assigned.topic_id.int, assigned.partition)):
        topics.setdefault(topic_id, []).append(partition)
    return topics


# -- keys


def _key(kind: Kind, group_id: str, name: str | None) -> bytes:
    message: object
    if kind in _OF_A_MEMBER:
        message = formats.GroupMemberKey(group_id, name or "")
    elif kind is Kind.CONSUMER_GROUP_REGULAR_EXPRESSION:
        message = formats.RegularExpressionKey(group_id, name or "")
    else:
        message = formats.GroupKey(group_id)
    return versioned(message, _VERSION, prefix=kind)


def _key_parts(kind: Kind, key: Buffer) -> tuple[str, str | None]:
    if kind in _OF_A_MEMBER:
        of_member = decoder(formats.GroupMemberKey, _VERSION)(key, VERSION_SIZE_BYTES)
        return of_member.group_id, of_member.member_id
    if kind is Kind.CONSUMER_GROUP_REGULAR_EXPRESSION:
        of_regex = decoder(formats.RegularExpressionKey, _VERSION)(key, VERSION_SIZE_BYTES)
        return of_regex.group_id, of_regex.regular_expression
    return decoder(formats.GroupKey, _VERSION)(key, VERSION_SIZE_BYTES).group_id, None


# -- values


def _parts(record: ConsumerGroupRecord) -> tuple[Kind, str | None, object]:
    match record:
        case GroupEpoch():
            epoch = formats.ConsumerGroupMetadataValue(record.epoch, record.metadata_hash)
            return Kind.CONSUMER_GROUP_METADATA, None, epoch
        case ConsumerMember():
            return Kind.CONSUMER_GROUP_MEMBER_METADATA, record.member_id, _member_value(record)
        case TargetEpoch():
            target_epoch = formats.TargetAssignmentMetadataValue(record.epoch, record.assigned_ms)
            return Kind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, None, target_epoch
        case Target():
            target = [formats.TargetPartitions(*topic) for topic in grouped(record.partitions).items()]
            value = formats.TargetAssignmentMemberValue(target)
            return Kind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, record.member_id, value
        case CurrentAssignment():
            current = formats.CurrentMemberAssignmentValue(
                record.epoch,
                record.previous_epoch,
                record.state,
                [formats.CurrentPartitions(*topic) for topic in grouped(record.assigned).items()],
                [formats.CurrentPartitions(*topic) for topic in grouped(record.revoking).items()],
            )
            return Kind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, record.member_id, current
        case ResolvedRegex():
            regex = formats.RegularExpressionValue(list(record.topics), record.version, record.resolved_ms)
            return Kind.CONSUMER_GROUP_REGULAR_EXPRESSION, record.regex, regex


def _member_value(record: ConsumerMember) -> formats.ConsumerGroupMemberMetadataValue:
    classic = None
    if record.classic is not None:
        protocols = [formats.ClassicProtocol(*protocol) for protocol in record.classic.protocols]
        classic = formats.ClassicMemberMetadata(record.classic.session_timeout_ms, protocols)
    return formats.ConsumerGroupMemberMetadataValue(
        record.instance_id,
        record.rack_id,
        record.client_id,
        record.client_host,
        list(record.topic_names),
        record.topic_regex,
        record.rebalance_timeout_ms,
        record.assignor,
        classic,
    )


def _record(kind: Kind, group_id: str, name: str, value: Buffer) -> ConsumerGroupRecord:
    match kind:
        case Kind.CONSUMER_GROUP_METADATA:
            epoch = read_value(formats.ConsumerGroupMetadataValue, value)
            return GroupEpoch(group_id, epoch.epoch, epoch.metadata_hash)
        case Kind.CONSUMER_GROUP_MEMBER_METADATA:
            return _member_from(group_id, name, read_value(formats.ConsumerGroupMemberMetadataValue, value))
        case Kind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA:
            target_epoch = read_value(formats.TargetAssignmentMetadataValue, value)
            return TargetEpoch(group_id, target_epoch.assignment_epoch, target_epoch.assignment_timestamp)
        case Kind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER:
            target = read_value(formats.TargetAssignmentMemberValue, value)
            return Target(group_id, name, _partitions(target.topic_partitions))
        case Kind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT:
            current = read_value(formats.CurrentMemberAssignmentValue, value)
            return CurrentAssignment(
                group_id,
                name,
                current.member_epoch,
                current.previous_member_epoch,
                MemberState(current.state) if current.state in _STATES else MemberState.UNKNOWN,
                _partitions(current.assigned_partitions),
                _partitions(current.partitions_pending_revocation),
            )
        case _:
            assert kind is Kind.CONSUMER_GROUP_REGULAR_EXPRESSION, kind
            regex = read_value(formats.RegularExpressionValue, value)
            return ResolvedRegex(group_id, name, tuple(regex.topics), regex.version, regex.timestamp)


_STATES: Final = frozenset(MemberState)


def _member_from(group_id: str, member_id: str, value: formats.ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    classic = None
    if value.classic_member_metadata is not None:
        protocols = tuple((each.name, each.metadata) for each in value.classic_member_metadata.supported_protocols)
        classic = ClassicProtocols(value.classic_member_metadata.session_timeout_ms, protocols)
    return ConsumerMember(
        group_id,
        member_id,
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        tuple(value.subscribed_topic_names),
        value.subscribed_topic_regex,
        value.rebalance_timeout_ms,
        value.server_assignor,
        classic,
    )


def _partitions(topics: Iterable[formats.TargetPartitions | formats.CurrentPartitions]) -> Partitions:
    return frozenset(AssignedPartition(topic.topic_id, index) for topic in topics for index in topic.partitions)
