"""Scenes of the lab in a notebook: play one, then look at its steps in as many cells as you like.

    from semel.lab.notebook import run

    lost_answer = run(1)                       # plays the scene, on a broker in this process
    lost_answer.step(3)                        # prints clients, wire and log at the end of the third step
    lost_answer.verdict()
    run(1, protected=False).verdict()          # the same without its protection

Everything that was recorded is in ``played``: frames with the requests that passed, and the facts of the verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

from semel.lab.playing import Played, play
from semel.lab.quiet_log import quiet_log
from semel.lab.scenes import SCENES, scene
from semel.lab.screen import Screen


@dataclass(frozen=True, slots=True)
class NotebookRun:
    """A scene that was played. Its methods print what a cell shows."""

    played: Played
    screen: Screen

    @property
    def steps(self) -> int:
        return len(self.played.frames)

    def opening(self) -> None:
        """Print the title, what to look at, and whether the protection is on or off."""
        _print(self.screen.opening(self.played.scene, protected=self.played.protected))

    def step(self, number: int) -> None:
        """Print one step, counted from 1. Raises ``ValueError`` if there is no such step."""
        if not 1 <= number <= self.steps:
            raise ValueError(f"step {number}: this scene has the steps 1 to {self.steps}")
        _print(self.screen.step(self.played.frames[number - 1]))

    def verdict(self) -> None:
        _print(self.screen.verdict(self.played.verdict, protected=self.played.protected))


def run(number: int, *, protected: bool = True, language: str = "en") -> NotebookRun:
    """Play a scene. Raises ``ValueError`` if there is none with this number, and ``SceneFailed``."""
    try:
        chosen = scene(number)
    except KeyError:
        raise ValueError(f"scene {number}: the scenes are {SCENES[0].number} to {SCENES[-1].number}") from None
    with quiet_log():
        return NotebookRun(play(chosen, protected=protected), Screen(language=language))


def _print(lines: list[str]) -> None:
    print("\n".join(line.rstrip() for line in lines).rstrip())
