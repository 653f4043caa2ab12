"""What a scene of the lab is: a title, steps that are played on a stage, and a verdict.

The law: a verdict is computed from what a scene has read back from brokers and wire. With the protection every fact is
as wanted; without it at least one is not, because the duplicate, the loss or the zombie has really happened.

Texts are English; ``words.py`` has them in other languages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from semel.lab.stage import Stage


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that was counted, and what it should be; without ``wanted`` it is only shown."""

    name: str
    found: object
    wanted: object = None

    @property
    def holds(self) -> bool:
        return self.wanted is None or self.found == self.wanted


@dataclass(frozen=True, slots=True)
class Verdict:
    facts: tuple[Fact, ...]

    @property
    def holds(self) -> bool:
        """Whether every fact is as it should be."""
        return all(fact.holds for fact in self.facts)


@dataclass(frozen=True, slots=True)
class Scene:
    """``play`` runs the scene on a stage, step by step, and returns what it has found."""

    number: int
    name: str
    title: str
    lesson: str
    """What to look at, in two or three sentences."""
    protection: str
    """The mechanism or setting that prevents the harm. It can be switched off."""
    play: Callable[[Stage], Verdict]


def repeated(values: Iterable[str]) -> int:
    """How many values are surplus: of each value, all occurrences but one."""
    return sum(count - 1 for count in Counter(values).values())


def missing(wanted: Iterable[str], found: Iterable[str]) -> int:
    """How many of the wanted values were not found at all."""
    return len(set(wanted) - set(found))


def inversions(wanted: Sequence[str], found: Sequence[str]) -> int:
    """How many pairs of values are in the wrong order; of a value that occurs twice, the first occurrence counts."""
    places = [found.index(value) for value in wanted if value in found]
    return sum(later < earlier for at, earlier in enumerate(places) for later in places[at + 1 :])


SENT: Final = "records sent"
IN_LOG: Final = "records in the log"
SEEN: Final = "records that readers see"
DUPLICATES: Final = "duplicates"
LOST: Final = "lost records"
