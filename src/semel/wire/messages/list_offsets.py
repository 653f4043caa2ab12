"""ListOffsets: the offset for a timestamp, or for one of the special timestamps."""

from __future__ import annotations

from typing import Final

from semel.wire.schema import INT8, INT16, INT32, INT64, STRING, array, field, message, struct

# Special timestamps, with the first version that has them.
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3  # 7: the record with the largest timestamp
EARLIEST_LOCAL: Final = -4  # 8: the first on local disk
LATEST_TIERED: Final = -5  # 9: the last in remote storage
EARLIEST_PENDING_UPLOAD: Final = -6  # 11: the first that is not yet in remote storage


DEBUGGING_REPLICA_ID = -2
"""The replica id of a debugging tool, which inspects a log and replicates nothing."""


@struct
class ListOffsetsPartition:
    partition_index: int = field(INT32)
    current_leader_epoch: int | None = field(INT32, since=4, absent=-1)
    timestamp: int = field(INT64)


@struct
class ListOffsetsTopic:
    name: str = field(STRING)
    partitions: list[ListOffsetsPartition] = field(array(ListOffsetsPartition))


@message(versions=(1, 11), flexible_since=6)
class ListOffsetsRequest:
    replica_id: int | None = field(INT32, absent=-1)
    isolation_level: int = field(INT8, since=2)
    topics: list[ListOffsetsTopic] = field(array(ListOffsetsTopic))
    timeout_ms: int = field(INT32, since=10)


@struct
class ListOffsetsPartitionResponse:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    timestamp: int | None = field(INT64, absent=-1)
    offset: int | None = field(INT64, absent=-1)
    leader_epoch: int | None = field(INT32, since=4, absent=-1)


@struct
class ListOffsetsTopicResponse:
    name: str = field(STRING)
    partitions: list[ListOffsetsPartitionResponse] = field(array(ListOffsetsPartitionResponse))


@message(versions=(1, 11), flexible_since=6)
class ListOffsetsResponse:
    throttle_time_ms: int = field(INT32, since=2)
    topics: list[ListOffsetsTopicResponse] = field(array(ListOffsetsTopicResponse))
