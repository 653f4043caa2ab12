"""SyncGroup (versions 0-5): the leader of a classic group sends the assignments, and every member receives its own."""

from __future__ import annotations

from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.coordinator.decision import Waiter
from semel.coordinator.group.classic.requests import SyncRequest
from semel.coordinator.group.classic.results import SyncResult
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode
from semel.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_SINCE: Final = 5


def sync_group(node: Node, request: Request, message: SyncGroupRequest) -> SyncGroupResponse | None:
    if request.version >= PROTOCOL_SINCE and (message.protocol_type is None or message.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    asked = SyncRequest(
        group_id=message.group_id,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        generation=message.generation_id,
        protocol_type=message.protocol_type,
        protocol=message.protocol_name,
        assignments=tuple((assigned.member_id, assigned.assignment) for assigned in message.assignments),
    )

    def respond(result: SyncResult) -> None:
        request.answer_delayed(
            lambda: SyncGroupResponse(
                error_code=result.error,
                protocol_type=result.protocol_type,
                protocol_name=result.protocol,
                assignment=result.assignment,
            )
        )

    waiter = Waiter(respond, SyncResult)
    waiting = node.coordinators.groups.run(
        message.group_id, lambda shard: shard.sync_group(asked, waiter, Moment.now(node.clock)), waiter
    )
    request.hold_until_answered(waiting)
    return None
