"""Produce: append record batches to partitions.

Version 3 is the first with record batches v2 and transactions; 12 adds partitions to the transaction implicitly
(transactions V2); 13 has topic ids instead of names. With ``acks`` 0 there is no response at all.
"""

from __future__ import annotations

from uuid import UUID

from semel.types import Buffer
from semel.wire.schema import INT16, INT32, INT64, RECORDS, STRING, UUID_, array, field, message, struct


@struct
class PartitionProduceData:
    index: int = field(INT32)
    records: Buffer | None = field(RECORDS, nullable=0)


@struct
class TopicProduceData:
    name: str = field(STRING, until=12)
    topic_id: UUID = field(UUID_, since=13)
    partition_data: list[PartitionProduceData] = field(array(PartitionProduceData))


@message(versions=(3, 13), flexible_since=9)
class ProduceRequest:
    transactional_id: str | None = field(STRING, nullable=3, default=None)
    acks: int = field(INT16)
    timeout_ms: int = field(INT32)
    topic_data: list[TopicProduceData] = field(array(TopicProduceData))


@struct
class BatchIndexAndErrorMessage:
    batch_index: int = field(INT32)
    batch_index_error_message: str | None = field(STRING, nullable=8, default=None)


@struct(frozen=True)
class LeaderIdAndEpoch:
    leader_id: int | None = field(INT32, absent=-1)
    leader_epoch: int | None = field(INT32, absent=-1)


@struct
class PartitionProduceResponse:
    index: int = field(INT32)
    error_code: int = field(INT16)
    base_offset: int | None = field(INT64, absent=-1)
    log_append_time_ms: int | None = field(INT64, absent=-1)
    log_start_offset: int | None = field(INT64, since=5, absent=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(array(BatchIndexAndErrorMessage), since=8)
    error_message: str | None = field(STRING, since=8, nullable=8, default=None)
    # The current leader, with NOT_LEADER_OR_FOLLOWER.
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=10, tag=0)


@struct
class TopicProduceResponse:
    name: str = field(STRING, until=12)
    topic_id: UUID = field(UUID_, since=13)
    partition_responses: list[PartitionProduceResponse] = field(array(PartitionProduceResponse))


@struct
class NodeEndpoint:
    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable=10, default=None)


@message(versions=(3, 13), flexible_since=9)
class ProduceResponse:
    responses: list[TopicProduceResponse] = field(array(TopicProduceResponse))
    throttle_time_ms: int = field(INT32)
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), since=10, tag=0)
