"""A regular expression: compiles the syntax tree of a pattern to an ``Automaton``, which matches whole texts."""

from __future__ import annotations

from typing import Final

from semel.coordinator.regex.automaton import MATCHED, Steps, TooLarge
from semel.coordinator.regex.syntax import (
    Chars,
    Choice,
    End,
    Node,
    RegexError,
    Repeat,
    Sequence,
    Start,
    parse,
)

_LENGTH_SHOWN_MAX: Final = 100


class Regex:
    """A compiled pattern. ``Regex()`` raises ``RegexError`` if the pattern cannot be parsed or is too large."""

    def __init__(self, pattern: str) -> None:
        try:
            steps = Steps(pattern)
            self._automaton = steps.automaton(_compile(steps, parse(pattern), MATCHED))
        except TooLarge as error:
            raise RegexError(f"{pattern[:_LENGTH_SHOWN_MAX]!r}: {error}") from None
        self.matches = self._automaton.matches
        """Whether the whole text matches."""
        self.forget = self._automaton.forget
        """Clears what is cached from the texts so far."""

    @property
    def work(self) -> int:
        """How many positions of the pattern were examined so far, over all texts."""
        return self._automaton.work


def _compile(steps: Steps, node: Node, following: int) -> int:
    """Add the steps of ``node``, which lead to the step ``following``. Returns the number of the first one."""
    match node:
        case Chars(accepts):
            return steps.consume(accepts, following)
        case Start():
            return steps.anchor(following, at_start=True)
        case End():
            return steps.anchor(following, at_start=False)
        case Sequence(nodes):
            steps.visit()
            for each in reversed(nodes):
                following = _compile(steps, each, following)
            return following
        case Choice(nodes):
            return steps.fork(*[_compile(steps, each, following) for each in nodes])
        case Repeat():
            return _compile_repeat(steps, node, following)


def _compile_repeat(steps: Steps, repeat: Repeat, following: int) -> int:
    end = following
    if repeat.maximum == 0:
        steps.visit()  # It adds no step, and may itself be repeated a thousand times a thousand times.
    if repeat.maximum is None:
        following = steps.fork(end)
        steps.fork_also(following, _compile(steps, repeat.node, following))
    else:
        for _ in range(repeat.maximum - repeat.minimum):
            following = steps.fork(_compile(steps, repeat.node, following), end)
    for _ in range(repeat.minimum):
        following = _compile(steps, repeat.node, following)
    return following
