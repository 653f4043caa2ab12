"""A scene as a process of its own, for the console. It prints JSON, a line for each step.

    python -m semel.lab.scene_process list
    python -m semel.lab.scene_process play NUMBER protected|unprotected

``list`` prints the scenes and the texts around them. ``play`` prints each step and waits for a line: ``next`` plays the
next step, ``rest`` all that are left. Its last line is the verdict, or the error. The process ends when its standard
input does, so that a scene does not outlive the console that started it. Texts are printed in every language.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from semel.errors import SemelError
from semel.lab.chinese import CHINESE
from semel.lab.log_view import LogView
from semel.lab.playing import Played, play
from semel.lab.quiet_log import quiet_log
from semel.lab.scene import Scene
from semel.lab.scenes import SCENES, scene
from semel.lab.screen import ARROWS, client_name, wire_text
from semel.lab.stage import Frame
from semel.lab.words import LANGUAGES, translated
from semel.testing.tracing.wire_trace import WireEvent, WireEventKind

NEXT: Final = "next"
REST: Final = "rest"


class _Audience:
    """Prints each step, and waits for the line that plays the next one."""

    def __init__(self) -> None:
        self._waits = True

    def __call__(self, frame: Frame) -> None:
        _tell(step_message(frame))
        if self._waits:
            line = sys.stdin.readline()
            if not line:
                sys.exit(0)
            self._waits = line.strip() != REST


def main(what: str, *rest: str) -> int:
    if what == "list":
        _tell({"scenes": [scene_message(one) for one in SCENES], "words": {"zh": CHINESE}})
        return 0
    number, protection = rest
    try:
        with quiet_log():
            _tell(verdict_message(play(scene(int(number)), protected=protection == "protected", audience=_Audience())))
    except SemelError as error:
        _tell({"kind": "failed", "said": str(error)})
    return 0


def scene_message(one: Scene) -> dict[str, Any]:
    return {
        "number": one.number,
        "name": one.name,
        "title": _in_every_language(one.title),
        "lesson": _in_every_language(one.lesson),
        "protection": _in_every_language(one.protection),
    }


def step_message(frame: Frame) -> dict[str, Any]:
    """One step with its three columns: clients, wire, logs."""
    return {
        "kind": "step",
        "number": frame.number,
        "text": {language: frame.text.of(language) for language in LANGUAGES},
        "clients": [{"name": client.name, "lines": list(client.lines)} for client in frame.clients],
        "wire": [_event_message(event) for event in frame.wire],
        "logs": [_log_message(log) for log in frame.logs],
    }


def verdict_message(played: Played) -> dict[str, Any]:
    return {
        "kind": "verdict",
        "holds": played.verdict.holds,
        "is_as_claimed": played.is_as_claimed,
        "facts": [
            {
                "name": _in_every_language(fact.name),
                "found": str(fact.found),
                "wanted": None if fact.wanted is None else str(fact.wanted),
                "holds": fact.holds,
            }
            for fact in played.verdict.facts
        ],
    }


def _event_message(event: WireEvent) -> dict[str, Any]:
    return {
        "client": client_name(event),
        "arrow": ARROWS[event.kind],
        "server": event.server,
        "text": wire_text(event),
        "is_bad": bool(event.errors) or event.kind in (WireEventKind.REQUEST_LOST, WireEventKind.ANSWER_LOST),
    }


def _log_message(log: LogView) -> dict[str, Any]:
    return {
        "name": log.name,
        "last_stable_offset": log.last_stable_offset,
        "high_watermark": log.high_watermark,
        "entries": [
            {
                "offset": entry.offset,
                "kind": entry.kind.value,
                "value": entry.value,
                "producer_id": entry.producer_id,
                "epoch": entry.epoch,
                "sequence": entry.sequence if entry.sequence is None or entry.sequence >= 0 else None,
            }
            for entry in log.entries
        ],
    }


def _in_every_language(text: str) -> dict[str, str]:
    return {language: translated(text, language) for language in LANGUAGES}


def _tell(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
