"""OffsetDelete: delete committed offsets of topics that the group is not subscribed to."""

from __future__ import annotations

from semel.wire.schema import INT16, INT32, STRING, array, field, message, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: int = field(INT32)


@struct
class OffsetDeleteRequestTopic:
    name: str = field(STRING)
    partitions: list[OffsetDeleteRequestPartition] = field(array(OffsetDeleteRequestPartition))


@message(versions=(0, 0), flexible_since=None)
class OffsetDeleteRequest:
    group_id: str = field(STRING)
    topics: list[OffsetDeleteRequestTopic] = field(array(OffsetDeleteRequestTopic))


@struct
class OffsetDeleteResponsePartition:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@struct
class OffsetDeleteResponseTopic:
    name: str = field(STRING)
    partitions: list[OffsetDeleteResponsePartition] = field(array(OffsetDeleteResponsePartition))


@message(versions=(0, 0), flexible_since=None)
class OffsetDeleteResponse:
    error_code: int = field(INT16)
    throttle_time_ms: int = field(INT32)
    topics: list[OffsetDeleteResponseTopic] = field(array(OffsetDeleteResponseTopic))
