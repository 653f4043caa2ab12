"""Regular expressions from clients, which must not be able to hang the broker.

Python's own search by backtracking: a pattern of ten characters can keep it busy for years. ``Automaton`` follows all
alternatives at once, so the law holds that RE2 gives Kafka: the time to match grows with the length of the text,
whatever the pattern.

RE2's syntax, as far as ids need it: literals, ``.``, classes, groups, ``|``, ``* + ? {m,n}``, ``^ $``, and the escapes
``\\d \\s \\w`` with their opposites. What RE2 has beyond that (flags, word boundaries, Unicode classes) is refused, and
so is what it has not (back references, looking around).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from semel.coordinator.automaton import MATCHED, Accepts, Steps, TooLarge

REPETITIONS_MAX: Final = 1000
DEPTH_MAX: Final = 100

Fragment: TypeAlias = Callable[[int], int]
"""A piece of the pattern: given the step that follows, it makes its own steps and returns the first."""


class PatternError(ValueError):
    """Not a regular expression, or one that is not supported here."""


class Pattern:
    """Matches whole texts."""

    def __init__(self, expression: str) -> None:
        try:
            steps = Steps(expression)
            self._automaton = steps.automaton(_Parser(expression, steps).parse()(MATCHED))
        except TooLarge as error:
            raise PatternError(str(error)) from None

    @property
    def work(self) -> int:
        """How many positions of the pattern were looked at so far."""
        return self._automaton.work

    def matches(self, text: str) -> bool:
        return self._automaton.matches(text)


_CLASSES: Final[dict[str, Accepts]] = {
    "d": lambda character: "0" <= character <= "9",
    "s": lambda character: character in "\t\n\f\r ",
    "w": lambda character: character.isascii() and (character.isalnum() or character == "_"),
}
_BOUNDS: Final = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


class _Parser:
    def __init__(self, expression: str, steps: Steps) -> None:
        self._text = expression
        self._at = 0
        self._steps = steps
        self._depth = 0

    def parse(self) -> Fragment:
        fragment = self._alternatives()
        if self._at < len(self._text):
            raise self._error("a ) that closes nothing")
        return fragment

    def _alternatives(self) -> Fragment:
        fragments = [self._sequence()]
        while self._take("|"):
            fragments.append(self._sequence())
        return fragments[0] if len(fragments) == 1 else _alternatives(self._steps, fragments)

    def _sequence(self) -> Fragment:
        fragments: list[Fragment] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            fragments.append(self._repeated(self._atom()))

        def make(following: int) -> int:
            self._steps.visit()
            for fragment in reversed(fragments):
                following = fragment(following)
            return following

        return make

    def _repeated(self, fragment: Fragment) -> Fragment:
        if self._take("*"):
            least, most = 0, None
        elif self._take("+"):
            least, most = 1, None
        elif self._take("?"):
            least, most = 0, 1
        elif (bounds := self._bounds()) is not None:
            least, most = bounds
        else:
            return fragment
        self._take("?")  # As few as possible: for a whole text that is the same.
        if self._peek() in ("*", "+", "?"):
            raise self._error("a repetition of a repetition")
        return _repeated(self._steps, fragment, least, most)

    def _bounds(self) -> tuple[int, int | None] | None:
        found = _BOUNDS.match(self._text, self._at)
        if found is None:
            return None  # Any other brace is one.
        self._at = found.end()
        low, comma, high = found.groups()
        least = int(low)
        most = int(high) if high else None if comma else least
        if least > REPETITIONS_MAX or (most is not None and not least <= most <= REPETITIONS_MAX):
            raise self._error(f"a repetition out of order, or beyond {REPETITIONS_MAX}")
        return least, most

    def _atom(self) -> Fragment:
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return self._accepting(self._class())
            case ".":
                return self._accepting(lambda read: read != "\n")
            case "^" | "$":
                return lambda following: self._steps.anchor(following, at_start=character == "^")
            case "*" | "+" | "?":
                raise self._error("nothing to repeat")
            case "\\":
                return self._accepting(self._escape())
            case _:
                return self._accepting(character.__eq__)

    def _group(self) -> Fragment:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._error(f"more than {DEPTH_MAX} groups in each other")
        if self._take("?") and not self._take(":"):
            raise self._error("a group other than (...) and (?:...)")
        fragment = self._alternatives()
        if not self._take(")"):
            raise self._error("a ( that is not closed")
        self._depth -= 1
        return fragment

    def _class(self) -> Accepts:
        negated = self._take("^")
        members: list[Accepts] = []
        while not members or not self._take("]"):  # A ] that comes first is a member.
            members.append(self._member())
        return lambda read: any(accepts(read) for accepts in members) is not negated

    def _member(self) -> Accepts:
        first = self._next()
        if first == "[" and self._peek() == ":":
            raise self._error("a named class")
        if first == "\\":
            if self._peek().lower() in _CLASSES:
                return self._escape()
            first = self._escaped()
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("", "]"):
            return first.__eq__
        self._at += 1
        last = self._next()
        if last == "\\":
            last = self._escaped()
        if last < first:
            raise self._error(f"the range {first}-{last}")
        return lambda read: first <= read <= last

    def _escape(self) -> Accepts:
        if self._peek().lower() not in _CLASSES:
            return self._escaped().__eq__
        name = self._next()
        accepts = _CLASSES[name.lower()]
        return accepts if name.islower() else lambda read: not accepts(read)

    def _escaped(self) -> str:
        character = self._next()
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isalnum():
            raise self._error(f"the escape \\{character}")
        return character

    def _accepting(self, accepts: Accepts) -> Fragment:
        return lambda following: self._steps.consume(accepts, following)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> bool:
        if self._peek() != character:
            return False
        self._at += 1
        return True

    def _next(self) -> str:
        if self._at == len(self._text):
            raise self._error("the end of the pattern")
        self._at += 1
        return self._text[self._at - 1]

    def _error(self, what: str) -> PatternError:
        return PatternError(f"{self._text!r}, character {self._at}: {what}")


def _alternatives(steps: Steps, fragments: list[Fragment]) -> Fragment:
    return lambda following: steps.fork(*[fragment(following) for fragment in fragments])


def _repeated(steps: Steps, fragment: Fragment, least: int, most: int | None) -> Fragment:
    def make(following: int) -> int:
        if most is None:
            loop = steps.fork(following)
            steps.fork_also(loop, fragment(loop))
            following = loop
        else:
            after = following
            for _ in range(most - least):
                following = steps.fork(fragment(following), after)
        for _ in range(least):
            following = fragment(following)
        return following

    return make
