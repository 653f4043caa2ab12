"""A broker as an operating system process: Semel or Apache Kafka.

A broker is ready when it answers Metadata and lists itself among the brokers. This is checked over the wire in the same
way for both, so that times measured here can be compared. ``kill`` is ``kill -9``: the process cannot clean up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.frames import brokers_answering
from tools.patience import PATIENCE_S
from tools.ports import HOST

_ANSWER_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Launch:
    """How a broker is started: each time with the same data directory and on the same port."""

    name: str
    command: Sequence[str]
    port: int
    data_dir: Path
    output: Path
    metrics_port: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    secured_ports: Mapping[str, int] = field(default_factory=dict)
    """The ports of its other listeners, by their security protocol. The listener at ``port`` is PLAINTEXT."""


class NotReady(Exception):
    """The process ended, or did not answer in time; the message has the end of its output."""


class Server:
    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.name = launch.name
        self.data_dir = launch.data_dir
        self.bootstrap_servers = f"{HOST}:{launch.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start the process and wait until it is ready. Return the seconds that it took."""
        started = time.monotonic()
        self.launch_process()
        while not brokers_answering(HOST, self.launch.port, timeout_s=_ANSWER_TIMEOUT_S):
            self._check_still_starting(started)
            time.sleep(0.002)
        return time.monotonic() - started

    def launch_process(self) -> None:
        """Start the process and return at once, before it is ready."""
        assert self._process is None, f"{self.name} runs already"
        with self.launch.output.open("ab") as output:
            self._process = subprocess.Popen(
                list(self.launch.command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.launch.environment},
            )

    def kill(self) -> None:
        """End the process with SIGKILL. Does nothing if it does not run."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask the process to end, and wait for it. Kills it and raises AssertionError if it does not end in time."""
        self._end(signal.SIGTERM)

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    def resident_bytes(self) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"/proc/{self.pid}/status has no VmRSS")

    def cpu_seconds(self) -> float:
        """Return the processor time of the process since it started, in user and in system mode."""
        after_name = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")

    def printed(self, last_bytes: int = 4000) -> str:
        """Return the end of the process's output to stdout and stderr."""
        with contextlib.suppress(FileNotFoundError):
            return self.launch.output.read_bytes()[-last_bytes:].decode(errors="replace")
        return ""

    def _check_still_starting(self, started: float) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            code, self._process = self._process.returncode, None
            raise NotReady(f"{self.name} ended with code {code} before it was ready:\n{self.printed()}")
        if time.monotonic() - started > PATIENCE_S:
            self.kill()
            raise NotReady(f"{self.name} was not ready after {PATIENCE_S:.0f} s:\n{self.printed()}")

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"{self.name} did not end {PATIENCE_S:.0f} s after {how.name}") from None


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    """Start the server, and kill it at the end of the ``with`` block if it still runs."""
    server.start()
    try:
        yield server
    finally:
        server.kill()
