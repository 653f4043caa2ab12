"""A driver process, as seen by whoever measures it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.spark.connector import Connector
from benchmarks.spark.queries import Query

_ROOT = Path(__file__).resolve().parent.parent.parent


class Failed(Exception):
    """The driver ended; the message has the end of what it printed."""


class Session:
    """Of one connector: made once, used for every round."""

    def __init__(self, name: str, connector: Connector, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.name = name
        self._output = folder / "output.txt"
        inherited = os.environ.get("PYTHONPATH")
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.spark.driver", name, connector.class_path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                cwd=folder,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, (str(connector.packages), str(_ROOT), inherited))),
                    "PYSPARK_PYTHON": sys.executable,
                },
                start_new_session=True,
            )

    def __enter__(self) -> Session:
        self.spark_version = str(self._answer()["spark"])
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def run(self, query: Query) -> list[dict[str, Any]]:
        """Its batches, once it has ended; of one without end, nothing, once it has started."""
        self._tell(asdict(query))
        batches: list[dict[str, Any]] = self._answer().get("batches", [])
        return batches

    def stop(self) -> list[dict[str, Any]]:
        self._tell("stop")
        batches: list[dict[str, Any]] = self._answer()["batches"]
        return batches

    def cpu_seconds(self) -> float:
        """Processor time of the driver, of its Java and of its tasks' processes, since they started."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # It may have ended meanwhile.
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[3]) == self._process.pid:
                    ticks += sum(map(int, fields[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def _tell(self, what: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Failed(f"{self.name} ended:\n{self._output.read_text(errors='replace')[-3000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer
