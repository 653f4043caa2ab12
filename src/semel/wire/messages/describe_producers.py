"""DescribeProducers: the producers of a partition, and the first offset of their open transactions.

The producer epoch is 32 bits wide here and 16 bits everywhere else.
"""

from __future__ import annotations

from semel.wire.schema import INT16, INT32, INT64, STRING, array, field, message, struct


@struct
class TopicRequest:
    name: str = field(STRING)
    partition_indexes: list[int] = field(array(INT32))


@message(versions=(0, 0), flexible_since=0)
class DescribeProducersRequest:
    topics: list[TopicRequest] = field(array(TopicRequest))


@struct
class ProducerState:
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT32)
    last_sequence: int | None = field(INT32, absent=-1)
    last_timestamp: int | None = field(INT64, absent=-1)
    coordinator_epoch: int | None = field(INT32, absent=-1)
    current_txn_start_offset: int | None = field(INT64, absent=-1)


@struct
class PartitionResponse:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0, default=None)
    active_producers: list[ProducerState] = field(array(ProducerState))


@struct
class TopicResponse:
    name: str = field(STRING)
    partitions: list[PartitionResponse] = field(array(PartitionResponse))


@message(versions=(0, 0), flexible_since=0)
class DescribeProducersResponse:
    throttle_time_ms: int = field(INT32)
    topics: list[TopicResponse] = field(array(TopicResponse))
