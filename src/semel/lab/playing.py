"""Plays a scene, and tells whether its verdict is as it should be, with the protection or without."""

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
        """Whether every fact holds with the protection, or at least one does not without it."""
        return self.verdict.holds == self.protected


def play(scene: Scene, *, protected: bool = True, audience: Callable[[Frame], object] = lambda frame: None) -> Played:
    """Play a scene; ``audience`` is called with each step as it ends. Raises ``SceneFailed``."""
    with Stage(protected=protected, audience=audience) as stage:
        verdict = scene.play(stage)
        frames = tuple(stage.frames)
    return Played(scene, protected, verdict, frames)
