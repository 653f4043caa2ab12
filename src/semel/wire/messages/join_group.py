"""JoinGroup: join a group of the classic protocol, or rejoin it in a rebalance."""

from __future__ import annotations

from semel.wire.schema import BOOL, BYTES, INT16, INT32, STRING, array, field, message, struct


@struct
class JoinGroupRequestProtocol:
    name: str = field(STRING)
    metadata: bytes = field(BYTES)


@message(versions=(0, 9), flexible_since=6)
class JoinGroupRequest:
    group_id: str = field(STRING)
    session_timeout_ms: int = field(INT32)
    rebalance_timeout_ms: int = field(INT32, since=1, default=-1)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=5, nullable=5, default=None)
    protocol_type: str = field(STRING)
    protocols: list[JoinGroupRequestProtocol] = field(array(JoinGroupRequestProtocol))
    reason: str | None = field(STRING, since=8, nullable=8, default=None)


@struct
class JoinGroupResponseMember:
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=5, nullable=5, default=None)
    metadata: bytes = field(BYTES)


@message(versions=(0, 9), flexible_since=6)
class JoinGroupResponse:
    throttle_time_ms: int = field(INT32, since=2)
    error_code: int = field(INT16)
    generation_id: int | None = field(INT32, absent=-1)
    protocol_type: str | None = field(STRING, since=7, nullable=7, default=None)
    protocol_name: str | None = field(STRING, nullable=7)
    leader: str = field(STRING)
    skip_assignment: bool = field(BOOL, since=9)
    member_id: str = field(STRING)
    members: list[JoinGroupResponseMember] = field(array(JoinGroupResponseMember))
