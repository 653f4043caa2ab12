"""The table of all ACLs, and the decision whether they allow an operation: Kafka's model of access.

The law: a DENY rule wins over any ALLOW rule. What no rule allows is denied, unless no rule is about the resource at
all and the cluster is configured to allow that (``allow.everyone.if.no.acl.found``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from semel.security.acls import ANY_HOST, ANY_NAME, EVERY_USER, AclBinding, AclFilter, AclRule, ResourcePattern
from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType

# Each key is allowed if one of its operations is allowed. To deny one of them does not deny the key.
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
    """The rules of one resource pattern, indexed by principal, because one pattern may have thousands of rules."""

    __slots__ = ("all", "by_principal")

    def __init__(self, rules: Iterable[AclRule]) -> None:
        self.all = frozenset(rules)
        self.by_principal: dict[str, list[AclRule]] = {}
        for rule in self.all:
            self.by_principal.setdefault(rule.principal, []).append(rule)


_Right: TypeAlias = tuple[str, AclOperation, AclPermission]
"""A principal, an operation and a permission."""


class _RulesOfType:
    """The rules for one type of resource, indexed by literal names and by prefixes.

    The rules that cover a name are found with one look-up for each length that prefixes have. ``by_right`` has, for
    each principal, operation and permission, the patterns and hosts of the rules with these three.

    An object that is part of an ``AclTable`` is not changed any more; ``copy`` returns one that may be changed.
    """

    __slots__ = ("_counts", "_own", "by_right", "literal", "prefix_lengths", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _Rules] = {}
        self.prefixed: dict[str, _Rules] = {}
        self.prefix_lengths: list[int] = []
        self._counts: dict[int, int] = {}
        """The number of prefixed patterns by length of their prefix."""
        self.by_right: dict[_Right, dict[tuple[ResourcePattern, str], None]] = {}
        self._own: set[_Right] = set()
        """The keys of ``by_right`` whose dicts are not shared with another copy, and so may be changed."""

    def copy(self) -> _RulesOfType:
        twin = _RulesOfType()
        twin.literal, twin.prefixed, twin.by_right = dict(self.literal), dict(self.prefixed), dict(self.by_right)
        twin.prefix_lengths, twin._counts = self.prefix_lengths, dict(self._counts)
        return twin

    def put(self, pattern: ResourcePattern, before: _Rules | None, after: _Rules | None) -> None:
        is_prefix = pattern.pattern_type is AclPatternType.PREFIXED
        named = self.prefixed if is_prefix else self.literal
        if after is None:
            named.pop(pattern.name, None)
        else:
            named[pattern.name] = after
        if is_prefix:
            self._count(len(pattern.name), (after is not None) - (before is not None))
        old = frozenset() if before is None else before.all
        new = frozenset() if after is None else after.all
        for rule in old - new:
            del self._changeable_entry(rule)[pattern, rule.host]
        for rule in new - old:
            self._changeable_entry(rule)[pattern, rule.host] = None

    def _count(self, length: int, more: int) -> None:
        """Add ``more`` (1, 0 or -1) to the number of prefixes of this length."""
        before = self._counts.pop(length, 0)
        if before + more:
            self._counts[length] = before + more
        if not before or not before + more:
            self.prefix_lengths = sorted(self._counts)

    def _changeable_entry(self, rule: AclRule) -> dict[tuple[ResourcePattern, str], None]:
        right = (rule.principal, rule.operation, rule.permission)
        if right not in self._own:
            self._own.add(right)
            self.by_right[right] = dict(self.by_right.get(right, ()))
        return self.by_right[right]

    def covering(self, name: str) -> list[_Rules]:
        """Return the rules of every pattern that covers this name: literal, ``*`` or a prefix of it."""
        literal, prefixed, lengths = self.literal, self.prefixed, self.prefix_lengths
        if lengths and lengths[-1] > len(name):
            lengths = lengths[: bisect_right(lengths, len(name))]
        found = [rules for length in lengths if (rules := prefixed.get(name[:length])) is not None]
        if (rules := literal.get(name)) is not None:
            found.append(rules)
        if name != ANY_NAME and (rules := literal.get(ANY_NAME)) is not None:
            found.append(rules)
        return found

    def matching(
        self, principal: str, operation: AclOperation, permission: AclPermission
    ) -> list[dict[tuple[ResourcePattern, str], None]]:
        """Return the patterns and hosts of the rules with this permission whose principal is this one or ``User:*``,
        and whose operation is this one or ALL."""
        rights = [(who, what, permission) for who in (principal, EVERY_USER) for what in (operation, AclOperation.ALL)]
        return [found for right in rights if (found := self.by_right.get(right))]


_NO_RULES: Final = _RulesOfType()


@dataclass(frozen=True, slots=True, eq=False)
class AclTable:
    """An immutable table of all ACLs; ``altered`` returns a changed copy."""

    _patterns: Mapping[ResourcePattern, _Rules] = field(default_factory=lambda: MappingProxyType({}))
    _of_types: Mapping[AclResourceType, _RulesOfType] = field(default_factory=lambda: MappingProxyType({}))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AclTable) and dict(self.items()) == dict(other.items())

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))

    def __len__(self) -> int:
        """Return the number of rules."""
        return sum(len(rules.all) for rules in self._patterns.values())

    def items(self) -> Iterator[tuple[ResourcePattern, frozenset[AclRule]]]:
        return ((pattern, rules.all) for pattern, rules in self._patterns.items())

    def bindings(self) -> Iterator[AclBinding]:
        return (rule.on(pattern) for pattern, rules in self.items() for rule in rules)

    @property
    def pattern_count(self) -> int:
        return len(self._patterns)

    def patterns(self, matching: AclFilter) -> list[ResourcePattern]:
        """Return the resource patterns that the filter matches. Their rules need not match it."""
        return [pattern for pattern in self._patterns if matching.matches_pattern(pattern)]

    def rules(self, pattern: ResourcePattern) -> frozenset[AclRule]:
        known = self._patterns.get(pattern)
        return frozenset() if known is None else known.all

    def altered(self, changes: Mapping[ResourcePattern, frozenset[AclRule]]) -> AclTable:
        """Return a table in which these patterns have these rules. A pattern without rules is left out."""
        patterns, of_types = dict(self._patterns), dict(self._of_types)
        changed: dict[AclResourceType, _RulesOfType] = {}
        for pattern, rules in changes.items():
            kind = pattern.resource_type
            if kind not in changed:
                changed[kind] = of_types[kind] = of_types.get(kind, _NO_RULES).copy()
            before, after = patterns.pop(pattern, None), _Rules(rules) if rules else None
            if after is not None:
                patterns[pattern] = after
            changed[kind].put(pattern, before, after)
        return AclTable(patterns, of_types)

    def verdict(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> Verdict:
        covering = self._of_types.get(resource_type, _NO_RULES).covering(name)
        if not covering:
            return Verdict.NO_RULE
        verdict = Verdict.DENIED
        implied_by = _IMPLIED_BY.get(operation, _NOTHING)
        # Most patterns have no rule for this client, so most of the time of a decision is spent here.
        about = [rules for one in covering for who in (principal, EVERY_USER) if (rules := one.by_principal.get(who))]
        for rules in about:
            for rule in rules:
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
        """Whether the operation may be allowed on some resource of this type. It can be True when none is allowed."""
        of_type = self._of_types.get(resource_type, _NO_RULES)
        denied = _Denied(host, of_type.matching(principal, operation, AclPermission.DENY))
        return any(
            on in (ANY_HOST, host) and not denied.has_all_of(pattern)
            for found in of_type.matching(principal, operation, AclPermission.ALLOW)
            for pattern, on in found
        )


class _Denied(NamedTuple):
    """The patterns on which DENY rules hold for one operation of a client at ``host``."""

    host: str
    found: list[dict[tuple[ResourcePattern, str], None]]

    def has_all_of(self, allowed: ResourcePattern) -> bool:
        """Whether every name that this pattern covers is denied."""
        if not self.found:
            return False
        kind, _, name = allowed
        if self.has(ResourcePattern(kind, AclPatternType.LITERAL, ANY_NAME)):
            return True
        if allowed.pattern_type is AclPatternType.LITERAL:
            if name == ANY_NAME:
                return False
            if self.has(allowed):
                return True
        prefixes = (name[:length] for length in range(1, len(name) + 1))
        return any(self.has(ResourcePattern(kind, AclPatternType.PREFIXED, prefix)) for prefix in prefixes)

    def has(self, pattern: ResourcePattern) -> bool:
        return any((pattern, host) in found for found in self.found for host in (ANY_HOST, self.host))
