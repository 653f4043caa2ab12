"""Heartbeat (versions 0-4): keeps the session of a classic group's member alive, and tells it about rebalances."""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.coordinator.decision import Waiter
from semel.coordinator.group.classic import requests
from semel.coordinator.group.classic.results import HeartbeatResult
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode
from semel.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(node: Node, request: Request, message: HeartbeatRequest) -> None:
    asked = requests.HeartbeatRequest(
        message.group_id, message.member_id, message.group_instance_id, message.generation_id
    )

    def respond(result: HeartbeatResult) -> None:
        error = result.error
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # The member's session begins again when the group is loaded, so the member need not do anything.
            error = ErrorCode.NONE
        request.answer_delayed(lambda: HeartbeatResponse(error_code=error))

    waiting = node.coordinators.groups.run(
        message.group_id,
        lambda shard: shard.heartbeat(asked, Moment.now(node.clock)),
        Waiter(respond, HeartbeatResult),
        is_confirmed=False,
    )
    request.hold_until_answered(waiting)
