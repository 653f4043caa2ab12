"""CreateAcls (versions 1-3): creates ACLs. The rules are in ``semel.metadata.security.acl_changes``."""

from __future__ import annotations

from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.security_change import change_security
from semel.errors import ErrorCode
from semel.metadata.controller import Refusal
from semel.metadata.security.acl_changes import AclResult
from semel.metadata.security.acl_changes import create_acls as decide
from semel.security.acls import AclBinding
from semel.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse

NO_AUTHORIZER: Final = Refusal(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


async def create_acls(node: Node, request: Request, message: CreateAclsRequest) -> CreateAclsResponse:
    def refused(refusal: Refusal) -> list[AclResult]:
        return [AclResult(refusal=refusal)] * len(message.creations)

    if node.authorizer is None:
        return CreateAclsResponse(results=[_result(result) for result in refused(NO_AUTHORIZER)])
    wanted = [_binding(creation) for creation in message.creations]
    results = await change_security(node, lambda image: decide(image, wanted), refused=refused)
    return CreateAclsResponse(results=[_result(result) for result in results])


def _binding(creation: AclCreation) -> AclBinding:
    return AclBinding.from_wire(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _result(result: AclResult) -> AclCreationResult:
    if result.refusal is None:
        return AclCreationResult(ErrorCode.NONE, None)
    return AclCreationResult(result.refusal.code, result.refusal.message)
