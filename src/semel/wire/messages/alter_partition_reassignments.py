"""AlterPartitionReassignments: reassign the replicas of partitions; null ``replicas`` cancel a reassignment."""

from __future__ import annotations

from semel.wire.schema import BOOL, INT16, INT32, STRING, array, field, message, struct


@struct
class ReassignablePartition:
    partition_index: int = field(INT32)
    replicas: list[int] | None = field(array(INT32), nullable=0, default=None)


@struct
class ReassignableTopic:
    name: str = field(STRING)
    partitions: list[ReassignablePartition] = field(array(ReassignablePartition))


@message(versions=(0, 1), flexible_since=0)
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = field(INT32, default=60000)
    allow_replication_factor_change: bool = field(BOOL, since=1, default=True)
    topics: list[ReassignableTopic] = field(array(ReassignableTopic))


@struct
class ReassignablePartitionResponse:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)


@struct
class ReassignableTopicResponse:
    name: str = field(STRING)
    partitions: list[ReassignablePartitionResponse] = field(array(ReassignablePartitionResponse))


@message(versions=(0, 1), flexible_since=0)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = field(INT32)
    allow_replication_factor_change: bool = field(BOOL, since=1, default=True)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    responses: list[ReassignableTopicResponse] = field(array(ReassignableTopicResponse))
