"""TxnOffsetCommit: offsets of a group that become visible when the transaction commits.

From version 3 on the request has the member's generation, so that the commit of a zombie is refused. From 5 on the
partition of ``__consumer_offsets`` is added to the transaction implicitly (transactions V2).
"""

from __future__ import annotations

from semel.wire.schema import INT16, INT32, INT64, STRING, array, field, message, struct


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int | None = field(INT32, since=2, absent=-1)
    committed_metadata: str | None = field(STRING, nullable=0)


@struct
class TxnOffsetCommitRequestTopic:
    name: str = field(STRING)
    partitions: list[TxnOffsetCommitRequestPartition] = field(array(TxnOffsetCommitRequestPartition))


@message(versions=(0, 5), flexible_since=3)
class TxnOffsetCommitRequest:
    transactional_id: str = field(STRING)
    group_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    generation_id: int | None = field(INT32, since=3, absent=-1)
    member_id: str = field(STRING, since=3)
    group_instance_id: str | None = field(STRING, since=3, nullable=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(array(TxnOffsetCommitRequestTopic))


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@struct
class TxnOffsetCommitResponseTopic:
    name: str = field(STRING)
    partitions: list[TxnOffsetCommitResponsePartition] = field(array(TxnOffsetCommitResponsePartition))


@message(versions=(0, 5), flexible_since=3)
class TxnOffsetCommitResponse:
    throttle_time_ms: int = field(INT32)
    topics: list[TxnOffsetCommitResponseTopic] = field(array(TxnOffsetCommitResponseTopic))
