"""ListGroups: the groups of one coordinator, filtered by state (from version 4 on) and type (from 5 on)."""

from __future__ import annotations

from semel.wire.schema import INT16, INT32, STRING, array, field, message, struct


@message(versions=(0, 5), flexible_since=3)
class ListGroupsRequest:
    states_filter: list[str] = field(array(STRING), since=4)
    types_filter: list[str] = field(array(STRING), since=5)


@struct
class ListedGroup:
    group_id: str = field(STRING)
    protocol_type: str = field(STRING)
    group_state: str = field(STRING, since=4)
    group_type: str = field(STRING, since=5)


@message(versions=(0, 5), flexible_since=3)
class ListGroupsResponse:
    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    groups: list[ListedGroup] = field(array(ListedGroup))
