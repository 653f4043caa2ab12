"""Runs scenes of the lab for visitors, each in a process of its own, on the console's machine, one at a time.

The console imports neither the lab nor a broker: it starts ``semel.lab.scene_process``, reads the messages of that
process, and writes a line to it when it is to do the next step. The limits of a run: one process for the whole console,
``SECONDS_MAX`` and ``BYTES_MAX``. A run ends when its visitor stops it, at a limit, or with the console.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from semel.errors import SemelError

SECONDS_MAX: Final = 600.0
LIST_SECONDS_MAX: Final = 60.0
BYTES_MAX: Final = 2 * 1024 * 1024
KEPT_MAX: Final = 48
"""How many runs of all visitors are kept with their steps: the latest."""

_PROCESS: Final = (sys.executable, "-m", "semel.lab.scene_process")
STOPPED: Final = "It was stopped."
TOO_LONG: Final = "It was stopped: its time is over."
TOO_MUCH: Final = "It was stopped: it told too much."
GONE: Final = "Its process ended before the verdict."


class SceneBusy(Exception):
    """Another visitor is playing a scene."""


class RunState(Enum):
    RUNNING = "running"
    WAITING = "waiting"
    """A step is shown, and the next one is done when the visitor asks for it."""
    ENDED = "ended"
    """The run has ended, with a verdict or with ``said``."""


@dataclass(frozen=True, slots=True)
class SceneText:
    """The texts of a scene by language."""

    number: int
    name: str
    title: Mapping[str, str]
    lesson: Mapping[str, str]
    protection: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LabTexts:
    scenes: Sequence[SceneText]
    words: Mapping[str, Mapping[str, str]]
    """The translations of the other texts on the lab's pages, by language and English text."""

    def scene(self, name: str) -> SceneText | None:
        return next((one for one in self.scenes if one.name == name), None)

    def say(self, language: str, text: str, **values: object) -> str:
        """Return the translation of the text, or the text itself if it has none. Only a text with values has braces."""
        found = self.words.get(language, {}).get(text, text)
        return found.format(**values) if values else found


class SceneRun:
    """One run of a scene, with its steps so far."""

    def __init__(self, number: int, *, protected: bool, steps_through: bool, seconds_max: float) -> None:
        self.steps: list[Mapping[str, Any]] = []
        self.verdict: Mapping[str, Any] | None = None
        self.said: str | None = None
        """The reason why the run has ended without a verdict."""
        self._lock = threading.Lock()
        self._state = RunState.RUNNING
        self._waits = steps_through
        self._process = subprocess.Popen(
            [*_PROCESS, "play", str(number), "protected" if protected else "unprotected"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A process group of its own, so that processes that a scene starts are killed with it.
            start_new_session=True,
        )
        self._timer = threading.Timer(seconds_max, self.stop, (TOO_LONG,))
        self._timer.daemon = True
        self._timer.start()
        self._reader = threading.Thread(target=self._read, name="semel-console-scene", daemon=True)
        self._reader.start()

    @property
    def process_id(self) -> int:
        """The id of the process and of its process group."""
        return self._process.pid

    @property
    def state(self) -> RunState:
        return self._state

    @property
    def is_over(self) -> bool:
        return self._state is RunState.ENDED

    def go_on(self, *, to_the_end: bool) -> None:
        """Do the next step, or all remaining steps. If the run is not waiting, no step is requested now."""
        with self._lock:
            if to_the_end:
                self._waits = False
            if self._state is RunState.WAITING:
                self._state = RunState.RUNNING
                self._write("next" if self._waits else "rest")

    def stop(self, why: str = STOPPED) -> None:
        with self._lock:
            if self._state is not RunState.ENDED:
                self.said = self.said or why
                _kill(self._process)

    def close(self) -> None:
        self.stop()
        self._reader.join()

    def _read(self) -> None:
        """Read the messages of the process until it ends or has written too much. Runs in a thread."""
        assert self._process.stdout is not None
        left = BYTES_MAX
        try:
            with self._process.stdout as told:
                while left > 0 and (line := told.readline(left)):
                    left -= len(line)
                    if line.endswith(b"\n"):
                        self._told(json.loads(line))
        finally:
            self._end(GONE if left > 0 else TOO_MUCH)

    def _end(self, why: str) -> None:
        self._timer.cancel()
        with self._lock:
            # The process is killed and waited for under the lock: afterwards another process may have its id.
            _kill(self._process)
            self._process.wait()
            assert self._process.stdin is not None
            with suppress(OSError):
                self._process.stdin.close()
            self.said = None if self.verdict is not None else self.said or why
            self._state = RunState.ENDED

    def _told(self, message: Mapping[str, Any]) -> None:
        with self._lock:
            match message["kind"]:
                case "step":
                    self.steps = [*self.steps, message]
                    if self._waits:
                        self._state = RunState.WAITING
                    else:
                        self._write("rest")
                case "verdict":
                    self.verdict = message
                case "failed":
                    self.said = str(message["said"])

    def _write(self, word: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # The process has ended, which the reader thread notices.
            self._process.stdin.write(f"{word}\n".encode())
            self._process.stdin.flush()


class SceneRuns:
    """The run in progress, if any, and the ended runs, by visitor."""

    def __init__(self, seconds_max: float = SECONDS_MAX) -> None:
        self._seconds_max = seconds_max
        self._lock = threading.Lock()
        self._texts: LabTexts | None = None
        self._texts_lock = threading.Lock()
        self._runs: OrderedDict[tuple[str, str, bool], SceneRun] = OrderedDict()
        self._is_closed = False

    def texts(self) -> LabTexts:
        """Return the scenes and their texts. The lab is asked for them once."""
        with self._texts_lock:
            if self._texts is None:
                self._texts = _asked_texts()
            return self._texts

    def find(self, session: str, scene: SceneText, *, protected: bool) -> SceneRun | None:
        with self._lock:
            return self._runs.get((session, scene.name, protected))

    def start(self, session: str, scene: SceneText, *, protected: bool, steps_through: bool) -> None:
        """Start a run of the scene, and stop the visitor's run in progress. Raises SceneBusy if another visitor has
        one."""
        with self._lock:
            going_on = [(key, run) for key, run in self._runs.items() if not run.is_over]
            if self._is_closed or any(key[0] != session for key, _ in going_on):
                raise SceneBusy
            for _, run in going_on:
                run.close()
            try:
                started = SceneRun(
                    scene.number, protected=protected, steps_through=steps_through, seconds_max=self._seconds_max
                )
            except OSError as error:
                raise SemelError(f"the process of the scene cannot be started: {error}") from error
            key = (session, scene.name, protected)
            self._runs.pop(key, None)
            self._runs[key] = started
            while len(self._runs) > KEPT_MAX:
                self._runs.popitem(last=False)

    def close(self) -> None:
        """End the run in progress; no run can be started afterwards."""
        with self._lock:
            self._is_closed = True
            runs = [*self._runs.values()]
        for run in runs:
            run.close()


def _asked_texts() -> LabTexts:
    try:
        asked = subprocess.run(
            [*_PROCESS, "list"], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIST_SECONDS_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SemelError(f"the lab cannot list its scenes: {error}") from error
    found = json.loads(asked.stdout)
    return LabTexts([SceneText(**one) for one in found["scenes"]], found["words"])


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and the processes that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
