"""A copier that gives up or hangs is started again, and each is counted."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from tools.copier_process import Copier, CopierProcess
from tools.copiers.task import Task
from tools.patience import PATIENCE_S

TASK = Task("nowhere:9092", "source", "target", "id", "group", 10_000, (3, 4))

# The first process does what it is told to; the second copies all there is.
SCRIPT = """
import pathlib, sys, time
first = pathlib.Path({marker!r})
if not first.exists():
    first.touch()
    print(2, flush=True)
    {misbehave}
print(sum(map(int, sys.argv[-1].split(","))), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Scripted:
    script: str
    name: str = "scripted"

    def command(self) -> Sequence[str]:
        return [sys.executable, "-c", self.script]


def tended_until_done(tmp_path: Path, misbehave: str, *, hang_s_max: float = PATIENCE_S) -> CopierProcess:
    script = SCRIPT.format(marker=str(tmp_path / "marker"), misbehave=misbehave)
    process = CopierProcess(cast(Copier, Scripted(script)), TASK, tmp_path / "output.txt", hang_s_max=hang_s_max)
    deadline = time.monotonic() + PATIENCE_S
    while not (process.is_done and process.copied == 7):
        process.tend()
        assert time.monotonic() < deadline, process.printed()
        time.sleep(0.01)
    process.end()
    return process


def test_one_that_copies_all_is_started_once(tmp_path: Path) -> None:
    process = tended_until_done(tmp_path, "pass")
    assert (process.gave_up, process.hung) == (0, 0)


def test_one_that_gives_up_is_started_again_and_counted(tmp_path: Path) -> None:
    process = tended_until_done(tmp_path, "sys.exit('no use')")
    assert (process.gave_up, process.hung) == (1, 0)
    assert "no use" in process.printed()


def test_one_that_hangs_is_killed_started_again_and_counted(tmp_path: Path) -> None:
    process = tended_until_done(tmp_path, "time.sleep(600)", hang_s_max=3.0)
    assert process.gave_up == 0
    # On a machine that is slow enough, the second one seems to hang, too.
    assert process.hung >= 1


def test_a_task_survives_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["copier", *TASK.to_arguments()])
    assert Task.from_arguments() == TASK
