"""ConsumerGroupHeartbeat: join, stay in and leave a group of the consumer protocol (KIP-848), and revoke partitions.

A null field in the request means that it has not changed. From version 1 on the member chooses its own id.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from semel.wire.schema import INT16, INT32, STRING, UUID_, array, field, message, struct

# Member epochs in requests that mean something else than the member's epoch.
JOINING: Final = 0
LEAVING: Final = -1
LEAVING_STATIC_MEMBER: Final = -2  # A static member, which will rejoin with its instance id.


@struct
class TopicPartitions:
    topic_id: UUID = field(UUID_)
    partitions: list[int] = field(array(INT32))


@message(versions=(0, 1), flexible_since=0)
class ConsumerGroupHeartbeatRequest:
    group_id: str = field(STRING)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    instance_id: str | None = field(STRING, nullable=0, default=None)
    rack_id: str | None = field(STRING, nullable=0, default=None)
    rebalance_timeout_ms: int | None = field(INT32, absent=-1)
    subscribed_topic_names: list[str] | None = field(array(STRING), nullable=0, default=None)
    subscribed_topic_regex: str | None = field(STRING, since=1, nullable=1, default=None)
    server_assignor: str | None = field(STRING, nullable=0, default=None)
    # The partitions that the member owns now. It reports a partition until it has revoked it.
    topic_partitions: list[TopicPartitions] | None = field(array(TopicPartitions), nullable=0, default=None)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field(array(TopicPartitions))


@message(versions=(0, 1), flexible_since=0)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0, default=None)
    member_id: str | None = field(STRING, nullable=0, default=None)
    member_epoch: int = field(INT32)
    heartbeat_interval_ms: int = field(INT32)
    # Null if the assignment has not changed since the last heartbeat.
    assignment: Assignment | None = field(Assignment, nullable=0, default=None)
