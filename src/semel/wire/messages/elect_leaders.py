"""ElectLeaders: elect the preferred replica (type 0) or, if there is no leader, any live replica (type 1, unclean)."""

from __future__ import annotations

from semel.wire.schema import INT8, INT16, INT32, STRING, array, field, message, struct


@struct
class TopicPartitions:
    topic: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message(versions=(0, 2), flexible_since=2)
class ElectLeadersRequest:
    election_type: int = field(INT8, since=1)
    topic_partitions: list[TopicPartitions] | None = field(array(TopicPartitions), nullable=0)
    timeout_ms: int = field(INT32, default=60000)


@struct
class PartitionResult:
    partition_id: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)


@struct
class ReplicaElectionResult:
    topic: str = field(STRING)
    partition_result: list[PartitionResult] = field(array(PartitionResult))


@message(versions=(0, 2), flexible_since=2)
class ElectLeadersResponse:
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=1)
    replica_election_results: list[ReplicaElectionResult] = field(array(ReplicaElectionResult))
