"""The driver of one of the demo's Spark jobs, as a process of its own that can be killed and started again."""

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

# Quick to start rather than quick for long: the demo starts four of them, and none lives for more than a minute.
_SPARK = (
    "--master local[2] --conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false "
    "--conf spark.sql.session.timeZone=UTC --conf spark.sql.codegen.wholeStage=false "
    "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' pyspark-shell"
)

# A machine with much else to do may take longer to start a process than Spark waits for it.
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
        """The driver and its Java at once, without a word, as when a machine is lost."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def check(self) -> bool:
        """False if it had ended by itself: it was started again, as an operator would, but not for ever."""
        if self._process is None or self._process.poll() is None:
            return True
        if self._restarts == _RESTARTS_MAX:
            raise SemelError(f"the driver ended with code {self._process.returncode}:\n{self.printed()}")
        self._restarts += 1
        self._process = None
        self.start()
        return False

    def has_unfinished_batch(self) -> bool:
        """Whether the last batch that Spark has planned is not noted as done: it runs again after a restart."""
        planned, done = (
            {int(file.name) for file in (self._checkpoint / folder).glob("[0-9]*")} for folder in ("offsets", "commits")
        )
        return max(planned, default=-1) not in done

    def printed(self) -> str:
        return self._output.read_text(errors="replace")[-3000:]

    @property
    def _output(self) -> Path:
        return self._folder / "driver.txt"
