"""LeaveGroup: remove members from a group: one up to version 2, any number from version 3 on."""

from __future__ import annotations

from semel.wire.schema import INT16, INT32, STRING, array, field, message, struct


@struct
class MemberIdentity:
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, nullable=3, default=None)
    reason: str | None = field(STRING, since=5, nullable=5, default=None)


@message(versions=(0, 5), flexible_since=4)
class LeaveGroupRequest:
    group_id: str = field(STRING)
    member_id: str = field(STRING, until=2)
    members: list[MemberIdentity] = field(array(MemberIdentity), since=3)


@struct
class MemberResponse:
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, nullable=3)
    error_code: int = field(INT16)


@message(versions=(0, 5), flexible_since=4)
class LeaveGroupResponse:
    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    members: list[MemberResponse] = field(array(MemberResponse), since=3)
