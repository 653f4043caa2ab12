"""Writes the scenes of the lab as notebooks, ``examples/notebooks/``, with the outputs of a real run.

    python -m tools.lab_notebooks      plays every scene, and writes one notebook for each

A notebook is JSON, and its code cells are run here as a reader runs them: one after the other, in one namespace. So
neither Jupyter nor a kernel is needed to make or to test them.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from semel.lab.notebook import run
from semel.lab.scene import Scene
from semel.lab.scenes import SCENES

FOLDER: Final = Path(__file__).resolve().parent.parent / "examples" / "notebooks"

_HOW: Final = """\
Each step shows the clients, the requests on the wire and the log side by side. In a log `○` is a record of an open
transaction and `×` one of an aborted one; `0/1#2` is producer id 0, epoch 1, sequence 2. On the wire `→` is a request,
`←` an answer, `✗` one that is lost, `‖` one that the network holds. Brokers are in this process; what is killed in
a scene is a process of its own."""  # noqa: RUF001
_VALUES: Final = "## What was recorded\n\nRequests and answers are values. Those of the first steps:"
_RECORDED: Final = """\
for frame in protected.played.frames[:3]:
    for event in frame.wire:
        print(frame.number, event.client_id, event.kind.name, event.api, event.fields)"""


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for scene in SCENES:
        cells = cells_of(scene, run(scene.number).steps, run(scene.number, protected=False).steps)
        outputs = executed(source_of(cell) for cell in cells if cell["cell_type"] == "code")
        for cell in cells:
            if cell["cell_type"] == "code":
                cell["execution_count"], printed = next(outputs)
                stream = {"name": "stdout", "output_type": "stream", "text": _lines(printed)}
                cell["outputs"] = [stream] if printed else []
        path_of(scene).write_text(json.dumps(notebook(cells), indent=1, ensure_ascii=False) + "\n")
        print(f"  {path_of(scene).name}")
    return 0


def path_of(scene: Scene) -> Path:
    return FOLDER / f"{scene.number:02}-{scene.name}.ipynb"


def cells_of(scene: Scene, steps: int, steps_without: int) -> list[dict[str, Any]]:
    """Return the cells of a scene, without outputs: its text, its steps with the protection, and those without it."""
    title = f"# {scene.number}. {scene.title}"
    sources = [
        ("markdown", "\n\n".join((title, scene.lesson, f"What protects: {scene.protection}.", _HOW))),
        ("code", f"from semel.lab.notebook import run\n\nprotected = run({scene.number})\nprotected.opening()"),
        *(("code", f"protected.step({number})") for number in range(1, steps + 1)),
        ("code", "protected.verdict()"),
        ("markdown", "## Without its protection"),
        ("code", f"unprotected = run({scene.number}, protected=False)\nunprotected.opening()"),
        *(("code", f"unprotected.step({number})") for number in range(1, steps_without + 1)),
        ("code", "unprotected.verdict()"),
        ("markdown", _VALUES),
        ("code", _RECORDED),
    ]
    return [
        {
            "cell_type": kind,
            "id": f"cell-{number:02}",
            "metadata": {},
            "source": _lines(source),
            **({"execution_count": None, "outputs": []} if kind == "code" else {}),
        }
        for number, (kind, source) in enumerate(sources)
    ]


def notebook(cells: list[dict[str, Any]]) -> dict[str, Any]:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def executed(sources: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Run code cells in one namespace. Yield the number and the output of each."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, source in enumerate(sources, 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, f"cell {number}", "exec"), names)
        yield number, printed.getvalue()


def source_of(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    sys.exit(main())
