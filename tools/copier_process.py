"""A copier as a supervised process: if it gives up or hangs, it is started again, and that is counted."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.copiers.task import Task
from tools.kafka_jars import KAFKA_4, jars_of, java

_FOLDER: Final = Path(__file__).resolve().parent / "copiers"
OWN: Final = "semel"


@dataclass(frozen=True, slots=True)
class Copier:
    """One of the programs in ``tools.copiers``."""

    name: str
    module: str | None
    """The Python module; ``None`` for the copier in Java."""

    def command(self) -> Sequence[str]:
        if self.module is not None:
            return [sys.executable, "-m", self.module]
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        return [java(), "-Xmx256m", quiet, "-cp", f"{jars_of(KAFKA_4)}/*", str(_FOLDER / "Copier.java")]

    def __str__(self) -> str:
        return self.name


PYTHON_COPIERS: Final = (
    Copier(OWN, "tools.copiers.own"),
    Copier("confluent-kafka", "tools.copiers.confluent"),
    Copier("kafka-python", "tools.copiers.kafka_python"),
    Copier("aiokafka", "tools.copiers.aio"),
)
JAVA_COPIER: Final = Copier("java", None)


class CopierProcess:
    """Runs a copier until everything is copied. ``tend`` must be called often: it restarts the process if needed."""

    def __init__(self, copier: Copier, task: Task, output: Path, *, hang_s_max: float) -> None:
        self.gave_up = 0
        self.hung = 0
        self.copied = 0
        self._command = [*copier.command(), *task.to_arguments()]
        self._output = output
        self._hang_s_max = hang_s_max
        self._process = self._start()

    @property
    def is_done(self) -> bool:
        return self._process.poll() == 0

    def tend(self) -> None:
        """Start the copier again if it has ended early, or has made no progress for too long."""
        code = self._process.poll()
        if code == 0:
            return
        if code is not None:
            self.gave_up += 1
        elif time.monotonic() - self._told_at > self._hang_s_max:
            self.hung += 1
            self.end()
        else:
            return
        self._process = self._start()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def printed(self, last_bytes: int = 2000) -> str:
        return self._output.read_bytes()[-last_bytes:].decode(errors="replace")

    def _start(self) -> subprocess.Popen[str]:
        self._told_at = time.monotonic()
        with self._output.open("a") as output:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                cwd=_FOLDER.parent.parent,
            )
        threading.Thread(target=self._listen, args=(process,), name="copier", daemon=True).start()
        return process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.copied = int(line)
            self._told_at = time.monotonic()
