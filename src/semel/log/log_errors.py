"""The errors of a partition's log: which error a client receives, and which disk errors take the log offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from semel.errors import DecodeError, ErrorCode, KafkaError
from semel.log.disk import NO_ROOM, NOT_OPENED
from semel.types import INT32_MAX, INT64_MAX, TopicPartition
from semel.wire.records import BatchHeader, range_of

if TYPE_CHECKING:
    from semel.log.partition_log import PartitionLog
    from semel.log.segments.segment import Segment


def refusal(log: PartitionLog) -> KafkaError:
    """The error for a request to a log that is offline or suspended."""
    state = f"is offline: {log.offline}" if log.offline is not None else f"takes no records: {log.suspended}"
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.topic_partition} {state}")


def out_of_range(log: PartitionLog, offset: int) -> KafkaError:
    return KafkaError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"offset {offset} of {log.topic_partition}; it holds {log.log_start_offset} to {log.log_end_offset}",
    )


def read_failed(log: PartitionLog, error: OSError | DecodeError) -> KafkaError:
    """The error for the client whose read failed. The log goes offline on an ``OSError``, unless a file just could not
    be opened (``NOT_OPENED``)."""
    if isinstance(error, DecodeError):
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic_partition}: {error}")
    if error.errno not in NOT_OPENED:
        log.go_offline(f"read failed: {error}")
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.topic_partition}: read failed: {error}")


def write_failed(log: PartitionLog, segment: Segment, size_before: int, error: OSError) -> KafkaError:
    """Undo a write that failed. Returns the error for the client."""
    _undo_write(log, segment, size_before, error)
    if log.offline is None:  # Otherwise ``go_offline`` has logged this error already.
        log.on_refused(log.topic_partition, error)
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.topic_partition}: write failed: {error}")


def _undo_write(log: PartitionLog, segment: Segment, size_before: int, error: OSError) -> None:
    """Truncate the segment to its size before a failed append. The log goes offline, unless the disk is just full."""
    try:
        segment.file.truncate(size_before)
    except OSError as second:
        log.go_offline(f"write failed ({error}), and so did undoing it ({second})")
        return
    if error.errno not in NO_ROOM:
        log.go_offline(f"write failed: {error}")


def does_not_follow(
    topic_partition: TopicPartition, header: BatchHeader, log_end_offset: int, epoch: int = 0
) -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"a batch at offset {header.base_offset} of {topic_partition}, which ends at {log_end_offset}, "
        f"has {range_of(header)}; its leader epoch is {header.partition_leader_epoch}, the least is {epoch}; "
        f"offsets grow, by {INT32_MAX} at most, and stay below {INT64_MAX}",
    )
