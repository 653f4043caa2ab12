"""ConsumerGroupHeartbeat: the whole of KIP-848's protocol in one request: join, stay, revoke, leave.

Null in the request means "as before". In version 1 the member chooses its own id.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from semel.wire.schema import INT16, INT32, STRING, UUID_, array, field, message, struct

# Member epochs that say what the member wants.
JOINING: Final = 0
LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2  # A static member, which comes back under its instance id.


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
    # What the member owns now: it goes on reporting a partition until it has given it up.
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
    # Null: nothing has changed since the last heartbeat.
    assignment: Assignment | None = field(Assignment, nullable=0, default=None)
