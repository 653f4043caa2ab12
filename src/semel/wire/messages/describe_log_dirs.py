"""DescribeLogDirs: the size of each partition on disk. Null ``topics`` mean all topics."""

from __future__ import annotations

from semel.wire.schema import BOOL, INT16, INT32, INT64, STRING, array, field, message, struct


@struct
class DescribableLogDirTopic:
    topic: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message(versions=(1, 5), flexible_since=2)
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = field(array(DescribableLogDirTopic), nullable=0)


@struct
class DescribeLogDirsPartition:
    partition_index: int = field(INT32)
    partition_size: int = field(INT64)
    offset_lag: int = field(INT64)
    is_future_key: bool = field(BOOL)


@struct
class DescribeLogDirsTopic:
    name: str = field(STRING)
    partitions: list[DescribeLogDirsPartition] = field(array(DescribeLogDirsPartition))


@struct
class DescribeLogDirsResult:
    error_code: int = field(INT16)
    log_dir: str = field(STRING)
    topics: list[DescribeLogDirsTopic] = field(array(DescribeLogDirsTopic))
    total_bytes: int | None = field(INT64, since=4, absent=-1)
    usable_bytes: int | None = field(INT64, since=4, absent=-1)
    is_cordoned: bool = field(BOOL, since=5)


@message(versions=(1, 5), flexible_since=2)
class DescribeLogDirsResponse:
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=3)
    results: list[DescribeLogDirsResult] = field(array(DescribeLogDirsResult))
