"""Runs the driver of a Spark job of the demo in a process of its own, which can be killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from semel.errors import SemelError

TABLE = "totals.db"
EXACTLY_ONCE = ("semel.demo.exact_totals", "--table", TABLE)
PLAIN = ("semel.demo.plain_totals",)

# Settings for a fast start and not for throughput: the demo starts four drivers, each for less than a minute.
_SPARK = (
    "--master local[2] --conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false "
    "--conf spark.sql.session.timeZone=UTC --conf spark.sql.codegen.wholeStage=false "
    "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' pyspark-shell"
)

# On a busy machine a process may take longer to start than Spark waits for it: then the driver ends.
_RESTARTS_MAX = 2


class Driver:
    def __init__(self, job: Sequence[str], folder: Path, servers: str, rows_per_batch: int) -> None:
        self._folder = folder
        self._folder.mkdir()
        self._checkpoint = folder / "checkpoint"
        checkpoint = ("--checkpoint", str(self._checkpoint))
        self._arguments = [*job, servers, *checkpoint, "--rows-per-batch", str(rows_per_batch)]
        self._process: subprocess.Popen[bytes] | None = None
        self._restarts = 0

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def start(self) -> None:
        assert self._process is None, "the driver runs already"
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": _SPARK},
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill the driver and its JVM at once with SIGKILL, as if the machine had failed."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def check(self) -> bool:
        """Start the driver again if it has ended by itself. Returns whether it was still running.

        Raises ``SemelError`` if it has ended too often.
        """
        if self._process is None or self._process.poll() is None:
            return True
        if self._restarts == _RESTARTS_MAX:
            raise SemelError(f"the driver ended with code {self._process.returncode}:\n{self.printed()}")
        self._restarts += 1
        self._process = None
        self.start()
        return False

    def has_unfinished_batch(self) -> bool:
        """Whether the last batch that Spark has planned is missing in its commit log: then it runs again after a
        restart."""
        planned, done = (
            {int(file.name) for file in (self._checkpoint / folder).glob("[0-9]*")} for folder in ("offsets", "commits")
        )
        return max(planned, default=-1) not in done

    def printed(self) -> str:
        return self._output.read_text(errors="replace")[-3000:]

    @property
    def _output(self) -> Path:
        return self._folder / "driver.txt"
