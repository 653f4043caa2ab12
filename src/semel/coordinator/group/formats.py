"""The bytes of records in ``__consumer_offsets``, as Kafka 4.3 writes and reads them.

A key and a value each begin with an int16. In a key it is the kind of the record, in a value the version in which the
value is written. The kinds 0 and 1 are both committed offsets; Kafka 0.8 wrote kind 0.
"""

from __future__ import annotations

from enum import IntEnum
from uuid import UUID

from semel.wire.schema import BYTES, INT32, INT64, STRING, UUID_, array, field, message, struct


class Kind(IntEnum):
    """The kind of a record: the first two bytes of its key."""

    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    SHARE_GROUP_MEMBER_METADATA = 10
    SHARE_GROUP_METADATA = 11
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA = 12
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER = 13
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT = 14
    SHARE_GROUP_STATE_PARTITION_METADATA = 15
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16
    STREAMS_GROUP_METADATA = 17
    STREAMS_GROUP_MEMBER_METADATA = 19
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA = 20
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER = 21
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT = 22
    STREAMS_GROUP_TOPOLOGY = 23


@message(versions=(0, 1), flexible_since=None)
class OffsetCommitKey:
    group: str = field(STRING)
    topic: str = field(STRING)
    partition: int = field(INT32)


@message(versions=(0, 4), flexible_since=4)
class OffsetCommitValue:
    offset: int = field(INT64)
    leader_epoch: int | None = field(INT32, since=3, absent=-1)
    metadata: str = field(STRING)
    commit_timestamp: int = field(INT64)
    expire_timestamp: int | None = field(INT64, since=1, until=1, absent=-1)
    topic_id: UUID = field(UUID_, since=4, tag=0)


@message(versions=(2, 2), flexible_since=None)
class GroupMetadataKey:
    group: str = field(STRING)


@struct
class GroupMetadataMember:
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable=3, default=None)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    rebalance_timeout: int | None = field(INT32, since=1, absent=-1)
    session_timeout: int = field(INT32)
    subscription: bytes = field(BYTES)
    assignment: bytes = field(BYTES)


@message(versions=(0, 4), flexible_since=4)
class GroupMetadataValue:
    protocol_type: str = field(STRING)
    generation: int = field(INT32)
    protocol: str | None = field(STRING, nullable=0)
    leader: str | None = field(STRING, nullable=0)
    current_state_timestamp: int | None = field(INT64, since=2, absent=-1)
    members: list[GroupMetadataMember] = field(array(GroupMetadataMember))
