"""DescribeAcls (versions 1-3): the ACLs that match a filter, grouped by resource."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode, KafkaError
from semel.metadata.security.acl_changes import describe_acls as matching
from semel.security.acls import AclBinding, AclFilter, ResourcePattern
from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType
from semel.wire.messages.delete_acls import DeleteAclsFilter
from semel.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def describe_acls(node: Node, request: Request, message: DescribeAclsRequest) -> DescribeAclsResponse:
    if node.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    found = matching(node.image, acl_filter(message))
    resources = [_resource(pattern, rules) for pattern, rules in groupby(found, attrgetter("pattern"))]
    return DescribeAclsResponse(error_code=ErrorCode.NONE, error_message=None, resources=resources)


def acl_filter(message: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        AclResourceType(message.resource_type_filter),
        message.resource_name_filter,
        message.principal_filter,
        AclOperation(message.operation),
        AclPermission(message.permission_type),
        message.host_filter,
        AclPatternType(message.pattern_type_filter),
    )


def _resource(pattern: ResourcePattern, rules: Iterable[AclBinding]) -> DescribeAclsResource:
    acls = [AclDescription(rule.principal, rule.host, rule.operation, rule.permission) for rule in rules]
    return DescribeAclsResource(pattern.resource_type, pattern.name, pattern.pattern_type, acls)
