"""DeleteRecords: raise the log start offset. Offset -1 means the high watermark."""

from __future__ import annotations

from semel.wire.schema import INT16, INT32, INT64, STRING, array, field, message, struct


@struct
class DeleteRecordsPartition:
    partition_index: int = field(INT32)
    offset: int | None = field(INT64, absent=-1)


@struct
class DeleteRecordsTopic:
    name: str = field(STRING)
    partitions: list[DeleteRecordsPartition] = field(array(DeleteRecordsPartition))


@message(versions=(0, 2), flexible_since=2)
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = field(array(DeleteRecordsTopic))
    timeout_ms: int = field(INT32)


@struct
class DeleteRecordsPartitionResult:
    partition_index: int = field(INT32)
    low_watermark: int | None = field(INT64, absent=-1)
    error_code: int = field(INT16)


@struct
class DeleteRecordsTopicResult:
    name: str = field(STRING)
    partitions: list[DeleteRecordsPartitionResult] = field(array(DeleteRecordsPartitionResult))


@message(versions=(0, 2), flexible_since=2)
class DeleteRecordsResponse:
    throttle_time_ms: int = field(INT32)
    topics: list[DeleteRecordsTopicResult] = field(array(DeleteRecordsTopicResult))
