"""The notebooks of the lab: their cells run, and show what they showed when they were written."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from semel.lab.notebook import NotebookRun, run
from semel.lab.scene import Scene
from semel.lab.scenes import SCENES
from tools.lab_notebooks import FOLDER, cells_of, executed, path_of, source_of

MARKS = ("Verdict", "  ✓", "  ✗", "══", "Without")


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_the_cells_of_a_notebook_run_and_show_the_same(scene: Scene) -> None:
    kept = json.loads(path_of(scene).read_text())
    code = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    printed = [text for _, text in executed(map(source_of, code))]
    # The last cell prints what was recorded, with ids and numbers of this run.
    assert printed.pop(), "nothing was recorded"
    assert [shape(text) for text in printed] == [shape(output_of(cell)) for cell in code[:-1]], (
        "run python -m tools.lab_notebooks"
    )
    verdicts = [text.splitlines()[0] for text in printed if text.startswith("Verdict")]
    assert verdicts == ["Verdict: it holds", "Verdict: it does not hold"]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_notebook_has_the_cells_that_its_scene_has(scene: Scene) -> None:
    kept = json.loads(path_of(scene).read_text())
    sources = [source_of(cell) for cell in kept["cells"]]
    steps = [sum(source.startswith(f"{name}.step(") for source in sources) for name in ("protected", "unprotected")]
    assert sources == [source_of(cell) for cell in cells_of(scene, *steps)], "run python -m tools.lab_notebooks"
    assert min(steps) >= 3
    assert (kept["nbformat"], kept["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in kept["cells"]}) == len(kept["cells"])
    assert [cell["outputs"] for cell in kept["cells"] if cell["cell_type"] == "code" and not cell["outputs"]] == []


def test_every_notebook_is_of_a_scene() -> None:
    assert sorted(FOLDER.glob("*.ipynb")) == [path_of(scene) for scene in SCENES]


def output_of(cell: dict[str, Any]) -> str:
    return "".join(line for output in cell["outputs"] for line in output["text"])


def shape(printed: str) -> list[str]:
    """What is the same in every run: the first line of a step, and the names and marks of a verdict, without numbers.

    How often a client had to ask again depends on time, and so do the lines of the wire.
    """
    lines = printed.splitlines()
    kept = [line for number, line in enumerate(lines) if number == 0 or line.startswith(MARKS)]
    return [re.sub(r"\d+", "#", line.partition(": ")[0]) for line in kept]


def test_a_step_or_a_scene_that_is_not_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="scene 99: the scenes are 1 to 12"):
        run(99)
    played: NotebookRun = run(1, language="zh")
    with pytest.raises(ValueError, match=f"step 0: this scene has the steps 1 to {played.steps}"):
        played.step(0)
    played.opening()
    played.verdict()
    assert "场景 1" in capsys.readouterr().out
