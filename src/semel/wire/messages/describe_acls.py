"""DescribeAcls: the ACLs that match a filter."""

from __future__ import annotations

from semel.wire.schema import INT8, INT16, INT32, STRING, array, field, message, struct


@message(versions=(1, 3), flexible_since=2)
class DescribeAclsRequest:
    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable=0)
    pattern_type_filter: int = field(INT8, default=3)
    principal_filter: str | None = field(STRING, nullable=0)
    host_filter: str | None = field(STRING, nullable=0)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@struct
class AclDescription:
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@struct
class DescribeAclsResource:
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, default=3)
    acls: list[AclDescription] = field(array(AclDescription))


@message(versions=(1, 3), flexible_since=2)
class DescribeAclsResponse:
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    resources: list[DescribeAclsResource] = field(array(DescribeAclsResource))
