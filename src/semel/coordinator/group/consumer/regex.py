"""Regular expressions over names of topics, matched in one pass over the name, whatever the pattern.

Anybody may subscribe with a pattern, and all clients wait while it is matched; with a matcher that tries one way after
another, twenty characters of pattern can take years. Here all ways are followed at once (Thompson's construction), and
where they have led so far is remembered from name to name, so that most characters cost one look-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

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

STEPS_MAX: Final = 2000
"""How large a pattern may be once its repetitions are written out."""
REMEMBERED_MAX: Final = 10_000

_MATCHED: Final = 0
_States: TypeAlias = frozenset[int]


@dataclass(slots=True)
class _Consume:
    chars: frozenset[str]
    following: int


@dataclass(slots=True)
class _Fork:
    following: list[int]


@dataclass(slots=True)
class _Anchor:
    at_start: bool
    following: int


class Regex:
    """Raises ``RegexError`` if the pattern is not understood."""

    def __init__(self, pattern: str) -> None:
        self._states: list[_Consume | _Fork | _Anchor] = [_Fork([])]  # The first one is where all is matched.
        self._steps = 0
        first = self._compile(parse(pattern), _MATCHED)
        self._first = self._reached({first}, at_start=True)
        self._moves: dict[tuple[_States, str], _States] = {}

    def matches(self, name: str) -> bool:
        """Whether it is the whole name that matches."""
        states = self._first
        for char in name:
            following = self._moves.get((states, char))
            states = self._moved(states, char) if following is None else following
            if not states:
                return False
        return _MATCHED in self._reached(states, at_end=True)

    def _moved(self, states: _States, char: str) -> _States:
        targets = set()
        for number in states:
            state = self._states[number]
            if isinstance(state, _Consume) and char in state.chars:
                targets.add(state.following)
        if len(self._moves) >= REMEMBERED_MAX:
            self._moves.clear()
        moved = self._moves[states, char] = self._reached(targets)
        return moved

    def _reached(self, states: set[int] | _States, *, at_start: bool = False, at_end: bool = False) -> _States:
        """Where one can be without another character."""
        reached: set[int] = set()
        waiting = list(states)
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            reached.add(number)
            state = self._states[number]
            if isinstance(state, _Fork):
                waiting += state.following
            elif isinstance(state, _Anchor) and (at_start if state.at_start else at_end):
                waiting.append(state.following)
        return frozenset(reached)

    def _compile(self, node: Node, following: int) -> int:
        """The state from which ``node`` leads to ``following``."""
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise RegexError(f"it is too large: more than {STEPS_MAX} steps")
        match node:
            case Chars(chars):
                return self._add(_Consume(chars, following))
            case Start():
                return self._add(_Anchor(True, following))
            case End():
                return self._add(_Anchor(False, following))
            case Sequence(nodes):
                for each in reversed(nodes):
                    following = self._compile(each, following)
                return following
            case Choice(nodes):
                return self._add(_Fork([self._compile(each, following) for each in nodes]))
            case Repeat():
                return self._compile_repeat(node, following)

    def _compile_repeat(self, repeat: Repeat, following: int) -> int:
        end = following
        if repeat.maximum is None:
            loop = _Fork([end])
            following = self._add(loop)
            loop.following.append(self._compile(repeat.node, following))
        else:
            for _ in range(repeat.maximum - repeat.minimum):
                following = self._add(_Fork([self._compile(repeat.node, following), end]))
        for _ in range(repeat.minimum):
            following = self._compile(repeat.node, following)
        return following

    def _add(self, state: _Consume | _Fork | _Anchor) -> int:
        self._states.append(state)
        return len(self._states) - 1
