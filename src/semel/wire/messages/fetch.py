"""Fetch: read record batches, as a consumer or as a follower.

Version 7 adds incremental fetch sessions, 12 the last fetched epoch, which detects divergence, 13 topic ids instead of
names, and 15 moves the follower's replica id into the tagged ``replica_state``. A consumer has no replica id.
"""

from __future__ import annotations

from uuid import UUID

from semel.types import INT32_MAX, INT64_MAX, Buffer
from semel.wire.schema import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID_, array, field, message, struct


@struct(frozen=True)
class ReplicaState:
    replica_id: int | None = field(INT32, absent=-1)
    replica_epoch: int = field(INT64, default=-1)


@struct
class FetchPartition:
    partition: int = field(INT32)
    current_leader_epoch: int | None = field(INT32, since=9, absent=-1)
    fetch_offset: int = field(INT64)
    last_fetched_epoch: int | None = field(INT32, since=12, absent=-1)
    log_start_offset: int = field(INT64, since=5, default=-1)
    partition_max_bytes: int = field(INT32)
    replica_directory_id: UUID = field(UUID_, since=17, tag=0)
    # The high watermark that the follower knows: the leader responds at once if its own is higher.
    high_watermark: int = field(INT64, since=18, tag=1, default=INT64_MAX)


@struct
class FetchTopic:
    topic: str = field(STRING, until=12)
    topic_id: UUID = field(UUID_, since=13)
    partitions: list[FetchPartition] = field(array(FetchPartition))


@struct
class ForgottenTopic:
    topic: str = field(STRING, until=12)
    topic_id: UUID = field(UUID_, since=13)
    partitions: list[int] = field(array(INT32))


@message(versions=(4, 18), flexible_since=12)
class FetchRequest:
    cluster_id: str | None = field(STRING, since=12, nullable=12, tag=0, default=None)
    replica_id: int | None = field(INT32, until=14, absent=-1)
    replica_state: ReplicaState = field(ReplicaState, since=15, tag=1)
    max_wait_ms: int = field(INT32)
    min_bytes: int = field(INT32)
    max_bytes: int = field(INT32, default=INT32_MAX)
    isolation_level: int = field(INT8)
    session_id: int = field(INT32, since=7)
    # 0 begins a session; without an epoch the request uses no session.
    session_epoch: int | None = field(INT32, since=7, absent=-1)
    topics: list[FetchTopic] = field(array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(array(ForgottenTopic), since=7)
    rack_id: str = field(STRING, since=11)


@struct(frozen=True)
class EpochEndOffset:
    epoch: int | None = field(INT32, absent=-1)
    end_offset: int | None = field(INT64, absent=-1)


@struct(frozen=True)
class LeaderIdAndEpoch:
    leader_id: int | None = field(INT32, absent=-1)
    leader_epoch: int | None = field(INT32, absent=-1)


@struct(frozen=True)
class SnapshotId:
    end_offset: int = field(INT64, default=-1)
    epoch: int = field(INT32, default=-1)


@struct
class AbortedTransaction:
    producer_id: int = field(INT64)
    first_offset: int = field(INT64)


@struct
class PartitionData:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    high_watermark: int = field(INT64, default=-1)
    last_stable_offset: int = field(INT64, default=-1)
    log_start_offset: int = field(INT64, since=5, default=-1)
    diverging_epoch: EpochEndOffset = field(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId = field(SnapshotId, since=12, tag=2)
    # Null for read_uncommitted; for read_committed every transaction whose records the consumer must drop.
    aborted_transactions: list[AbortedTransaction] | None = field(array(AbortedTransaction), nullable=4)
    preferred_read_replica: int | None = field(INT32, since=11, absent=-1)
    records: Buffer | None = field(RECORDS, nullable=0)


@struct
class FetchableTopicResponse:
    topic: str = field(STRING, until=12)
    topic_id: UUID = field(UUID_, since=13)
    partitions: list[PartitionData] = field(array(PartitionData))


@struct
class NodeEndpoint:
    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable=16, default=None)


@message(versions=(4, 18), flexible_since=12)
class FetchResponse:
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=7)
    session_id: int = field(INT32, since=7)
    responses: list[FetchableTopicResponse] = field(array(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), since=16, tag=0)
