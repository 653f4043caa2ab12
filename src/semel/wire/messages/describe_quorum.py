"""DescribeQuorum: the state of the KRaft metadata quorum, which tools for Apache Kafka query."""

from __future__ import annotations

from uuid import UUID

from semel.wire.schema import INT16, INT32, INT64, STRING, UINT16, UUID_, array, field, message, struct


@struct
class PartitionData:
    partition_index: int = field(INT32)


@struct
class TopicData:
    topic_name: str = field(STRING)
    partitions: list[PartitionData] = field(array(PartitionData))


@message(versions=(0, 2), flexible_since=0)
class DescribeQuorumRequest:
    topics: list[TopicData] = field(array(TopicData))


@struct
class ReplicaState:
    replica_id: int = field(INT32)
    replica_directory_id: UUID = field(UUID_, since=2)
    log_end_offset: int = field(INT64)
    last_fetch_timestamp: int | None = field(INT64, since=1, absent=-1)
    last_caught_up_timestamp: int | None = field(INT64, since=1, absent=-1)


@struct
class PartitionDataResponse:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=2, nullable=2)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)
    high_watermark: int = field(INT64)
    current_voters: list[ReplicaState] = field(array(ReplicaState))
    observers: list[ReplicaState] = field(array(ReplicaState))


@struct
class TopicDataResponse:
    topic_name: str = field(STRING)
    partitions: list[PartitionDataResponse] = field(array(PartitionDataResponse))


@struct
class Listener:
    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)


@struct
class Node:
    node_id: int = field(INT32)
    listeners: list[Listener] = field(array(Listener))


@message(versions=(0, 2), flexible_since=0)
class DescribeQuorumResponse:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=2, nullable=2)
    topics: list[TopicDataResponse] = field(array(TopicDataResponse))
    nodes: list[Node] = field(array(Node), since=2)
