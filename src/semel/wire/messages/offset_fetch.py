"""OffsetFetch: the committed offsets of one group up to version 7, of many groups from version 8 on.

With ``require_stable``, offsets that an open transaction may still change are refused. Null ``topics`` mean all topics.
"""

from __future__ import annotations

from uuid import UUID

from semel.wire.schema import BOOL, INT16, INT32, INT64, STRING, UUID_, array, field, message, struct


@struct
class OffsetFetchRequestTopic:
    name: str = field(STRING)
    partition_indexes: list[int] = field(array(INT32))


@struct
class OffsetFetchRequestTopics:
    name: str = field(STRING, until=9)
    topic_id: UUID = field(UUID_, since=10)
    partition_indexes: list[int] = field(array(INT32))


@struct
class OffsetFetchRequestGroup:
    group_id: str = field(STRING)
    member_id: str | None = field(STRING, since=9, nullable=9, default=None)
    member_epoch: int | None = field(INT32, since=9, absent=-1)
    topics: list[OffsetFetchRequestTopics] | None = field(array(OffsetFetchRequestTopics), nullable=8)


@message(versions=(1, 10), flexible_since=6)
class OffsetFetchRequest:
    group_id: str = field(STRING, until=7)
    topics: list[OffsetFetchRequestTopic] | None = field(array(OffsetFetchRequestTopic), until=7, nullable=2)
    groups: list[OffsetFetchRequestGroup] = field(array(OffsetFetchRequestGroup), since=8)
    require_stable: bool = field(BOOL, since=7)


@struct
class OffsetFetchResponsePartition:
    partition_index: int = field(INT32)
    committed_offset: int | None = field(INT64, absent=-1)
    committed_leader_epoch: int | None = field(INT32, since=5, absent=-1)
    metadata: str | None = field(STRING, nullable=0)
    error_code: int = field(INT16)


@struct
class OffsetFetchResponseTopic:
    name: str = field(STRING)
    partitions: list[OffsetFetchResponsePartition] = field(array(OffsetFetchResponsePartition))


@struct
class OffsetFetchResponsePartitions:
    partition_index: int = field(INT32)
    committed_offset: int | None = field(INT64, absent=-1)
    committed_leader_epoch: int | None = field(INT32, absent=-1)
    metadata: str | None = field(STRING, nullable=8)
    error_code: int = field(INT16)


@struct
class OffsetFetchResponseTopics:
    name: str = field(STRING, until=9)
    topic_id: UUID = field(UUID_, since=10)
    partitions: list[OffsetFetchResponsePartitions] = field(array(OffsetFetchResponsePartitions))


@struct
class OffsetFetchResponseGroup:
    group_id: str = field(STRING)
    topics: list[OffsetFetchResponseTopics] = field(array(OffsetFetchResponseTopics))
    error_code: int = field(INT16)


@message(versions=(1, 10), flexible_since=6)
class OffsetFetchResponse:
    throttle_time_ms: int = field(INT32, since=3)
    topics: list[OffsetFetchResponseTopic] = field(array(OffsetFetchResponseTopic), until=7)
    error_code: int = field(INT16, since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = field(array(OffsetFetchResponseGroup), since=8)
