"""ListOffsets (versions 1-11): the offset for a timestamp, or for one of the special timestamps.

The law: no offset is returned that the client could not fetch. The latest offset is the high watermark, or the last
stable offset for read_committed, and a record found by its timestamp counts only below that. A client with a replica id
is treated as a client without one, with one exception: for Kafka's debugging replica, which fetches nothing, the latest
offset is the log end offset.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto
from typing import Final

from semel.broker.fetch.reading import check_leader_epoch
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.errors import DecodeError, ErrorCode, KafkaError, StorageError
from semel.wire.messages.list_offsets import (
    DEBUGGING_REPLICA_ID,
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

SPECIAL_TIMES_SINCE: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

OFFSET_NOT_AVAILABLE_SINCE: Final = 5
"""Clients of earlier versions do not know this error, and get LEADER_NOT_AVAILABLE."""

_READ_COMMITTED: Final = 1
_KNOWN_AT_ONCE: Final = frozenset({EARLIEST, EARLIEST_LOCAL})


class _Bound(Enum):
    """The offset below which offsets are returned to a client."""

    LAST_STABLE = auto()
    HIGH_WATERMARK = auto()
    LOG_END = auto()


def list_offsets(node: Node, request: Request, message: ListOffsetsRequest) -> ListOffsetsResponse:
    times = Counter((topic.name, asked.partition_index) for topic in message.topics for asked in topic.partitions)
    bound = _Bound.HIGH_WATERMARK
    if message.replica_id == DEBUGGING_REPLICA_ID:
        bound = _Bound.LOG_END
    elif message.isolation_level == _READ_COMMITTED:
        bound = _Bound.LAST_STABLE
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name,
                [
                    _answer(node, topic.name, asked, request.version, bound)
                    if times[topic.name, asked.partition_index] == 1
                    else ListOffsetsPartitionResponse(asked.partition_index, ErrorCode.INVALID_REQUEST)
                    for asked in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def _answer(
    node: Node, topic: str, asked: ListOffsetsPartition, version: int, bound: _Bound
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(asked.partition_index)
    try:
        if asked.timestamp < 0 and version < SPECIAL_TIMES_SINCE.get(asked.timestamp, version + 1):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        partition = node.led_partition(topic, asked.partition_index)
        check_leader_epoch(partition, asked.current_leader_epoch)
        _look_up(partition, asked.timestamp, bound, answer)
    except KafkaError as error:
        is_known = error.code is not ErrorCode.OFFSET_NOT_AVAILABLE or version >= OFFSET_NOT_AVAILABLE_SINCE
        answer.error_code = error.code if is_known else ErrorCode.LEADER_NOT_AVAILABLE
    except (StorageError, OSError):
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    except DecodeError:
        # A batch in the log has records that cannot be decoded, which every reader will find.
        answer.error_code = ErrorCode.CORRUPT_MESSAGE
    return answer


def _look_up(partition: Partition, timestamp: int, bound: _Bound, answer: ListOffsetsPartitionResponse) -> None:
    log = partition.log
    if log.offline is not None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.offline)
    if bound is _Bound.LOG_END and timestamp == LATEST:
        answer.offset, answer.leader_epoch = log.log_end_offset, partition.leader_epoch
        return
    if timestamp not in _KNOWN_AT_ONCE and partition.replicas is not None and not partition.replicas.is_settled:
        # In an earlier term, clients may have received a higher offset than this leader knows to be committed yet.
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
    end_offset = log.last_stable_offset if bound is _Bound.LAST_STABLE else log.high_watermark
    if timestamp == LATEST:
        answer.offset, answer.leader_epoch = end_offset, partition.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = log.log_start_offset
        answer.leader_epoch = log.epochs.epoch_for(log.log_start_offset)
    elif timestamp >= 0 or timestamp == MAX_TIMESTAMP:
        found = log.largest_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
        if found is not None and found.offset < end_offset:
            answer.timestamp, answer.offset = found.timestamp, found.offset
            answer.leader_epoch = found.leader_epoch
    # The other timestamps are for tiered storage, which Semel does not have: no offset, without an error.
