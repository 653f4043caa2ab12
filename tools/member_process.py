"""A member of a group as a process: its reports, and functions to kill, pause and end it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.kafka_jars import KAFKA_4, jars_of, java
from tools.members.role import Role
from tools.patience import PATIENCE_S

_FOLDER: Final = Path(__file__).resolve().parent / "members"
# Members of other libraries sometimes never end.
_LEAVE_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Library:
    """One of the programs in ``tools.members``."""

    name: str
    module: str | None
    """The Python module; ``None`` for the member in Java."""
    has_transactions: bool = True
    """Whether it sends the group's generation with the offsets of a transaction."""

    def command(self) -> Sequence[str]:
        if self.module is not None:
            return [sys.executable, "-m", self.module]
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        return [java(), "-Xmx128m", quiet, "-cp", f"{jars_of(KAFKA_4)}/*", str(_FOLDER / "Member.java")]

    def __str__(self) -> str:
        return self.name


OWN: Final = Library("semel", "tools.members.own")
CONFLUENT: Final = Library("confluent-kafka", "tools.members.confluent")
KAFKA_PYTHON: Final = Library("kafka-python", "tools.members.kafka_python")
AIOKAFKA: Final = Library("aiokafka", "tools.members.aio", has_transactions=False)
JAVA: Final = Library("java", None)
PYTHON_LIBRARIES: Final = (OWN, CONFLUENT, KAFKA_PYTHON, AIOKAFKA)


@dataclass(slots=True)
class MemberReports:
    """Everything that a member has reported, in the order of its lines."""

    assigned: set[int] = field(default_factory=set)
    revoked: list[set[int]] = field(default_factory=list)
    read: list[tuple[int, int]] = field(default_factory=list)
    committed: dict[int, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def add_line(self, line: str) -> None:
        what, _, values = line.strip().partition(" ")
        match what:
            case "assigned":
                self.assigned |= {int(value) for value in values.split()}
            case "revoked":
                self.revoked.append({int(value) for value in values.split()})
                self.assigned -= self.revoked[-1]
            case "read":
                self.read += _pairs(values)
            case "committed":
                self.committed |= dict(_pairs(values))
            case "error":
                self.errors.append(values)


class MemberProcess:
    """The process of a member. It is started by the constructor."""

    def __init__(self, library: Library, role: Role, output: Path) -> None:
        self.library = library
        self.role = role
        self.reports = MemberReports()
        self.is_paused = False
        self._output = output
        with output.open("a") as errors:
            self._process = subprocess.Popen(
                [*library.command(), *role.to_arguments()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=_FOLDER.parent.parent,
            )
        self._listener = threading.Thread(target=self._listen, name=role.name, daemon=True)
        self._listener.start()

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        """Kill the process with SIGKILL, so that it does not leave the group. Its reports until then are read."""
        self._process.kill()
        self._process.wait()
        self._listener.join()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self.is_paused = False

    def ask_to_leave(self) -> None:
        """Ask the process to leave the group and end, with SIGTERM. ``wait`` waits for it."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        timeout_s = PATIENCE_S if self.library is OWN else _LEAVE_TIMEOUT_S
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"{self.role.name} did not end within {timeout_s:.0f} s: {self.printed()}") from None
        self._listener.join()

    def wait_until_assigned(self, timeout_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not self.reports.assigned:
            if time.monotonic() > deadline or self.exit_code is not None:
                raise TimeoutError(f"{self.role.name} was assigned nothing: {self.reports.errors} {self.printed()}")
            time.sleep(0.01)

    def last_words(self) -> str:
        return self.reports.errors[-1] if self.reports.errors else self.printed()

    def printed(self, last_bytes: int = 2000) -> str:
        return self._output.read_bytes()[-last_bytes:].decode(errors="replace")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.reports.add_line(line)


def _pairs(values: str) -> list[tuple[int, int]]:
    return [(int(left), int(right)) for left, _, right in (value.partition(":") for value in values.split())]
