"""LeaveGroup (versions 0-5): removes members from a group: one up to version 2, any number from version 3 on."""

from __future__ import annotations

import logging
from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.coordinator.decision import Waiter
from semel.coordinator.group.classic.requests import LeavingMember
from semel.coordinator.group.classic.results import LeaveResult
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode
from semel.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

logger = logging.getLogger("semel.broker")

BATCHES_SINCE: Final = 3


def leave_group(node: Node, request: Request, message: LeaveGroupRequest) -> None:
    is_batch = request.version >= BATCHES_SINCE
    leaving = [LeavingMember(message.member_id)]
    if is_batch:
        leaving = [LeavingMember(member.member_id, member.group_instance_id) for member in message.members]

        for member in message.members:
            if member.reason:
                logger.debug("%s leaves group %s: %s", member.member_id, message.group_id, member.reason)

    def respond(result: LeaveResult) -> None:
        request.answer_delayed(lambda: _response(result, is_batch=is_batch))

    waiting = node.coordinators.groups.run(
        message.group_id,
        lambda shard: shard.leave_group(message.group_id, leaving, Moment.now(node.clock)),
        Waiter(respond, LeaveResult),
    )
    request.hold_until_answered(waiting)


def _response(result: LeaveResult, *, is_batch: bool) -> LeaveGroupResponse:
    if is_batch:
        members = [MemberResponse(*member) for member in result.members]
        return LeaveGroupResponse(error_code=result.error, members=members)
    # Up to version 2 the error of the one member is the error of the request.
    errors = [member.error for member in result.members]
    return LeaveGroupResponse(error_code=next(filter(None, (result.error, *errors)), ErrorCode.NONE))
