"""ACLs as values: rules, the resource patterns that they are for, and filters that find them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType

ANY_NAME: Final = "*"
ANY_HOST: Final = "*"
EVERY_USER: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"


@dataclass(frozen=True, slots=True)
class AclBinding:
    """One ACL: ``principal`` ("User:alice") may, or may not, do ``operation`` on the resource, from ``host``.

    A literal name of ``*`` means every resource of the type; the cluster's name is ``kafka-cluster``.
    """

    resource_type: AclResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = ANY_HOST
    pattern_type: AclPatternType = AclPatternType.LITERAL

    @classmethod
    def from_wire(
        cls,
        resource_type: int,
        resource_name: str,
        pattern_type: int,
        principal: str,
        host: str,
        operation: int,
        permission: int,
    ) -> AclBinding:
        """Return the ACL of these fields, in their order in all messages about ACLs; ``wire_fields`` is the reverse."""
        return cls(
            AclResourceType(resource_type),
            resource_name,
            principal,
            AclOperation(operation),
            AclPermission(permission),
            host,
            AclPatternType(pattern_type),
        )

    @property
    def pattern(self) -> ResourcePattern:
        return ResourcePattern(self.resource_type, self.pattern_type, self.resource_name)

    @property
    def rule(self) -> AclRule:
        return AclRule(self.principal, self.host, self.operation, self.permission)

    def __str__(self) -> str:
        verb = self.permission.name.lower()
        name = f"{self.resource_name}*" if self.pattern_type is AclPatternType.PREFIXED else self.resource_name
        resource = f"{self.resource_type.name.lower()} {name!r}"
        return f"{verb} {self.principal} {self.operation.name} on {resource} from {self.host}"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A filter that finds ACLs, field by field. A field that is not set matches every ACL."""

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern_type: AclPatternType = AclPatternType.ANY

    def __str__(self) -> str:
        """Return the fields that are set, in words; ``anything`` if none is."""
        codes = (self.permission, self.operation, self.resource_type)
        words = [code.name for code in codes if code.name != "ANY"]
        if self.resource_name is not None:
            words.append(f"{self.pattern_type.name} name {self.resource_name!r}")
        words += [text for text in (self.principal, self.host and f"from {self.host}") if text is not None]
        return " ".join(words) or "anything"

    def matches(self, binding: AclBinding) -> bool:
        return self.matches_pattern(binding.pattern) and self.matches_rule(binding.rule)

    def matches_rule(self, rule: AclRule) -> bool:
        """Whether principal, host, operation and permission match. The resource is not compared."""
        return (
            self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (AclOperation.ANY, rule.operation)
            and self.permission in (AclPermission.ANY, rule.permission)
        )

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        """Whether the resource matches. The pattern type MATCH matches every pattern that covers the name."""
        if self.resource_type not in (AclResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type is AclPatternType.MATCH:
            return self.resource_name is None or pattern.covers(self.resource_name)
        if self.pattern_type not in (AclPatternType.ANY, pattern.pattern_type):
            return False
        return self.resource_name in (None, pattern.name)


def wire_fields(acl: AclBinding | AclFilter) -> tuple[Any, ...]:
    """Return the fields in their order in all messages about ACLs."""
    return (
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


class ResourcePattern(NamedTuple):
    """The resources that ACLs are about: one name (LITERAL), all names with a prefix (PREFIXED), or ``*`` for all."""

    resource_type: AclResourceType
    pattern_type: AclPatternType
    name: str

    def covers(self, name: str) -> bool:
        if self.pattern_type is AclPatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, ANY_NAME)


class AclRule(NamedTuple):
    """An ACL without its resource: who may or may not do what, from which host."""

    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def on(self, pattern: ResourcePattern) -> AclBinding:
        return AclBinding(
            pattern.resource_type,
            pattern.name,
            self.principal,
            self.operation,
            self.permission,
            self.host,
            pattern.pattern_type,
        )
