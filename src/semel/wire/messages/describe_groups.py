"""DescribeGroups: classic groups with members and assignments. From version 6 on with GROUP_ID_NOT_FOUND."""

from __future__ import annotations

from semel.wire.schema import BOOL, BYTES, INT16, INT32, STRING, array, field, message, struct


@message(versions=(0, 6), flexible_since=5)
class DescribeGroupsRequest:
    groups: list[str] = field(array(STRING))
    include_authorized_operations: bool = field(BOOL, since=3)


@struct
class DescribedGroupMember:
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=4, nullable=4, default=None)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    member_metadata: bytes = field(BYTES)
    member_assignment: bytes = field(BYTES)


@struct
class DescribedGroup:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=6, nullable=6, default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    protocol_type: str = field(STRING)
    protocol_data: str = field(STRING)
    members: list[DescribedGroupMember] = field(array(DescribedGroupMember))
    authorized_operations: int | None = field(INT32, since=3, absent=-(2**31))


@message(versions=(0, 6), flexible_since=5)
class DescribeGroupsResponse:
    throttle_time_ms: int = field(INT32, since=1)
    groups: list[DescribedGroup] = field(array(DescribedGroup))
