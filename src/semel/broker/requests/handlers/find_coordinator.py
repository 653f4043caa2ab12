"""FindCoordinator (versions 0-6): the broker that coordinates a group or a transactional id.

The first request creates the internal topic, and its response is sent when the topic exists, so that no client has to
retry. Only if the creation fails or takes too long, the error is COORDINATOR_NOT_AVAILABLE. If the partition of the id
is damaged, the error is UNKNOWN_SERVER_ERROR with the reason and the remedy: KAFKA_STORAGE_ERROR and
COORDINATOR_NOT_AVAILABLE are retriable, and a client would retry for ever.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from semel.broker.coordinators.coordinator import Coordinator as ShardedCoordinator
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode
from semel.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

BATCHES_SINCE: Final = 4
SHARE_SINCE: Final = 6

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2


def find_coordinator(
    node: Node, request: Request, message: FindCoordinatorRequest
) -> FindCoordinatorResponse | Coroutine[Any, Any, FindCoordinatorResponse]:
    coordinator = _coordinator(node, message.key_type)
    is_asked = bool(message.coordinator_keys) or request.version < BATCHES_SINCE
    if coordinator is not None and is_asked and coordinator.topic not in node.image.topics:
        return _created(coordinator, node, request, message)
    return _answer(node, request, message)


async def _created(
    coordinator: ShardedCoordinator[Any], node: Node, request: Request, message: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    await coordinator.create_topic()
    return _answer(node, request, message)


def _answer(node: Node, request: Request, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if request.version >= BATCHES_SINCE:
        return FindCoordinatorResponse(
            coordinators=[_found(node, request, message.key_type, key) for key in message.coordinator_keys]
        )
    found = _found(node, request, message.key_type, message.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _coordinator(node: Node, key_type: int) -> ShardedCoordinator[Any] | None:
    match key_type:
        case 0:
            return node.coordinators.groups
        case 1:
            return node.coordinators.transactions
        case _:
            return None


def _found(node: Node, request: Request, key_type: int, key: str) -> Coordinator:
    known = (GROUP, TRANSACTION) if request.version < SHARE_SINCE else (GROUP, TRANSACTION, SHARE)
    if key_type not in known:
        return _refused(key, ErrorCode.INVALID_REQUEST, f"key type {key_type}; it must be one of {known}")
    coordinator = _coordinator(node, key_type)
    if coordinator is None:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker coordinates no share groups")
    broker = coordinator.broker_for(key)
    if broker is None:
        text = f"{coordinator.topic} has no leader for partition {coordinator.partition_for(key)}"
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
    reason = coordinator.why_broken(key)
    if reason is not None:
        # Not a retriable code: this error stays until an operator repairs the files.
        return _refused(key, ErrorCode.UNKNOWN_SERVER_ERROR, reason)
    endpoint = broker.endpoint(request.listener)
    if endpoint is None:
        text = f"the coordinator, broker {broker.node_id}, has no listener {request.listener}"
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
    return Coordinator(key, broker.node_id, endpoint.host, endpoint.port, ErrorCode.NONE, error_message=None)


def _refused(key: str, code: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key, error_code=code, error_message=text)
