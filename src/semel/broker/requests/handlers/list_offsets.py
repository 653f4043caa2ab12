"""ListOffsets (versions 1-11): the offset for a timestamp, or for one of the special timestamps.

The law: no offset is returned that the client could not fetch. The latest offset is the high watermark, or the last
stable offset for read_committed, and a record found by its timestamp counts only below that. A client with a replica id
is treated as a client without one, with one exception: for Kafka's debugging replica, which fetches nothing, the latest
offset is the log end offset. A search for a timestamp that has to look at many batches is done in steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from semel.broker.fetch.reading import check_leader_epoch
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.errors import DecodeError, ErrorCode, KafkaError, StorageError
from semel.log.timestamp_lookup import (
    STEP_EFFORT,
    Steps,
    TimestampOffset,
    first_at_or_after,
    first_with_largest_timestamp,
)
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


def list_offsets(
    node: Node, request: Request, message: ListOffsetsRequest
) -> ListOffsetsResponse | Coroutine[Any, Any, ListOffsetsResponse]:
    times = Counter((topic.name, asked.partition_index) for topic in message.topics for asked in topic.partitions)
    bound = _Bound.HIGH_WATERMARK
    if message.replica_id == DEBUGGING_REPLICA_ID:
        bound = _Bound.LOG_END
    elif message.isolation_level == _READ_COMMITTED:
        bound = _Bound.LAST_STABLE
    long: list[_Lookup] = []

    def answer(topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        if times[topic, asked.partition_index] > 1:
            return ListOffsetsPartitionResponse(asked.partition_index, ErrorCode.INVALID_REQUEST)
        found = ListOffsetsPartitionResponse(asked.partition_index)
        lookup = _answer(node, topic, asked, request.version, bound, found)
        if lookup is not None:
            long.append(lookup)
        return found

    response = ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(topic.name, [answer(topic.name, asked) for asked in topic.partitions])
            for topic in message.topics
        ]
    )
    return _finish(node, long, response) if long else response


class _Lookup(NamedTuple):
    """A lookup by timestamp that takes more than one step, and where its result goes."""

    partition: Partition
    timestamp: int
    bound: _Bound
    answer: ListOffsetsPartitionResponse


async def _finish(node: Node, long: list[_Lookup], response: ListOffsetsResponse) -> ListOffsetsResponse:
    """Do long lookups, with turns for other work between their steps.

    One request does so at a time, because a lookup may hold a decompressed batch.
    """
    async with node.long_lookups:
        for partition, timestamp, bound, answer in long:
            with _errors_of(answer):
                found = await node.turns.run(_steps(partition, timestamp), elements=STEP_EFFORT)
                if node.partitions.get(*partition.topic_partition) is not partition:
                    raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                _take(partition, bound, found, answer)
    return response


def _answer(
    node: Node,
    topic: str,
    asked: ListOffsetsPartition,
    version: int,
    bound: _Bound,
    answer: ListOffsetsPartitionResponse,
) -> _Lookup | None:
    """Answer for one partition. Returns the lookup if it takes more than one step."""
    with _errors_of(answer):
        if asked.timestamp < 0 and version < SPECIAL_TIMES_SINCE.get(asked.timestamp, version + 1):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        partition = node.led_partition(topic, asked.partition_index)
        check_leader_epoch(partition, asked.current_leader_epoch)
        return _look_up(partition, asked.timestamp, bound, version, answer)
    return None


@contextmanager
def _errors_of(answer: ListOffsetsPartitionResponse) -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        answer.error_code = error.code
    except (StorageError, OSError):
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    except DecodeError:
        # A batch in the log has records that cannot be decoded, which every reader will find.
        answer.error_code = ErrorCode.CORRUPT_MESSAGE


def _look_up(
    partition: Partition, timestamp: int, bound: _Bound, version: int, answer: ListOffsetsPartitionResponse
) -> _Lookup | None:
    log = partition.log
    if log.offline is not None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.offline)
    if bound is _Bound.LOG_END and timestamp == LATEST:
        answer.offset, answer.leader_epoch = log.log_end_offset, partition.leader_epoch
        return None
    if timestamp not in _KNOWN_AT_ONCE and partition.replicas is not None and not partition.replicas.is_settled:
        # In an earlier term, clients may have received a higher offset than this leader knows to be committed yet.
        is_known = version >= OFFSET_NOT_AVAILABLE_SINCE
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE)
    if timestamp == LATEST:
        answer.offset, answer.leader_epoch = _end_offset(partition, bound), partition.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = log.log_start_offset
        answer.leader_epoch = log.epochs.epoch_for(log.log_start_offset)
    elif timestamp >= 0 or timestamp == MAX_TIMESTAMP:
        steps = _steps(partition, timestamp)
        try:
            next(steps)
        except StopIteration as end:
            _take(partition, bound, end.value, answer)
        else:
            steps.close()  # It may hold a decompressed batch.
            return _Lookup(partition, timestamp, bound, answer)
    # The other timestamps are for tiered storage, which Semel does not have: no offset, without an error.
    return None


def _steps(partition: Partition, timestamp: int) -> Steps:
    if timestamp == MAX_TIMESTAMP:
        return first_with_largest_timestamp(partition.log)
    return first_at_or_after(partition.log, timestamp)


def _end_offset(partition: Partition, bound: _Bound) -> int:
    return partition.log.last_stable_offset if bound is _Bound.LAST_STABLE else partition.log.high_watermark


def _take(
    partition: Partition, bound: _Bound, found: TimestampOffset | None, answer: ListOffsetsPartitionResponse
) -> None:
    if found is not None and found.offset < _end_offset(partition, bound):
        answer.timestamp, answer.offset = found.timestamp, found.offset
        answer.leader_epoch = found.leader_epoch
