"""CreateAcls: create ACLs. Pattern type 3 is a literal name, 4 a prefix."""

from __future__ import annotations

from semel.wire.schema import INT8, INT16, INT32, STRING, array, field, message, struct


@struct
class AclCreation:
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    resource_pattern_type: int = field(INT8, default=3)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@message(versions=(1, 3), flexible_since=2)
class CreateAclsRequest:
    creations: list[AclCreation] = field(array(AclCreation))


@struct
class AclCreationResult:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)


@message(versions=(1, 3), flexible_since=2)
class CreateAclsResponse:
    throttle_time_ms: int = field(INT32)
    results: list[AclCreationResult] = field(array(AclCreationResult))
