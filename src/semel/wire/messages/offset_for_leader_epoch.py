"""OffsetForLeaderEpoch: the end offset of a leader epoch, from which a consumer or follower detects that it diverged.

Replica id -2, the default, is a debugging client; a consumer sends -1.
"""

from __future__ import annotations

from semel.wire.schema import INT16, INT32, INT64, STRING, array, field, message, struct


@struct
class OffsetForLeaderPartition:
    partition: int = field(INT32)
    current_leader_epoch: int | None = field(INT32, absent=-1)
    leader_epoch: int = field(INT32)


@struct
class OffsetForLeaderTopic:
    topic: str = field(STRING)
    partitions: list[OffsetForLeaderPartition] = field(array(OffsetForLeaderPartition))


@message(versions=(2, 4), flexible_since=4)
class OffsetForLeaderEpochRequest:
    replica_id: int | None = field(INT32, since=3, absent=-1, default=-2)
    topics: list[OffsetForLeaderTopic] = field(array(OffsetForLeaderTopic))


@struct
class EpochEndOffset:
    error_code: int = field(INT16)
    partition: int = field(INT32)
    leader_epoch: int | None = field(INT32, absent=-1)
    end_offset: int | None = field(INT64, absent=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: str = field(STRING)
    partitions: list[EpochEndOffset] = field(array(EpochEndOffset))


@message(versions=(2, 4), flexible_since=4)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = field(INT32)
    topics: list[OffsetForLeaderTopicResult] = field(array(OffsetForLeaderTopicResult))
