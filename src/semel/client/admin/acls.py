"""ACLs: who may do what with which resource, from where. Described, created and deleted by what matches a filter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from semel.client.admin.asking import Asker
from semel.client.admin.results import Results
from semel.client.machine.admin.ask import AnyBroker, Ask, Controller, Refusal, outcome
from semel.errors import ErrorCode, named
from semel.wire.apis import ApiKey
from semel.wire.codes import AclOperation, Code
from semel.wire.messages.create_acls import AclCreation, CreateAclsRequest
from semel.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest
from semel.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


class AclResourceType(Code):
    """Numbered as on the wire."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPatternType(Code):
    """How a name is meant. MATCH is for filters: whatever rule would hold for this name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermission(Code):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class AclBinding:
    """One rule: ``principal`` ("User:alice") may, or may not, do ``operation`` with the resource, from ``host``.

    A literal name of ``*`` means every resource of the type; the cluster's name is ``kafka-cluster``.
    """

    resource_type: AclResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"
    pattern_type: AclPatternType = AclPatternType.LITERAL

    def __str__(self) -> str:
        verb = self.permission.name.lower()
        name = f"{self.resource_name}*" if self.pattern_type is AclPatternType.PREFIXED else self.resource_name
        resource = f"{self.resource_type.name.lower()} {name!r}"
        return f"{verb} {self.principal} {self.operation.name} on {resource} from {self.host}"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """What matches a rule; without anything, all rules do."""

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern_type: AclPatternType = AclPatternType.ANY


class Acls:
    """``admin.acls``. Refused with SECURITY_DISABLED where the brokers have no authorizer."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def describe(self, matching: AclFilter | None = None) -> tuple[AclBinding, ...]:
        """The rules that match; all of them, without a filter.

        rules = await admin.acls.describe(AclFilter(resource_type=AclResourceType.TOPIC, resource_name="orders"))
        """
        return await self._asker.one(_DESCRIBE, matching or AclFilter())

    async def create(self, bindings: Iterable[AclBinding]) -> Results[AclBinding, None]:
        """Create rules, each for itself. One that is there already is no error.

        rule = AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
        (await admin.acls.create([rule])).all()
        """
        return await self._asker.many(_CREATE, bindings)

    async def delete(self, filters: Iterable[AclFilter]) -> Results[AclFilter, tuple[AclBinding, ...]]:
        """Delete the rules that match; the value is what was deleted.

        deleted = (await admin.acls.delete([AclFilter(principal="User:alice")])).all()
        """
        return await self._asker.many(_DELETE, filters)


def _wire_fields(acl: AclBinding | AclFilter) -> tuple[Any, ...]:
    """The fields in the order in which all three requests have them."""
    return (
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def _described(response: DescribeAclsResponse) -> tuple[AclBinding, ...]:
    return tuple(
        AclBinding(
            AclResourceType(resource.resource_type),
            resource.resource_name,
            acl.principal,
            AclOperation(acl.operation),
            AclPermission(acl.permission_type),
            acl.host,
            AclPatternType(resource.pattern_type),
        )
        for resource in response.resources
        for acl in resource.acls
    )


def _filter(matching: AclFilter) -> str:
    return f"the rules that match {matching}"


_DESCRIBE: Ask[AclFilter, tuple[AclBinding, ...]] = Ask(
    ApiKey.DESCRIBE_ACLS,
    target=lambda matching: AnyBroker(),
    build=lambda filters, version: DescribeAclsRequest(*_wire_fields(filters[0])),
    read=lambda response, filters, version: [
        (filters[0], outcome(_described(response), response.error_code, response.error_message))
    ],
    name=_filter,
    is_single=True,
)

_CREATE: Ask[AclBinding, None] = Ask(
    ApiKey.CREATE_ACLS,
    target=lambda binding: Controller(),
    build=lambda bindings, version: CreateAclsRequest([AclCreation(*_wire_fields(binding)) for binding in bindings]),
    # The answer has no names: its results stand in the order of the request.
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
        AclBinding(
            AclResourceType(acl.resource_type),
            acl.resource_name,
            acl.principal,
            AclOperation(acl.operation),
            AclPermission(acl.permission_type),
            acl.host,
            AclPatternType(acl.pattern_type),
        )
        for acl in result.matching_acls
    )
    return outcome(deleted, result.error_code, result.error_message)


_DELETE: Ask[AclFilter, tuple[AclBinding, ...]] = Ask(
    ApiKey.DELETE_ACLS,
    target=lambda matching: Controller(),
    build=lambda filters, version: DeleteAclsRequest(
        [DeleteAclsFilter(*_wire_fields(matching)) for matching in filters]
    ),
    read=lambda response, filters, version: [
        (matching, _deleted(result)) for matching, result in zip(filters, response.filter_results, strict=False)
    ],
    name=_filter,
)
