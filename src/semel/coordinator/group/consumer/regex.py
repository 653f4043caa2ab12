"""Regular expressions over names of topics: the syntax of ``regex_syntax`` made into an ``Automaton``."""

from __future__ import annotations

from typing import Final

from semel.coordinator.automaton import MATCHED, Steps, TooLarge
from semel.coordinator.group.consumer.regex_syntax import (
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
    """Raises ``RegexError`` if the pattern is not understood or too large."""

    def __init__(self, pattern: str) -> None:
        try:
            steps = Steps(pattern)
            self._automaton = steps.automaton(_compile(steps, parse(pattern), MATCHED))
        except TooLarge as error:
            raise RegexError(f"{pattern[:_LENGTH_SHOWN_MAX]!r}: {error}") from None
        self.matches = self._automaton.matches
        """Whether it is the whole name that matches."""
        self.forget = self._automaton.forget

    @property
    def work(self) -> int:
        return self._automaton.work


def _compile(steps: Steps, node: Node, following: int) -> int:
    """The step from which ``node`` leads to ``following``."""
    match node:
        case Chars(chars):
            return steps.consume(chars.__contains__, following)
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
    if repeat.maximum is None:
        following = steps.fork(end)
        steps.fork_also(following, _compile(steps, repeat.node, following))
    else:
        for _ in range(repeat.maximum - repeat.minimum):
            following = steps.fork(_compile(steps, repeat.node, following), end)
    for _ in range(repeat.minimum):
        following = _compile(steps, repeat.node, following)
    return following
