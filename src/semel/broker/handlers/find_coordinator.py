"""FindCoordinator (versions 0-6): who coordinates a group or a transactional id.

Transactions have no coordinator yet: COORDINATOR_NOT_AVAILABLE. For a group this broker names itself, although it
serves none of the requests of groups yet. A consumer that has positions to commit then learns at once that it cannot
("not supported by broker"); told that there is no coordinator, librdkafka's ``close()`` would wait for one until its
session timeout, 45 seconds.
"""

from __future__ import annotations

from typing import Final

from semel.broker.node import Node
from semel.broker.request import Request
from semel.errors import ErrorCode
from semel.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

BATCHES_SINCE: Final = 4
SHARE_SINCE: Final = 6

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

_NOBODY: Final = -1


def find_coordinator(node: Node, request: Request, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if request.version >= BATCHES_SINCE:
        return FindCoordinatorResponse(
            coordinators=[_found(node, request.version, message.key_type, key) for key in message.coordinator_keys]
        )
    found = _found(node, request.version, message.key_type, message.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _found(node: Node, version: int, key_type: int, key: str) -> Coordinator:
    known = (GROUP, TRANSACTION) if version < SHARE_SINCE else (GROUP, TRANSACTION, SHARE)
    if key_type not in known:
        return _nobody(key, ErrorCode.INVALID_REQUEST, f"key type {key_type}; it must be one of {known}")
    own = node.image.brokers.get(node.config.node_id)
    if key_type != GROUP or own is None:
        return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker does not coordinate transactions yet")
    return Coordinator(key, own.node_id, own.host, own.port, ErrorCode.NONE, error_message=None)


def _nobody(key: str, code: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key, _NOBODY, "", _NOBODY, code, error_message=text)
