"""The bits that say what a client may do, for the requests that ask. Without an authorizer everybody may do all."""

from __future__ import annotations

from typing import Final

from semel.wire.codes import AclOperation


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS: Final = _bits(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)

CLUSTER_OPERATIONS: Final = _bits(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)

GROUP_OPERATIONS: Final = _bits(
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
