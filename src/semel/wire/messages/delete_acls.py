"""DeleteAcls: delete the ACLs that match any of the filters."""

from __future__ import annotations

from semel.wire.schema import INT8, INT16, INT32, STRING, array, field, message, struct


@struct
class DeleteAclsFilter:
    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable=0)
    pattern_type_filter: int = field(INT8, default=3)
    principal_filter: str | None = field(STRING, nullable=0)
    host_filter: str | None = field(STRING, nullable=0)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@message(versions=(1, 3), flexible_since=2)
class DeleteAclsRequest:
    filters: list[DeleteAclsFilter] = field(array(DeleteAclsFilter))


@struct
class DeleteAclsMatchingAcl:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, default=3)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@struct
class DeleteAclsFilterResult:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    matching_acls: list[DeleteAclsMatchingAcl] = field(array(DeleteAclsMatchingAcl))


@message(versions=(1, 3), flexible_since=2)
class DeleteAclsResponse:
    throttle_time_ms: int = field(INT32)
    filter_results: list[DeleteAclsFilterResult] = field(array(DeleteAclsFilterResult))
