"""CreatePartitions: raise the number of partitions of topics to ``count``."""

from __future__ import annotations

from semel.wire.schema import BOOL, INT16, INT32, STRING, array, field, message, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[int] = field(array(INT32))


@struct
class CreatePartitionsTopic:
    name: str = field(STRING)
    count: int = field(INT32)
    assignments: list[CreatePartitionsAssignment] | None = field(
        array(CreatePartitionsAssignment), nullable=0, default=None
    )


@message(versions=(0, 3), flexible_since=2)
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = field(array(CreatePartitionsTopic))
    timeout_ms: int = field(INT32)
    validate_only: bool = field(BOOL)


@struct
class CreatePartitionsTopicResult:
    name: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0, default=None)


@message(versions=(0, 3), flexible_since=2)
class CreatePartitionsResponse:
    throttle_time_ms: int = field(INT32)
    results: list[CreatePartitionsTopicResult] = field(array(CreatePartitionsTopicResult))
