"""The authorized operations of a client on a resource, as a bit set. Without an authorizer, all operations."""

from __future__ import annotations

from typing import Final

from semel.security.acls import CLUSTER_NAME
from semel.security.rights import DESCRIBE_CLUSTER, Right, Rights
from semel.wire.codes import AclOperation, AclResourceType

# All operations that exist for a type of resource.
_OPERATIONS: Final = {
    AclResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    AclResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
}

_ALL: Final = {kind: sum(1 << operation for operation in operations) for kind, operations in _OPERATIONS.items()}


def topic_operations(rights: Rights | None, name: str) -> int:
    return _bits(rights, AclResourceType.TOPIC, name)


def group_operations(rights: Rights | None, group_id: str) -> int:
    return _bits(rights, AclResourceType.GROUP, group_id)


def cluster_operations(rights: Rights | None) -> int:
    """Return the operations on the cluster; none if the client may not describe the cluster."""
    if rights is not None and not rights.may(DESCRIBE_CLUSTER):
        return 0
    return _bits(rights, AclResourceType.CLUSTER, CLUSTER_NAME)


def _bits(rights: Rights | None, resource_type: AclResourceType, name: str) -> int:
    if rights is None:
        return _ALL[resource_type]
    operations = _OPERATIONS[resource_type]
    return sum(1 << operation for operation in operations if rights.may(Right(operation, resource_type), name))
