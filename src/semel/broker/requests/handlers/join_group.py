"""JoinGroup (versions 0-9): a member joins a group of the classic protocol, or rejoins it in a rebalance.

The response is sent when the members have joined; until then the next requests of the connection wait, as in Kafka. A
client that disconnects meanwhile stays a member of the next generation, until its session times out.
"""

from __future__ import annotations

import logging
from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.coordinator.decision import Waiter
from semel.coordinator.group.classic.requests import JoinRequest, OfferedProtocol
from semel.coordinator.group.classic.results import JoinResult
from semel.coordinator.moment import Moment
from semel.types import random_uuid
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

logger = logging.getLogger("semel.broker")

REBALANCE_TIMEOUT_SINCE: Final = 1
MEMBER_ID_REQUIRED_SINCE: Final = 4
NULL_PROTOCOL_SINCE: Final = 7
SKIP_ASSIGNMENT_SINCE: Final = 9


def join_group(node: Node, request: Request, message: JoinGroupRequest) -> None:
    if message.reason:
        logger.debug("%s joins group %s: %s", message.member_id or request.client_id, message.group_id, message.reason)
    has_rebalance_timeout = request.version >= REBALANCE_TIMEOUT_SINCE
    asked = JoinRequest(
        group_id=message.group_id,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        client_id=request.client_id or "",
        client_host=f"/{request.peer_host}",  # With the slash that Java prints before an address, as tools expect it.
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=message.rebalance_timeout_ms if has_rebalance_timeout else message.session_timeout_ms,
        protocol_type=message.protocol_type,
        protocols=tuple(OfferedProtocol(offered.name, offered.metadata) for offered in message.protocols),
        uuid=random_uuid(node.random),
        knows_required_id=request.version >= MEMBER_ID_REQUIRED_SINCE,
        knows_skipped_assignment=request.version >= SKIP_ASSIGNMENT_SINCE,
    )

    def respond(result: JoinResult) -> None:
        request.answer_delayed(lambda: _response(result, request.version))

    waiter = Waiter(respond, refused=lambda error: JoinResult(error, message.member_id))
    waiting = node.coordinators.groups.run(
        message.group_id, lambda shard: shard.join_group(asked, waiter, Moment.now(node.clock)), waiter
    )
    request.hold_until_answered(waiting)


def _response(result: JoinResult, version: int) -> JoinGroupResponse:
    protocol = result.protocol
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name="" if protocol is None and version < NULL_PROTOCOL_SINCE else protocol,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[JoinGroupResponseMember(*member) for member in result.members],
    )
