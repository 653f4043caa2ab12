"""ACLs: which principal may do what with which resource from which host. They are described and deleted by filter."""

from __future__ import annotations

from collections.abc import Iterable

from semel.client.admin.admin_requests import AdminRequests
from semel.client.admin.results import Results
from semel.client.machine.admin.ask import AnyBroker, Ask, Controller, Refusal, outcome
from semel.errors import ErrorCode, named
from semel.security.acls import AclBinding, AclFilter, wire_fields
from semel.wire.apis import ApiKey
from semel.wire.messages.create_acls import AclCreation, CreateAclsRequest
from semel.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest
from semel.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


class Acls:
    """``admin.acls``: describe, create and delete ACLs. Brokers without an authorizer answer SECURITY_DISABLED."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def describe(self, matching: AclFilter | None = None) -> tuple[AclBinding, ...]:
        """Return the ACLs that match a filter; all of them, without a filter.

        rules = await admin.acls.describe(AclFilter(resource_type=AclResourceType.TOPIC, resource_name="orders"))
        """
        return await self._requests.one(_DESCRIBE, matching or AclFilter())

    async def create(self, bindings: Iterable[AclBinding]) -> Results[AclBinding, None]:
        """Create ACLs, each independently of the others. It is no error if an ACL exists already.

        rule = AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
        (await admin.acls.create([rule])).all()
        """
        return await self._requests.many(_CREATE, bindings)

    async def delete(self, filters: Iterable[AclFilter]) -> Results[AclFilter, tuple[AclBinding, ...]]:
        """Delete the ACLs that match the filters. The value of a filter is the ACLs that were deleted.

        deleted = (await admin.acls.delete([AclFilter(principal="User:alice")])).all()
        """
        return await self._requests.many(_DELETE, filters)


def _described(response: DescribeAclsResponse) -> tuple[AclBinding, ...]:
    return tuple(
        AclBinding.from_wire(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for resource in response.resources
        for acl in resource.acls
    )


def _filter(matching: AclFilter) -> str:
    return f"the rules that match {matching}"


_DESCRIBE: Ask[AclFilter, tuple[AclBinding, ...]] = Ask(
    ApiKey.DESCRIBE_ACLS,
    target=lambda matching: AnyBroker(),
    build=lambda filters, version: DescribeAclsRequest(*wire_fields(filters[0])),
    read=lambda response, filters, version: [
        (filters[0], outcome(_described(response), response.error_code, response.error_message))
    ],
    name=_filter,
    is_single=True,
)

_CREATE: Ask[AclBinding, None] = Ask(
    ApiKey.CREATE_ACLS,
    target=lambda binding: Controller(),
    build=lambda bindings, version: CreateAclsRequest([AclCreation(*wire_fields(binding)) for binding in bindings]),
    # The response has no names: its results are in the order of the request.
    read=lambda response, bindings, version: [
        (binding, outcome(None, result.error_code, result.error_message))
        for binding, result in zip(bindings, response.results, strict=False)
    ],
    name=lambda binding: f"the rule: {binding}",
)


def _deleted(result: DeleteAclsFilterResult) -> tuple[AclBinding, ...] | Refusal:
    for acl in result.matching_acls:
        if acl.error_code != ErrorCode.NONE:
            return Refusal(named(acl.error_code), acl.error_message or "")
    deleted = tuple(
        AclBinding.from_wire(
            acl.resource_type,
            acl.resource_name,
            acl.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for acl in result.matching_acls
    )
    return outcome(deleted, result.error_code, result.error_message)


_DELETE: Ask[AclFilter, tuple[AclBinding, ...]] = Ask(
    ApiKey.DELETE_ACLS,
    target=lambda matching: Controller(),
    build=lambda filters, version: DeleteAclsRequest(
        [DeleteAclsFilter(*wire_fields(matching)) for matching in filters]
    ),
    read=lambda response, filters, version: [
        (matching, _deleted(result)) for matching, result in zip(filters, response.filter_results, strict=False)
    ],
    name=_filter,
)
