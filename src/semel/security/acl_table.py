"""All ACLs, and what they say about one operation: Kafka's model of access.

The law: a rule that denies wins over any that allows; what no rule allows is denied, unless no rule is about the
resource at all and the cluster is configured to allow that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from semel.security.acls import ANY_HOST, ANY_NAME, EVERY_USER, AclBinding, AclFilter, AclRule, ResourcePattern
from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType

# To be allowed one of these implies to be allowed the key. To be denied them implies nothing.
_IMPLIED_BY: Final[Mapping[AclOperation, frozenset[AclOperation]]] = {
    AclOperation.DESCRIBE: frozenset({AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}
_NOTHING: Final[frozenset[AclOperation]] = frozenset()


class Verdict(Enum):
    ALLOWED = "allowed"
    DENIED = "denied"
    NO_RULE = "no rule is about this resource"


class _Rules:
    """Those of one pattern, by principal: a pattern for all topics may have thousands."""

    __slots__ = ("all", "by_principal")

    def __init__(self, rules: Iterable[AclRule]) -> None:
        self.all = frozenset(rules)
        self.by_principal: dict[str, list[AclRule]] = {}
        for rule in self.all:
            self.by_principal.setdefault(rule.principal, []).append(rule)

    def of(self, principal: str) -> Iterator[AclRule]:
        yield from self.by_principal.get(principal, ())
        if principal != EVERY_USER:
            yield from self.by_principal.get(EVERY_USER, ())


class _OfType(NamedTuple):
    """The rules for one type of resource, by names and by prefixes. As many look-ups as there are lengths of prefixes
    find all that cover a name."""

    literal: dict[str, _Rules]
    prefixed: dict[str, _Rules]
    prefix_lengths: list[int]

    def add(self, pattern: ResourcePattern, rules: _Rules) -> None:
        if pattern.pattern_type is AclPatternType.PREFIXED:
            self.prefixed[pattern.name] = rules
        else:
            self.literal[pattern.name] = rules

    def covering(self, name: str) -> Iterator[_Rules]:
        """Those of every pattern that has this name."""
        literal, prefixed = self.literal, self.prefixed
        if (found := literal.get(name)) is not None:
            yield found
        if name != ANY_NAME and (found := literal.get(ANY_NAME)) is not None:
            yield found
        for length in self.prefix_lengths:
            if length > len(name):
                return
            if (found := prefixed.get(name[:length])) is not None:
                yield found


_NO_RULES: Final = _OfType({}, {}, [])


@dataclass(frozen=True, slots=True, eq=False)
class AclTable:
    """Immutable: ``altered`` makes another one."""

    _patterns: Mapping[ResourcePattern, _Rules] = field(default_factory=lambda: MappingProxyType({}))
    _of_types: Mapping[AclResourceType, _OfType] = field(default_factory=lambda: MappingProxyType({}))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AclTable) and dict(self.items()) == dict(other.items())

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))

    def __len__(self) -> int:
        """How many rules there are."""
        return sum(len(rules.all) for rules in self._patterns.values())

    def items(self) -> Iterator[tuple[ResourcePattern, frozenset[AclRule]]]:
        return ((pattern, rules.all) for pattern, rules in self._patterns.items())

    def bindings(self) -> Iterator[AclBinding]:
        return (rule.on(pattern) for pattern, rules in self.items() for rule in rules)

    @property
    def pattern_count(self) -> int:
        return len(self._patterns)

    def patterns(self, matching: AclFilter) -> list[ResourcePattern]:
        """Those whose rules the filter may match."""
        return [pattern for pattern in self._patterns if matching.matches_pattern(pattern)]

    def rules(self, pattern: ResourcePattern) -> frozenset[AclRule]:
        known = self._patterns.get(pattern)
        return frozenset() if known is None else known.all

    def altered(self, changes: Mapping[ResourcePattern, frozenset[AclRule]]) -> AclTable:
        """With these rules in place of those that the patterns had; a pattern without rules is gone."""
        patterns = dict(self._patterns)
        for pattern, rules in changes.items():
            if rules:
                patterns[pattern] = _Rules(rules)
            else:
                patterns.pop(pattern, None)
        of_types: dict[AclResourceType, _OfType] = {}
        for pattern, kept in patterns.items():
            of_types.setdefault(pattern.resource_type, _OfType({}, {}, [])).add(pattern, kept)
        for of_type in of_types.values():
            of_type.prefix_lengths.extend(sorted(set(map(len, of_type.prefixed))))
        return AclTable(patterns, of_types)

    def verdict(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> Verdict:
        verdict = Verdict.NO_RULE
        implied_by = _IMPLIED_BY.get(operation, _NOTHING)
        for rules in self._of_types.get(resource_type, _NO_RULES).covering(name):
            if verdict is Verdict.NO_RULE:
                verdict = Verdict.DENIED
            for rule in rules.of(principal):
                if rule.host not in (ANY_HOST, host):
                    continue
                if rule.operation in (operation, AclOperation.ALL):
                    if rule.permission is AclPermission.DENY:
                        return Verdict.DENIED
                    verdict = Verdict.ALLOWED
                elif rule.permission is AclPermission.ALLOW and rule.operation in implied_by:
                    verdict = Verdict.ALLOWED
        return verdict

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Whether there may be a name of this type with which the operation is allowed."""
        allowed: list[ResourcePattern] = []
        denied: set[ResourcePattern] = set()
        for pattern, rules in self._patterns.items():
            if pattern.resource_type is not resource_type:
                continue
            for rule in rules.of(principal):
                if rule.host in (ANY_HOST, host) and rule.operation in (operation, AclOperation.ALL):
                    if rule.permission is AclPermission.DENY:
                        denied.add(pattern)
                    else:
                        allowed.append(pattern)
        return any(not self._is_covered(pattern, denied) for pattern in allowed)

    @staticmethod
    def _is_covered(allowed: ResourcePattern, denied: set[ResourcePattern]) -> bool:
        """Whether the denied patterns have every name that this one has."""
        kind, name = allowed.resource_type, allowed.name
        if ResourcePattern(kind, AclPatternType.LITERAL, ANY_NAME) in denied:
            return True
        if allowed.pattern_type is AclPatternType.LITERAL:
            if name == ANY_NAME:
                return False
            if allowed in denied:
                return True
        prefixes = (name[:length] for length in range(1, len(name) + 1))
        return any(ResourcePattern(kind, AclPatternType.PREFIXED, prefix) in denied for prefix in prefixes)
