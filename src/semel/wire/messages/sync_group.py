"""SyncGroup: the leader of a classic group sends the assignments, and every member receives its own."""

from __future__ import annotations

from semel.wire.schema import BYTES, INT16, INT32, STRING, array, field, message, struct


@struct
class SyncGroupRequestAssignment:
    member_id: str = field(STRING)
    assignment: bytes = field(BYTES)


@message(versions=(0, 5), flexible_since=4)
class SyncGroupRequest:
    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable=3, default=None)
    protocol_type: str | None = field(STRING, since=5, nullable=5, default=None)
    protocol_name: str | None = field(STRING, since=5, nullable=5, default=None)
    assignments: list[SyncGroupRequestAssignment] = field(array(SyncGroupRequestAssignment))


@message(versions=(0, 5), flexible_since=4)
class SyncGroupResponse:
    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    protocol_type: str | None = field(STRING, since=5, nullable=5, default=None)
    protocol_name: str | None = field(STRING, since=5, nullable=5, default=None)
    assignment: bytes = field(BYTES)
