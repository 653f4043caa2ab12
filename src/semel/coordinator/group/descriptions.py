"""The descriptions of groups: ListGroups and DescribeGroups."""

from __future__ import annotations

from dataclasses import dataclass

from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.classic.states import ClassicState
from semel.coordinator.group.kinds import GroupKind
from semel.coordinator.group.records import Member
from semel.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class GroupListing:
    group_id: str
    kind: GroupKind
    protocol_type: str
    state_name: str


@dataclass(frozen=True, slots=True)
class ClassicDescription:
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state_name: str = "Dead"
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[Member, ...] = ()


def describe_classic(group_id: str, group: object | None) -> ClassicDescription:
    """Return the description of a group for DescribeGroups.

    It has the protocol and the subscriptions only if the group is stable: during a rebalance they may change.
    """
    if group is None:
        return ClassicDescription(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ClassicGroup):
        return ClassicDescription(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
    is_stable = group.state is ClassicState.STABLE
    protocol = group.protocol if is_stable else None
    members = (member.recorded(protocol) for member in group.members.values())
    return ClassicDescription(
        group_id,
        state_name=group.state_name,
        protocol_type=group.protocol_type,
        protocol=protocol or "",
        members=tuple(members),
    )
