"""``ssl.principal.mapping.rules``: maps the subject of a client's certificate to a user name. Pure.

    RULE:^CN=(.*?),OU=payments.*$/$1/L,DEFAULT

The rules are tried in their order. The first whose pattern matches the whole subject gives the name: ``$1`` is the text
of the first group, ``L`` and ``U`` turn the name into lower and upper case. ``DEFAULT`` takes the subject unchanged. If
no rule matches, the client has no name and its connection is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# One rule, including the comma after it. A slash inside a pattern or replacement is escaped with a backslash. A comma
# is not escaped, since only a comma after the last slash ends a rule.
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))?"
    r"\s*(?:,|\Z)",
    re.DOTALL,
)
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)
_CASES: Final[dict[str, Callable[[str], str]]] = {"": str, "L": str.lower, "U": str.upper}


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    replacement: str
    change_case: Callable[[str], str]

    def name(self, subject: str) -> str | None:
        match = self.pattern.fullmatch(subject)
        return None if match is None else self.change_case(_replaced(self.replacement, match))


class PrincipalMapping:
    """The parsed mapping rules. Raises ``ValueError`` if the text is not a list of rules."""

    def __init__(self, rules: str) -> None:
        self._rules = [_parsed(match) for match in _split(rules.strip())]

    def name(self, subject: str) -> str | None:
        """Return the user name for a subject (RFC 2253), or ``None`` if no rule matches it."""
        for rule in self._rules:
            name = subject if rule is None else rule.name(subject)
            if name is not None:
                return name
        return None


def _split(rules: str) -> list[re.Match[str]]:
    found: list[re.Match[str]] = []
    position = 0
    while position < len(rules):
        match = _RULE.match(rules, position)
        if match is None:
            raise ValueError(f"{rules[position:]!r} is not DEFAULT or RULE:pattern/replacement/[LU]")
        if match["default"] is not None or match["pattern"] is not None:
            found.append(match)
        position = match.end()
    return found


def _parsed(rule: re.Match[str]) -> _Rule | None:
    """Return the rule, or ``None`` for DEFAULT."""
    if rule["default"] is not None:
        return None
    try:
        pattern = re.compile(rule["pattern"])
    except re.error as error:
        raise ValueError(f"{rule['pattern']!r} is no pattern: {error}") from None
    return _Rule(pattern, rule["replacement"], _CASES[rule["case"]])


def _replaced(replacement: str, match: re.Match[str]) -> str:
    def one(reference: re.Match[str]) -> str:
        if reference[1] is not None:
            return reference[1]
        number = int(reference[2])
        # A reference to a group that the pattern does not have is kept as it is written.
        return reference[0] if number > match.re.groups else match[number] or ""

    return _REFERENCE.sub(one, replacement)
