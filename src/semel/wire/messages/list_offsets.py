"""ListOffsets: the offset for a timestamp, or for one of the special timestamps.

Special timestamps, with the version that brought them: -1 latest, -2 earliest, -3 the record with the largest
timestamp (7), -4 earliest on local disk (8), -5 last in remote storage (9), -6 first not yet in remote storage (11).
"""

from __future__ import annotations

from semel.wire.schema import INT8, INT16, INT32, INT64, STRING, array, field, message, struct


@struct
class ListOffsetsPartition:
    partition_index: int = field(INT32)
    current_leader_epoch: int = field(INT32, since=4, default=-1)
    timestamp: int = field(INT64)


@struct
class ListOffsetsTopic:
    name: str = field(STRING)
    partitions: list[ListOffsetsPartition] = field(array(ListOffsetsPartition))


@message(versions=(1, 11), flexible_since=6)
class ListOffsetsRequest:
    replica_id: int = field(INT32)
    isolation_level: int = field(INT8, since=2)
    topics: list[ListOffsetsTopic] = field(array(ListOffsetsTopic))
    timeout_ms: int = field(INT32, since=10)


@struct
class ListOffsetsPartitionResponse:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    timestamp: int = field(INT64, default=-1)
    offset: int = field(INT64, default=-1)
    leader_epoch: int = field(INT32, since=4, default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str = field(STRING)
    partitions: list[ListOffsetsPartitionResponse] = field(array(ListOffsetsPartitionResponse))


@message(versions=(1, 11), flexible_since=6)
class ListOffsetsResponse:
    throttle_time_ms: int = field(INT32, since=2)
    topics: list[ListOffsetsTopicResponse] = field(array(ListOffsetsTopicResponse))
