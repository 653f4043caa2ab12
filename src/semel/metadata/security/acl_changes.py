"""Pure decisions about ACLs: CreateAcls and DeleteAcls, and the answer to DescribeAcls.

There is one result for each item, in the order of the request; a wrong item does not affect the others. A rule that
exists already is no error. All changes of a request are one commit. Error codes and messages are Apache Kafka's, with
one exception: where Kafka closes the connection for an element that it does not know, the item is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from semel.errors import ErrorCode, KafkaError
from semel.metadata.controller import MetadataDecision, Refusal
from semel.metadata.image import ClusterImage
from semel.metadata.security.image import AclsAltered, security_of
from semel.security.acl_table import AclTable
from semel.security.acls import CLUSTER_NAME, AclBinding, AclFilter, AclRule, ResourcePattern
from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType

# A filter that does not name one pattern is compared with all of them. This many comparisons take some 50 ms.
COMPARISONS_MAX: Final = 100_000
TOO_LARGE: Final = Refusal(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")

_KEPT_PATTERNS: Final = (AclPatternType.LITERAL, AclPatternType.PREFIXED)
_KEPT_PERMISSIONS: Final = (AclPermission.ALLOW, AclPermission.DENY)


@dataclass(frozen=True, slots=True)
class AclResult:
    """The result of one item: the rules that its filter has found, or the refusal."""

    found: tuple[AclBinding, ...] = ()
    refusal: Refusal | None = None


def create_acls(image: ClusterImage, bindings: Sequence[AclBinding]) -> MetadataDecision[AclResult]:
    table = security_of(image).acls
    added: dict[ResourcePattern, set[AclRule]] = {}
    results = []
    for binding in bindings:
        try:
            _check_binding(binding)
        except KafkaError as error:
            results.append(AclResult(refusal=Refusal(error.code, error.message)))
        else:
            if binding.rule not in table.rules(binding.pattern):
                added.setdefault(binding.pattern, set()).add(binding.rule)
            results.append(AclResult())
    changes = tuple(AclsAltered(pattern, table.rules(pattern) | rules) for pattern, rules in added.items())
    return MetadataDecision(changes, tuple(results))


def delete_acls(image: ClusterImage, filters: Sequence[AclFilter]) -> MetadataDecision[AclResult]:
    """DeleteAcls. A rule that two filters match is in the results of both."""
    table = security_of(image).acls
    searches = sum(_named_pattern(matching) is None for matching in filters)
    if searches * table.pattern_count > max(COMPARISONS_MAX, table.pattern_count):
        return MetadataDecision((), (AclResult(refusal=TOO_LARGE),) * len(filters))
    removed: dict[ResourcePattern, set[AclRule]] = {}
    results = []
    for matching in filters:
        try:
            _check_filter(matching)
        except KafkaError as error:
            results.append(AclResult(refusal=Refusal(error.code, error.message)))
        else:
            found = matching_acls(table, matching)
            for binding in found:
                removed.setdefault(binding.pattern, set()).add(binding.rule)
            results.append(AclResult(found))
    changes = tuple(AclsAltered(pattern, table.rules(pattern) - rules) for pattern, rules in removed.items())
    return MetadataDecision(changes, tuple(results))


def describe_acls(image: ClusterImage, matching: AclFilter) -> tuple[AclBinding, ...]:
    """DescribeAcls. Raises KafkaError for a filter with an element that is not known."""
    _check_filter(matching)
    return matching_acls(security_of(image).acls, matching)


def matching_acls(table: AclTable, matching: AclFilter) -> tuple[AclBinding, ...]:
    """Return the rules that match the filter, sorted by pattern, then by rule."""
    named = _named_pattern(matching)
    patterns: Iterable[ResourcePattern] = [named] if named is not None else table.patterns(matching)
    return tuple(
        rule.on(pattern)
        for pattern in sorted(patterns)
        for rule in sorted(table.rules(pattern))
        if matching.matches_rule(rule)
    )


def _named_pattern(matching: AclFilter) -> ResourcePattern | None:
    """Return the one pattern that a filter names, or ``None`` if it may match several."""
    if matching.resource_name is None or matching.resource_type is AclResourceType.ANY:
        return None
    if matching.pattern_type not in _KEPT_PATTERNS:
        return None
    return ResourcePattern(matching.resource_type, matching.pattern_type, matching.resource_name)


def _check_binding(binding: AclBinding) -> None:
    if binding.resource_type in (AclResourceType.UNKNOWN, AclResourceType.ANY):
        raise _invalid(f"Invalid resourceType {binding.resource_type.name}")
    if binding.resource_type is AclResourceType.CLUSTER and binding.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not binding.resource_name:
        raise _invalid("Invalid empty resource name")
    if binding.pattern_type not in _KEPT_PATTERNS:
        raise _invalid(f"Invalid patternType {binding.pattern_type.name}")
    if binding.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise _invalid(f"Invalid operation {binding.operation.name}")
    if binding.permission not in _KEPT_PERMISSIONS:
        raise _invalid(f"Invalid permissionType {binding.permission.name}")
    if ":" not in binding.principal:
        raise _invalid(
            f"Could not parse principal from `{binding.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )


def _check_filter(matching: AclFilter) -> None:
    if AclResourceType.UNKNOWN is matching.resource_type or AclPatternType.UNKNOWN is matching.pattern_type:
        raise _invalid("Unknown patternFilter.")
    if AclOperation.UNKNOWN is matching.operation or AclPermission.UNKNOWN is matching.permission:
        raise _invalid("Unknown entryFilter.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
