"""DeleteAcls (versions 1-3): deletes all ACLs that match a filter, for each filter."""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.create_acls import NO_AUTHORIZER
from semel.broker.requests.handlers.describe_acls import acl_filter
from semel.broker.requests.handlers.security_change import change_security
from semel.errors import ErrorCode
from semel.metadata.controller import Refusal
from semel.metadata.security.acl_changes import AclResult
from semel.metadata.security.acl_changes import delete_acls as decide
from semel.security.acls import AclBinding, wire_fields
from semel.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


async def delete_acls(node: Node, request: Request, message: DeleteAclsRequest) -> DeleteAclsResponse:
    def refused(refusal: Refusal) -> list[AclResult]:
        return [AclResult(refusal=refusal)] * len(message.filters)

    if node.authorizer is None:
        return DeleteAclsResponse(filter_results=[_result(result) for result in refused(NO_AUTHORIZER)])
    wanted = [acl_filter(one) for one in message.filters]
    results = await change_security(node, lambda image: decide(image, wanted), refused=refused)
    return DeleteAclsResponse(filter_results=[_result(result) for result in results])


def _result(result: AclResult) -> DeleteAclsFilterResult:
    if result.refusal is not None:
        return DeleteAclsFilterResult(result.refusal.code, result.refusal.message, [])
    return DeleteAclsFilterResult(ErrorCode.NONE, None, [_deleted(binding) for binding in result.found])


def _deleted(binding: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(ErrorCode.NONE, None, *wire_fields(binding))
