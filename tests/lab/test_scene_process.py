"""A scene as a process that tells its steps in JSON, as the console runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from semel.lab.scenes import SCENES
from tools.patience import PATIENCE_S

PROCESS = [sys.executable, "-m", "semel.lab.scene_process"]


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    message: dict[str, Any] = json.loads(process.stdout.readline())
    return message


def say(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def played(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*PROCESS, "play", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_the_list_has_every_scene_in_both_languages() -> None:
    listed = json.loads(subprocess.run([*PROCESS, "list"], capture_output=True, check=True, timeout=PATIENCE_S).stdout)
    assert [(one["number"], one["title"]["en"]) for one in listed["scenes"]] == [
        (one.number, one.title) for one in SCENES
    ]
    assert all(set(one[text]) == {"en", "zh"} for one in listed["scenes"] for text in ("title", "lesson", "protection"))
    assert listed["words"]["zh"]["clients"] == "客户端"


def test_each_step_waits_for_a_word_and_the_rest_for_one() -> None:
    with played("1", "unprotected") as process:
        first = told(process)
        assert (first["kind"], first["number"], first["text"]["en"]) == (
            "step",
            1,
            "A producer, a broker, an empty log.",
        )
        say(process, "next")
        second = told(process)
        assert [(entry["offset"], entry["value"]) for entry in second["logs"][0]["entries"]] == [(0, "a")]
        assert second["clients"][0]["name"] == "producer"
        say(process, "rest")
        rest = [told(process) for _ in range(4)]
        assert [message["kind"] for message in rest] == ["step", "step", "step", "verdict"]
        assert any("the answer is lost" in event["text"] and event["is_bad"] for event in rest[0]["wire"])
        assert (rest[-1]["holds"], rest[-1]["is_as_claimed"]) == (False, True)
        duplicates = next(fact for fact in rest[-1]["facts"] if fact["name"]["en"] == "duplicates")
        assert (duplicates["found"], duplicates["wanted"], duplicates["holds"]) == ("1", "0", False)
        assert duplicates["name"]["zh"] == "重复的记录"
        assert process.wait(PATIENCE_S) == 0


def test_it_ends_when_its_reader_does() -> None:
    with played("1", "protected") as process:
        assert told(process)["number"] == 1
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
        assert process.stdout is not None
        assert process.stdout.read() == ""
