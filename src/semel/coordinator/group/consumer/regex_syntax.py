"""The syntax of subscriptions by regular expression: RE2's, as far as it can say anything about a topic's name.

Names of topics are made of few characters, so a class is the set of those it means. What RE2 does not have, Semel does
not have either: backreferences and lookaround. Word boundaries, Unicode classes and numeric escapes are RE2's only.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from typing import Final, TypeAlias

ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "._-")
NESTING_MAX: Final = 50
REPEAT_MAX: Final = 1000

_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_DIGITS: Final = frozenset(string.digits)
_NOTHING: Final[frozenset[str]] = frozenset()
_CLASSES: Final = {
    "d": _DIGITS,
    "D": ALPHABET - _DIGITS,
    "w": _WORD,
    "W": ALPHABET - _WORD,
    "s": _NOTHING,
    "S": ALPHABET,
}
_NAMED: Final = {
    "alnum": _WORD - {"_"},
    "alpha": frozenset(string.ascii_letters),
    "digit": _DIGITS,
    "lower": frozenset(string.ascii_lowercase),
    "punct": frozenset("._-"),
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
_REPEAT: Final = re.compile(r"\{(\d{1,4})(?:(,)(\d{1,4})?)?\}")
_GROUP: Final = re.compile(r"\?(?:P?<[A-Za-z_]\w*>|([imsU]*(?:-[imsU]+)?)(:|\)))")
_NAMED_CLASS: Final = re.compile(r"\[:(\^?)([a-z]+):\]")


class RegexError(ValueError):
    """It is not understood; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of these."""

    chars: frozenset[str]


@dataclass(frozen=True, slots=True)
class Start:
    """Nothing, at the beginning of the name."""


@dataclass(frozen=True, slots=True)
class End:
    """Nothing, at the end of the name."""


@dataclass(frozen=True, slots=True)
class Sequence:
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    node: Node
    minimum: int
    maximum: int | None
    """``None``: any number."""


Node: TypeAlias = Chars | Start | End | Sequence | Choice | Repeat


def parse(pattern: str) -> Node:
    """Raises ``RegexError``."""
    parser = _Parser(pattern)
    node = parser.choice(0)
    if parser.position < len(pattern):
        raise parser.error("nothing to close")
    return node


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._ignores_case = False
        self.position = 0

    def error(self, why: str) -> RegexError:
        return RegexError(f"{self._pattern!r} at {self.position}: {why}")

    def choice(self, depth: int) -> Node:
        if depth > NESTING_MAX:
            raise self.error(f"more than {NESTING_MAX} groups within each other")
        nodes = [self._sequence(depth)]
        while self._take("|"):
            nodes.append(self._sequence(depth))
        return nodes[0] if len(nodes) == 1 else Choice(tuple(nodes))

    def _sequence(self, depth: int) -> Node:
        nodes: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            nodes.append(self._repeated(depth))
        return nodes[0] if len(nodes) == 1 else Sequence(tuple(nodes))

    def _repeated(self, depth: int) -> Node:
        node = self._atom(depth)
        repeat = self._repeat()
        if repeat is None:
            return node
        self._take("?")  # Who is greedy decides which part matches what, not whether all of it matches.
        if self._repeat() is not None:
            raise self.error("a repetition of a repetition")
        return Repeat(node, *repeat)

    def _repeat(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        found = _REPEAT.match(self._pattern, self.position)
        if found is None:
            return None
        minimum = int(found[1])
        maximum = minimum if found[2] is None else None if found[3] is None else int(found[3])
        if max(minimum, maximum or 0) > REPEAT_MAX or (maximum is not None and maximum < minimum):
            raise self.error(f"{found[0]} is no repetition; the limit is {REPEAT_MAX}")
        self.position = found.end()
        return minimum, maximum

    def _atom(self, depth: int) -> Node:
        char = self._next()
        match char:
            case "(":
                return self._group(depth)
            case "[":
                return Chars(self._class())
            case ".":
                return Chars(ALPHABET)
            case "^":
                return Start()
            case "$":
                return End()
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise self.error("nothing to repeat")
            case _:
                return self._literal(char)

    def _group(self, depth: int) -> Node:
        before = self._ignores_case
        if self._peek() == "?":
            found = _GROUP.match(self._pattern, self.position)
            if found is None:
                raise self.error("a kind of group that there is not")
            self.position = found.end()
            on, _, off = (found[1] or "").partition("-")
            self._ignores_case = (before or "i" in on) and "i" not in off
            if found[2] == ")":
                return Sequence(())  # Flags for the rest of the group around it.
        node = self.choice(depth + 1)
        if not self._take(")"):
            raise self.error("a group is not closed")
        self._ignores_case = before
        return node

    def _escape(self) -> Node:
        char = self._next()
        if char in _CLASSES:
            return Chars(_CLASSES[char])
        if char == "A":
            return Start()
        if char == "z":
            return End()
        return self._literal(self._escaped(char))

    def _escaped(self, char: str) -> str:
        if char in ("t", "n", "r", "f", "v"):
            return "\n"  # No topic has any of them.
        if not char or char.isalnum():
            raise self.error(f"\\{char} is not understood")
        return char

    def _literal(self, char: str) -> Chars:
        return Chars(self._folded(ALPHABET & {char}))

    def _folded(self, chars: frozenset[str]) -> frozenset[str]:
        if not self._ignores_case:
            return chars
        return chars | {char.lower() for char in chars} | {char.upper() for char in chars}

    def _class(self) -> frozenset[str]:
        is_negated = self._take("^")
        chars: set[str] = set()
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            chars |= self._class_item()
        self.position += 1
        folded = self._folded(frozenset(chars))
        return ALPHABET - folded if is_negated else ALPHABET & folded

    def _class_item(self) -> frozenset[str]:
        named = _NAMED_CLASS.match(self._pattern, self.position)
        if named is not None:
            if named[2] not in _NAMED:
                raise self.error(f"{named[0]} is not understood")
            self.position = named.end()
            return ALPHABET - _NAMED[named[2]] if named[1] else _NAMED[named[2]]
        first = self._next()
        if first == "\\":
            escaped = self._next()
            if escaped in _CLASSES:
                return _CLASSES[escaped]
            first = self._escaped(escaped)
        if not first:
            raise self.error("a class is not closed")
        following = self._pattern[self.position + 1 : self.position + 2]
        if self._peek() != "-" or following in ("", "]"):
            return frozenset(first)
        self.position += 1
        last = self._next()
        if last == "\\":
            last = self._escaped(self._next())
        if last < first:
            raise self.error(f"{first}-{last} is no range")
        return frozenset(char for char in ALPHABET if first <= char <= last)

    def _peek(self) -> str:
        return self._pattern[self.position : self.position + 1]

    def _next(self) -> str:
        char = self._peek()
        self.position += 1
        return char

    def _take(self, char: str) -> bool:
        if self._peek() != char:
            return False
        self.position += 1
        return True
