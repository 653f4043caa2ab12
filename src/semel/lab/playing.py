"""Plays a scene before an audience, and judges whether it has shown what it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from semel.lab.scene import Scene, Verdict
from semel.lab.stage import Frame, Stage


@dataclass(frozen=True, slots=True)
class Played:
    """A scene that was played, with its protection or without."""

    scene: Scene
    protected: bool
    verdict: Verdict
    frames: tuple[Frame, ...]

    @property
    def is_as_claimed(self) -> bool:
        """With the protection everything holds; without it something does not."""
        return self.verdict.holds == self.protected


def play(scene: Scene, *, protected: bool = True, audience: Callable[[Frame], object] = lambda frame: None) -> Played:
    """Raises ``SceneFailed`` if something that the scene waits for does not come."""
    with Stage(protected=protected, audience=audience) as stage:
        verdict = scene.play(stage)
        frames = tuple(stage.frames)
    return Played(scene, protected, verdict, frames)
