"""Heartbeat: keeps the session of a member of a classic group alive, and tells the member about rebalances."""

from __future__ import annotations

from semel.wire.schema import INT16, INT32, STRING, field, message


@message(versions=(0, 4), flexible_since=4)
class HeartbeatRequest:
    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable=3, default=None)


@message(versions=(0, 4), flexible_since=4)
class HeartbeatResponse:
    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
