"""OffsetCommit: commit offsets of a group. From version 9 on for both group protocols, from 10 on with topic ids."""

from __future__ import annotations

from uuid import UUID

from semel.wire.schema import INT16, INT32, INT64, STRING, UUID_, array, field, message, struct


@struct
class OffsetCommitRequestPartition:
    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int | None = field(INT32, since=6, absent=-1)
    committed_metadata: str | None = field(STRING, nullable=0)


@struct
class OffsetCommitRequestTopic:
    name: str = field(STRING, until=9)
    topic_id: UUID = field(UUID_, since=10)
    partitions: list[OffsetCommitRequestPartition] = field(array(OffsetCommitRequestPartition))


@message(versions=(2, 10), flexible_since=8)
class OffsetCommitRequest:
    group_id: str = field(STRING)
    generation_id_or_member_epoch: int | None = field(INT32, absent=-1)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=7, nullable=7, default=None)
    retention_time_ms: int | None = field(INT64, until=4, absent=-1)
    topics: list[OffsetCommitRequestTopic] = field(array(OffsetCommitRequestTopic))


@struct
class OffsetCommitResponsePartition:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@struct
class OffsetCommitResponseTopic:
    name: str = field(STRING, until=9)
    topic_id: UUID = field(UUID_, since=10)
    partitions: list[OffsetCommitResponsePartition] = field(array(OffsetCommitResponsePartition))


@message(versions=(2, 10), flexible_since=8)
class OffsetCommitResponse:
    throttle_time_ms: int = field(INT32, since=3)
    topics: list[OffsetCommitResponseTopic] = field(array(OffsetCommitResponseTopic))
