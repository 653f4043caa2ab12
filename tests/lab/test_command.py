"""``semel lab`` as a person runs it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import unicodedata

import pytest

from semel.cli.exits import Exit
from semel.cli.main import main
from semel.lab.scene import Fact, Scene, Verdict
from semel.lab.scenes import SCENES
from semel.lab.screen import WIDTH, Screen, wrapped
from semel.lab.stage import Stage


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def columns(line: str) -> int:
    """Chinese characters take two."""
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in line)


def test_a_scene_is_shown_side_by_side_and_ends_with_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "--scene", "1"]) == Exit.OK
    printed = capsys.readouterr().out
    assert "══ Scene 1 · A lost answer" in printed
    assert "producer ✗← Produce: the answer is lost" in printed
    assert "Verdict: it holds\n" in printed
    assert max(map(columns, printed.splitlines())) <= WIDTH
    rows = [line.split(" │ ") for line in printed.splitlines() if " │ " in line]
    assert ["producer", "producer → Produce orders:0(pid=0 epoch=0 seq=1)", "orders:0"] in [
        [cell.strip() for cell in row] for row in rows
    ]


def test_without_its_protection_the_harm_is_seen_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "--scene", "1", "--without-protection", "--lang", "zh"]) == Exit.OK
    printed = capsys.readouterr().out
    assert "场景 1 · 丢失的应答" in printed
    assert "✗ 重复的记录: 1 (应为 0)" in printed
    assert max(map(columns, printed.splitlines())) <= WIDTH


def test_steps_wait_for_enter() -> None:
    keyboard, terminal = pty.openpty()
    run = "import sys; from semel.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", run, "lab", "--scene", "3", "--step"]
    try:
        with subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            shown = ""
            for step in (1, 2, 3):
                while "Enter: go on" not in shown:
                    shown += process.stdout.read(1)
                assert f"{step}. " in shown
                assert "Verdict" not in shown  # Nothing goes on before Enter.
                shown = ""
                os.write(keyboard, b"\n")
            assert "Verdict: it holds" in process.stdout.read()
        assert process.returncode == Exit.OK
    finally:
        os.close(keyboard)
        os.close(terminal)


def test_the_list_has_every_scene(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "--list"]) == Exit.OK
    printed = capsys.readouterr().out
    assert [scene.title for scene in SCENES if scene.title not in printed] == []


@pytest.mark.parametrize(("found", "code"), [(0, Exit.OK), (1, Exit.FOUND)])
def test_a_verdict_that_is_not_as_it_should_be_is_an_exit_code(
    found: int, code: Exit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(stage: Stage) -> Verdict:
        return Verdict((Fact("duplicates", found, 0),))

    scene = Scene(99, "empty", "Empty", "Nothing happens.", "none", play)
    monkeypatch.setattr("semel.lab.scenes.SCENES", (scene,))
    assert main(["lab", "--scene", "99"]) == code
    assert main(["lab", "--scene", "99", "--without-protection"]) == (Exit.FOUND if code is Exit.OK else Exit.OK)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--scene", "99"], "--scene 99: there is no such scene"),
        (["--step"], "--step waits for Enter, and standard input is not a terminal"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["lab", *arguments])
    assert ended.value.code == Exit.USAGE
    assert said in capsys.readouterr().err


def test_lines_break_between_words_and_wide_characters_and_where_they_must() -> None:
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("x" * 12, 5, " ") == ["xxxxx", " xxxx", " xxx"]
    assert wrapped("协调者死在。", 6) == ["协调者", "死在。"]
    assert all(columns(line) <= 20 for line in wrapped("a标记说明这些记录不算数。消费者回到原来的位置。", 20))


def test_colours_change_no_width() -> None:
    verdict = Verdict((Fact("duplicates", 1, 0),))
    plain = Screen().verdict(verdict, protected=False)
    coloured = Screen(colour=True).verdict(verdict, protected=False)
    assert len(plain) == len(coloured)
    assert "\033[" in "".join(coloured)
    assert "\033[" not in "".join(plain)
