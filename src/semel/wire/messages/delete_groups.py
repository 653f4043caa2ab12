"""DeleteGroups: delete groups without members, and their offsets."""

from __future__ import annotations

from semel.wire.schema import INT16, INT32, STRING, array, field, message, struct


@message(versions=(0, 2), flexible_since=2)
class DeleteGroupsRequest:
    groups_names: list[str] = field(array(STRING))


@struct
class DeletableGroupResult:
    group_id: str = field(STRING)
    error_code: int = field(INT16)


@message(versions=(0, 2), flexible_since=2)
class DeleteGroupsResponse:
    throttle_time_ms: int = field(INT32)
    results: list[DeletableGroupResult] = field(array(DeletableGroupResult))
