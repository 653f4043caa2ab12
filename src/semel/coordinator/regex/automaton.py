"""The automaton of a regular expression. It matches a whole text in one pass, whatever the pattern.

Any client may send a pattern, and all clients wait while it is matched; a matcher that backtracks can take years for a
pattern of twenty characters. Here all alternatives are followed at once: the pattern becomes an automaton without empty
transitions whose states are the positions of its characters (Glushkov's construction), and a set of positions is the
bits of one integer. The sets that occurred are cached from text to text, so that most characters cost one look-up.

Limits keep both time and memory small: the pattern's length, its steps once repetitions are written out
(``STEPS_MAX``), and the ways (transitions) from one position to the next (``WAYS_MAX``): ``(.?){999}`` has half a
million. RE2, which Kafka uses, limits the size of a program likewise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from semel.coordinator.regex.syntax import Accepts

PATTERN_LENGTH_MAX: Final = 4096
STEPS_MAX: Final = 2000
"""How many steps a pattern may have once its repetitions are written out."""
WAYS_MAX: Final = 5_000
"""How many ways (transitions) there may be from a position of the pattern to the next, over all positions."""
SETS_REMEMBERED_MAX: Final = 1000
MOVES_REMEMBERED_MAX: Final = 10_000

MATCHED: Final = 0


class TooLarge(ValueError):
    """The pattern exceeds one of the limits; the message says which."""


@dataclass(slots=True)
class _Consume:
    position: int
    following: int


@dataclass(slots=True)
class _Fork:
    following: list[int]


@dataclass(slots=True)
class _Anchor:
    at_start: bool
    following: int


class Steps:
    """The steps of a pattern, which are added from its end to its beginning and are known by their numbers."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_LENGTH_MAX:
            raise TooLarge(f"it has {len(pattern)} characters; the limit is {PATTERN_LENGTH_MAX}")
        # The first step, ``MATCHED``, is reached when the whole pattern is matched.
        self._steps: list[_Consume | _Fork | _Anchor] = [_Fork([])]
        self._accepts: list[Accepts] = []
        self._ways = 0
        self._visits = 0

    def visit(self) -> None:
        """Count a part of the pattern, even if it is empty: repeating an empty part takes time as well."""
        self._visits += 1
        if self._visits > STEPS_MAX:
            raise TooLarge(f"it is too large: more than {STEPS_MAX} steps")

    def consume(self, accepts: Accepts, following: int) -> int:
        self._accepts.append(accepts)
        return self._add(_Consume(len(self._accepts) - 1, following))

    def fork(self, *following: int) -> int:
        return self._add(_Fork(list(following)))

    def fork_also(self, fork: int, following: int) -> None:
        step = self._steps[fork]
        assert isinstance(step, _Fork)
        step.following.append(following)

    def anchor(self, following: int, *, at_start: bool) -> int:
        return self._add(_Anchor(at_start, following))

    def automaton(self, first: int) -> Automaton:
        reached: dict[int, tuple[int, bool]] = {}
        onward: list[int] = []
        last = 0
        for step in self._steps:
            if isinstance(step, _Consume):
                if step.following not in reached:
                    reached[step.following] = self._reached(step.following, at_start=False)
                positions, may_end = reached[step.following]
                onward.append(positions)
                last |= may_end << step.position
        return Automaton(self._accepts, onward, last, _Here(*self._reached(first, at_start=True)))

    def _add(self, step: _Consume | _Fork | _Anchor) -> int:
        self.visit()
        self._steps.append(step)
        return len(self._steps) - 1

    def _reached(self, first: int, *, at_start: bool) -> tuple[int, bool]:
        """Return the positions that can take the next character, and whether the text may end here."""
        positions, may_end = 0, False
        seen: set[tuple[int, bool]] = set()
        # Each entry is a step, and whether the end of the text was passed: no character can come after that.
        waiting = [(first, False)]
        while waiting:
            number, at_end = here = waiting.pop()
            if here in seen:
                continue
            seen.add(here)
            self._ways += 1
            if self._ways > WAYS_MAX:
                raise TooLarge(f"it is too large: more than {WAYS_MAX} ways from one character to the next")
            step = self._steps[number]
            if number == MATCHED:
                may_end = True
            elif isinstance(step, _Consume):
                if not at_end:
                    positions |= 1 << step.position
            elif isinstance(step, _Fork):
                waiting += [(following, at_end) for following in step.following]
            elif not step.at_start:
                waiting.append((step.following, True))
            elif at_start:
                waiting.append((step.following, at_end))
        return positions, may_end


class _Here:
    """A state: a set of positions that occurred.

    It has the positions that may come next, whether the text may end here, and the next state for known characters.
    """

    __slots__ = ("may_end", "moves", "onward")

    def __init__(self, onward: int, may_end: bool) -> None:
        self.onward = onward
        self.may_end = may_end
        self.moves: dict[str, _Here | None] = {}


class Automaton:
    def __init__(self, accepts: list[Accepts], onward: list[int], last: int, first: _Here) -> None:
        # The positions of each set of characters, as bits: all repetitions of [a-z] are examined with one call.
        self._accepts: dict[Accepts, int] = {}
        for position, one in enumerate(accepts):
            self._accepts[one] = self._accepts.get(one, 0) | 1 << position
        self._onward = onward
        """For each position, the positions that may come next, as bits."""
        self._last = last
        """The positions after which the text may end, as bits."""
        self._first = first
        self._known_states: dict[int, _Here] = {}
        self._taking: dict[str, int] = {}
        """For each character that occurred, the positions that accept it, as bits."""
        self._moves = 0
        self.work = 0
        """How many positions were examined so far: the cost of all texts that were matched."""

    def matches(self, text: str) -> bool:
        """Whether the whole text matches the pattern."""
        here = self._first
        for char in text:
            try:
                following = here.moves[char]
            except KeyError:
                following = here.moves[char] = self._moved(here, char)
            if following is None:
                return False
            here = following
        return here.may_end

    def forget(self) -> None:
        """Clear what is cached from the texts so far."""
        self._known_states.clear()
        self._taking.clear()
        self._first.moves.clear()
        self._moves = 0

    def _moved(self, here: _Here, char: str) -> _Here | None:
        taking = self._taking.get(char)
        if taking is None:
            taking = self._take(char)
        positions = here.onward & taking
        self.work += 1
        self._moves += 1
        if self._moves >= MOVES_REMEMBERED_MAX:
            self.forget()
        if not positions:
            return None
        moved = self._known_states.get(positions)
        if moved is None:
            if len(self._known_states) >= SETS_REMEMBERED_MAX:
                self.forget()
            onward, rest = 0, positions
            while rest:
                position = rest.bit_length() - 1
                onward |= self._onward[position]
                rest ^= 1 << position
                self.work += 1
            moved = self._known_states[positions] = _Here(onward, bool(positions & self._last))
        return moved

    def _take(self, char: str) -> int:
        self.work += len(self._onward)
        taking = 0
        for accepts, positions in self._accepts.items():
            if accepts(char):
                taking |= positions
        self._taking[char] = taking
        return taking
