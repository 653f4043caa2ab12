"""Records of ``__consumer_offsets``, as values.

``encode`` and ``decode`` convert them to Kafka's bytes and back. The law of reading: a record of a kind that is not
served here is skipped, because a newer or an older broker may have written it; a record of a kind that is served and
cannot be read is an error, because skipping it would move a group back to an older offset.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from semel.coordinator.group.consumer import records as consumer_records
from semel.coordinator.group.consumer.records import ConsumerGroupRecord, ConsumerGroupTombstone
from semel.coordinator.group.formats import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    Kind,
    OffsetCommitKey,
    OffsetCommitValue,
)
from semel.coordinator.group.versioned import VERSION_SIZE_BYTES, read_value, read_version, versioned
from semel.errors import DecodeError
from semel.types import ZERO_UUID, Buffer
from semel.wire.codec import decoder

logger = logging.getLogger(__name__)

# Only version 1 has a field for an explicit expiry; everything else is written in the newest version, as in Kafka.
_VALUE_WITH_EXPIRY: Final = 1
_VALUE: Final = 4
_GROUP_METADATA_VALUE: Final = 3


class OffsetKey(NamedTuple):
    """The key of a committed offset: the group and the partition."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """An offset that a group has committed for a partition."""

    key: OffsetKey
    offset: int
    leader_epoch: int | None
    metadata: str
    committed_ms: int
    expires_ms: int | None = None
    """When the offset expires; set only if the client sent a retention time with the commit."""
    topic_id: UUID | None = None

    def expiring(self, expires_ms: int) -> OffsetCommit:
        """Return the commit with an explicit expiry, and without the fields that version 1 of the value does not have.

        If they were kept in memory, the next load of the log would change the state.
        """
        return replace(self, expires_ms=expires_ms, leader_epoch=None, topic_id=None)


@dataclass(frozen=True, slots=True)
class OffsetTombstone:
    """Removes an offset, committed or pending: it expired, or it, its group or its topic was deleted."""

    key: OffsetKey


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int | None
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A group of the classic protocol, as of its last completed rebalance."""

    group_id: str
    protocol_type: str
    """Empty for a group that only stores offsets."""
    generation: int
    protocol: str | None
    leader: str | None
    state_changed_ms: int | None
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class GroupTombstone:
    group_id: str


MembershipRecord: TypeAlias = GroupMetadata | GroupTombstone | ConsumerGroupRecord | ConsumerGroupTombstone
"""A record of a group and its members, of either kind of group."""

GroupRecord: TypeAlias = OffsetCommit | OffsetTombstone | MembershipRecord


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Return the key and the value; a tombstone's value is ``None``."""
    match record:
        case OffsetCommit():
            version = _VALUE if record.expires_ms is None else _VALUE_WITH_EXPIRY
            return _offset_key(record.key), versioned(_offset_value(record), version)
        case OffsetTombstone():
            return _offset_key(record.key), None
        case GroupMetadata():
            return _group_key(record.group_id), versioned(_group_value(record), _GROUP_METADATA_VALUE)
        case GroupTombstone():
            return _group_key(record.group_id), None
        case _:
            return consumer_records.encode(record)


def decode(key: Buffer | None, value: Buffer | None) -> GroupRecord | None:
    """Return the record; ``None`` if its kind is not served here. Raises ``DecodeError`` if it is malformed."""
    if key is None:
        raise DecodeError("a record of __consumer_offsets without a key; every kind has one")
    kind = read_version(key, "key")
    if kind in (Kind.LEGACY_OFFSET_COMMIT, Kind.OFFSET_COMMIT):
        offset_key = _offset_key_from(decoder(OffsetCommitKey, kind)(key, VERSION_SIZE_BYTES))
        if value is None:
            return OffsetTombstone(offset_key)
        return _offset_commit_from(offset_key, read_value(OffsetCommitValue, value))
    if kind == Kind.GROUP_METADATA:
        group_id = decoder(GroupMetadataKey, kind)(key, VERSION_SIZE_BYTES).group
        if value is None:
            return GroupTombstone(group_id)
        return _group_metadata_from(group_id, read_value(GroupMetadataValue, value))
    if kind in consumer_records.KINDS:
        return consumer_records.decode(Kind(kind), key, value)
    _passed_over(kind)
    return None


# -- to bytes


def _offset_key(key: OffsetKey) -> bytes:
    return versioned(OffsetCommitKey(key.group_id, key.topic, key.partition), Kind.OFFSET_COMMIT)


def _offset_value(record: OffsetCommit) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=record.offset,
        leader_epoch=record.leader_epoch,
        metadata=record.metadata,
        commit_timestamp=record.committed_ms,
        expire_timestamp=record.expires_ms,
        topic_id=record.topic_id or ZERO_UUID,
    )


def _group_key(group_id: str) -> bytes:
    return versioned(GroupMetadataKey(group_id), Kind.GROUP_METADATA)


def _group_value(record: GroupMetadata) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=record.protocol_type,
        generation=record.generation,
        protocol=record.protocol,
        leader=record.leader,
        current_state_timestamp=record.state_changed_ms,
        members=[
            GroupMetadataMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in record.members
        ],
    )


# -- from bytes


def _offset_key_from(key: OffsetCommitKey) -> OffsetKey:
    return OffsetKey(key.group, key.topic, key.partition)


def _offset_commit_from(key: OffsetKey, value: OffsetCommitValue) -> OffsetCommit:
    return OffsetCommit(
        key,
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        committed_ms=value.commit_timestamp,
        expires_ms=value.expire_timestamp,
        topic_id=None if value.topic_id == ZERO_UUID else value.topic_id,
    )


def _group_metadata_from(group_id: str, value: GroupMetadataValue) -> GroupMetadata:
    return GroupMetadata(
        group_id,
        protocol_type=value.protocol_type,
        generation=value.generation,
        protocol=value.protocol,
        leader=value.leader,
        state_changed_ms=value.current_state_timestamp,
        members=tuple(
            Member(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout,
                session_timeout_ms=member.session_timeout,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in value.members
        ),
    )


@cache
def _passed_over(kind: int) -> None:
    """Log that a kind is skipped: once for each kind, not for each record, since a log may hold millions."""
    name = next((known.name for known in Kind if known == kind), "unknown")
    logger.warning("records of kind %d (%s) in __consumer_offsets are not served and passed over", kind, name)
