"""Every scene holds with its protection, does not without it, and notices when the protection is broken."""

from __future__ import annotations

import re
import string

import pytest

from semel.lab.chinese import CHINESE
from semel.lab.playing import Played, play
from semel.lab.scene import Scene
from semel.lab.scenes import SCENES
from semel.lab.sequence import diagram
from tests.lab.planted_bugs import PLANTED
from tests.simulation.planted_transaction_bugs import Plant
from tools.lab_pages import DOCS, STEPS, fact_cells, picture_name


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "unprotected"])
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_scene_shows_what_it_is_for(scene: Scene, protected: bool) -> None:
    played = play(scene, protected=protected)
    assert played.is_as_claimed, played.verdict
    assert len(played.frames) >= 3
    assert untranslated(played) == []
    assert untold(played) == []
    assert said_in(diagram(played, steps=STEPS.get(scene.name))) == said_in(
        (DOCS / "diagrams" / f"{picture_name(played)}.txt").read_text()
    ), "run python -m tools.lab_pages"


def untold(played: Played) -> list[str]:
    """What was counted and judged, and is not what docs/lab.md says."""
    place = 2 if played.protected else 3
    rows = [line.split("|") for line in (DOCS / "lab.md").read_text().splitlines() if line.startswith("| ")]
    cells = {(row[1].strip(), row[place].strip()) for row in rows}
    judged = [fact for fact in played.verdict.facts if fact.wanted is not None]
    return [fact.name for fact in judged if (fact.name, fact_cells(fact)) not in cells]


def said_in(text: str) -> dict[str, list[str]]:
    """By client the APIs that it asked for, one after the other.

    How often it had to ask depends on time, and which broker asks which other on where leaders are.
    """
    said: dict[str, list[str]] = {}
    for name, api in re.findall(r"^(?!broker )(.+?) ->x? (?:Broker|broker \d): (\w+)", text, re.MULTILINE):
        asked = said.setdefault(name, [])
        if asked[-1:] != [api]:
            asked.append(api)
    return said


def untranslated(played: Played) -> list[str]:
    """Texts that were shown and are not there in Chinese with the same values."""
    scene = played.scene
    texts = [scene.title, scene.lesson, scene.protection]
    texts += [fact.name for fact in played.verdict.facts] + [frame.text.template for frame in played.frames]
    return [text for text in texts if names_in(CHINESE.get(text, "{}")) != names_in(text)]


def names_in(template: str) -> set[str | None]:
    """What stands in braces."""
    return {name for _, name, _, _ in string.Formatter().parse(template)} - {None}


@pytest.mark.parametrize(
    ("name", "plant"),
    [(name, plant) for name, plants in PLANTED.items() for plant in plants],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_broken_protection_is_seen(name: str, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    (scene,) = [scene for scene in SCENES if scene.name == name]
    plant(monkeypatch)
    assert not play(scene).verdict.holds


def test_every_scene_has_a_planted_bug() -> None:
    assert set(PLANTED) == {scene.name for scene in SCENES}


def test_the_scenes_are_in_order() -> None:
    numbers = [scene.number for scene in SCENES]
    assert numbers == sorted(set(numbers))
