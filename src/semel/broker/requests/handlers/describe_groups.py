"""DescribeGroups (versions 0-6): classic groups with their members and assignments.

The state of a group that does not exist is Dead; from version 6 on it also has the error GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.ask_each import Respond, ask_each
from semel.broker.requests.handlers.authorized_operations import group_operations
from semel.coordinator.decision import Decision, Waiter
from semel.coordinator.group.descriptions import ClassicDescription
from semel.errors import ErrorCode
from semel.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOT_FOUND_SINCE: Final = 6


def describe_groups(node: Node, request: Request, message: DescribeGroupsRequest) -> None:
    rights = node.rights(request)

    def describe(group_id: str, respond: Respond[DescribedGroup]) -> None:
        operations = group_operations(rights, group_id) if message.include_authorized_operations else None
        node.coordinators.groups.run(
            group_id,
            lambda shard: Decision(_described(shard.describe_classic(group_id), request.version, operations)),
            Waiter(respond, refused=lambda error: DescribedGroup(error_code=error, group_id=group_id)),
        )

    asked = list(dict.fromkeys(message.groups))
    ask_each(request, asked, describe, lambda described: DescribeGroupsResponse(groups=described))


def _described(group: ClassicDescription, version: int, operations: int | None) -> DescribedGroup:
    error, text = group.error, group.error_message
    if error is ErrorCode.GROUP_ID_NOT_FOUND and version < NOT_FOUND_SINCE:
        error, text = ErrorCode.NONE, None
    return DescribedGroup(
        error_code=error,
        error_message=text,
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.subscription,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=operations if error is ErrorCode.NONE else None,
    )
