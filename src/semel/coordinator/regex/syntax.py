"""The syntax of regular expressions: RE2's, as far as an id or the name of a topic needs it.

Accepted are literals, ``.``, classes, groups, ``|``, ``* + ? {m,n}``, ``^ $ \\A \\z``, ``\\d \\s \\w`` and their
negations, named classes as in ``[[:alpha:]]``, and the flags ``i`` and ``s``; the flags ``U`` and ``m`` are accepted
and have no effect. Refused are backreferences and lookaround, which RE2 does not have either, and word boundaries,
Unicode classes and numeric escapes, which RE2 has.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

NESTING_MAX: Final = 50
REPEAT_MAX: Final = 1000

Accepts: TypeAlias = Callable[[str], bool]
"""A function that tells whether a character matches."""

_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_CLASSES: Final = {
    "d": frozenset(string.digits),
    "s": frozenset("\t\n\f\r "),
    "w": _WORD,
}
_NAMED: Final = {
    "alnum": _WORD - {"_"},
    "alpha": frozenset(string.ascii_letters),
    "digit": frozenset(string.digits),
    "lower": frozenset(string.ascii_lowercase),
    "punct": frozenset(string.punctuation),
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_REPEAT: Final = re.compile(r"\{([0-9]+)(?:(,)([0-9]+)?)?\}")
_GROUP: Final = re.compile(r"\?(?:P?<[A-Za-z_]\w*>|([imsU]*(?:-[imsU]+)?)(:|\)))")
_NAMED_CLASS: Final = re.compile(r"\[:(\^?)([a-z]+):\]")


class RegexError(ValueError):
    """A pattern cannot be parsed or costs too much; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Chars:
    """Matches one character that ``accepts`` accepts."""

    accepts: Accepts


@dataclass(frozen=True, slots=True)
class Start:
    """Matches the beginning of the text."""


@dataclass(frozen=True, slots=True)
class End:
    """Matches the end of the text."""


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
    """``None`` means that there is no maximum."""


Node: TypeAlias = Chars | Start | End | Sequence | Choice | Repeat


def parse(pattern: str) -> Node:
    """Return the syntax tree of the pattern. Raises ``RegexError`` if it cannot be parsed."""
    parser = _Parser(pattern)
    node = parser.choice(0)
    if parser.position < len(pattern):
        raise parser.error("nothing to close")
    return node


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._ignores_case = False
        self._dot_takes_newlines = False
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
        self._take("?")  # A lazy repetition matches the same whole texts as a greedy one.
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
                return Chars(_any_char if self._dot_takes_newlines else "\n".__ne__)
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
        before = self._ignores_case, self._dot_takes_newlines
        if self._peek() == "?":
            found = _GROUP.match(self._pattern, self.position)
            if found is None:
                raise self.error("a kind of group that there is not")
            self.position = found.end()
            on, _, off = (found[1] or "").partition("-")
            self._ignores_case = (self._ignores_case or "i" in on) and "i" not in off
            self._dot_takes_newlines = (self._dot_takes_newlines or "s" in on) and "s" not in off
            if found[2] == ")":
                return Sequence(())  # Flags for the rest of the group around it.
        node = self.choice(depth + 1)
        if not self._take(")"):
            raise self.error("a group is not closed")
        self._ignores_case, self._dot_takes_newlines = before
        return node

    def _escape(self) -> Node:
        char = self._next()
        if char.lower() in _CLASSES:
            return Chars(_class_of(char))
        if char == "A":
            return Start()
        if char == "z":
            return End()
        return self._literal(self._escaped(char))

    def _escaped(self, char: str) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if not char or char.isalnum():
            raise self.error(f"\\{char} is not understood")
        return char

    def _literal(self, char: str) -> Chars:
        return Chars(self._folded(char.__eq__))

    def _folded(self, accepts: Accepts) -> Accepts:
        if not self._ignores_case:
            return accepts
        return lambda char: any(accepts(each) for each in (char, char.lower(), char.upper()) if len(each) == 1)

    def _class(self) -> Accepts:
        is_negated = self._take("^")
        members = [self._class_member()]  # A ] that comes first is a member.
        while self._peek() != "]":
            members.append(self._class_member())
        self.position += 1
        accepts = self._folded(lambda char: any(member(char) for member in members))
        return _not(accepts) if is_negated else accepts

    def _class_member(self) -> Accepts:
        named = _NAMED_CLASS.match(self._pattern, self.position)
        if named is not None:
            if named[2] not in _NAMED:
                raise self.error(f"{named[0]} is not understood")
            self.position = named.end()
            accepts = _NAMED[named[2]].__contains__
            return _not(accepts) if named[1] else accepts
        first = self._next()
        if first == "\\":
            escaped = self._next()
            if escaped.lower() in _CLASSES:
                return _class_of(escaped)
            first = self._escaped(escaped)
        if not first:
            raise self.error("a class is not closed")
        following = self._pattern[self.position + 1 : self.position + 2]
        if self._peek() != "-" or following in ("", "]"):
            return first.__eq__
        self.position += 1
        last = self._next()
        if last == "\\":
            last = self._escaped(self._next())
        if last < first:
            raise self.error(f"{first}-{last} is no range")
        return lambda char: first <= char <= last

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


def _class_of(escape: str) -> Accepts:
    accepts = _CLASSES[escape.lower()].__contains__
    return accepts if escape.islower() else _not(accepts)


def _not(accepts: Accepts) -> Accepts:
    return lambda char: not accepts(char)


def _any_char(char: str) -> bool:
    return True
