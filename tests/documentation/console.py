"""A shell session of a document, as its reader would type it.

``semel serve`` runs beside the commands that follow it; what never ends by itself is ended once it has printed
something. Addresses in the text stand for those of the brokers here. Output that the document shows must be what is
printed, but for times, ids and ports; ``...`` stands for any number of lines.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.documentation.blocks import Block, Command, commands_of
from tools.patience import SPARK_PATIENCE_S

READY: Final = re.compile(r"semel ready on (\S+),(?:.* metrics on http://(\S+)/metrics)?")
ENDLESS: Final = re.compile(r"(--follow|semel console|semel pipeline run(?!.*--available-now))(?!.*--help)")

_VARIABLE: Final = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"cluster( +)\S{22}"), "cluster ID"),
    (re.compile(r"\d+ bytes"), "SIZE"),
    (re.compile(r"[ \t]+"), " "),
)


class Console:
    """Commands in one folder; ``addresses`` says what an address in the text stands for."""

    def __init__(self, folder: Path, addresses: dict[str, str], *, exit_codes: Mapping[str, int] | None = None) -> None:
        self.folder = folder
        self.addresses = addresses
        self._exit_codes = exit_codes or {}
        self._served: subprocess.Popen[str] | None = None

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *of: object) -> None:
        self._stop_serving()

    def run(self, block: Block) -> None:
        if block.given:
            self._finish(Command(block.given), block)
        for command in commands_of(block):
            if command.text.startswith("semel serve"):
                self._serve(command, block)
            elif ENDLESS.search(command.text):
                self._follow(command, block)
            else:
                self._finish(command, block)

    def _finish(self, command: Command, block: Block) -> None:
        process = self._start(command.text)
        try:
            printed, errors = process.communicate(timeout=SPARK_PATIENCE_S)
        except subprocess.TimeoutExpired:
            _end(process, signal.SIGKILL)
            raise AssertionError(f"{block}: {command.text}\ndid not end") from None
        expected = self._exit_codes.get(command.text, 0)
        assert process.returncode == expected, (
            f"{block}: {command.text}\nended with {process.returncode}, not {expected}\n{printed}{errors}"
        )
        self._compare(command, printed, block)

    def _follow(self, command: Command, block: Block) -> None:
        text = command.text
        if "semel console" in text:
            text = re.sub(r" --listen \S+", "", text) + " --listen 127.0.0.1:0"
        process = self._start(text)
        line = _first_line(process)
        _end(process, signal.SIGINT)
        _, errors = process.communicate(timeout=SPARK_PATIENCE_S)
        assert line, f"{block}: {command.text}\nprinted nothing\n{errors}"
        assert "Traceback" not in errors, f"{block}: {command.text}\n{errors}"

    def _serve(self, command: Command, block: Block) -> None:
        text = re.sub(r"(--listen|--metrics|--console) \S+:\d+", r"\1 127.0.0.1:0", command.text)
        if "--listen" not in text and "--config" not in text:
            text += " --listen 127.0.0.1:0"
        self._stop_serving()
        process = self._served = self._start(f"exec {text}")
        line = _first_line(process)
        ready = READY.match(line)
        assert ready is not None, f"{block}: {command.text}\nsaid {line!r}"
        self.addresses["127.0.0.1:9092"] = self.addresses["localhost:9092"] = ready[1]
        if ready[2] is not None:
            self.addresses["127.0.0.1:9100"] = ready[2]
        self._compare(command, line, block)

    def _stop_serving(self) -> None:
        process, self._served = self._served, None
        if process is not None:
            _end(process, signal.SIGTERM)
            process.communicate(timeout=SPARK_PATIENCE_S)

    def _compare(self, command: Command, printed: str, block: Block) -> None:
        said = in_this_place("\n".join(command.output), self.folder, self.addresses)
        if said.strip():
            assert _agree(_plain(said), _plain(printed)), (
                f"{block}: {command.text}\nprints\n\n{printed}\nand the document says\n\n{said}"
            )

    def _start(self, text: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", f"set -o pipefail; {in_this_place(text, self.folder, self.addresses)}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self._environment(),
            start_new_session=True,
        )

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "HOME": str(self.folder),
            "NO_COLOR": "1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "SEMEL_BOOTSTRAP_SERVERS": self.addresses["127.0.0.1:9092"],
        }


def in_this_place(text: str, folder: Path, addresses: Mapping[str, str]) -> str:
    text = text.replace("/var/lib/semel", f"{folder}/var-lib-semel").replace("/backup", f"{folder}/backup")
    # To Spark, a path belongs to the folder in which its JVM was started, for whichever document that was.
    text = text.replace('"checkpoints/', f'"{folder}/checkpoints/')
    for name, address in addresses.items():
        text = text.replace(name, address)
    return text


def _first_line(process: subprocess.Popen[str]) -> str:
    """What it prints first; empty if it ends, or takes too long."""
    timer = threading.Timer(SPARK_PATIENCE_S, _end, (process, signal.SIGKILL))
    timer.start()
    assert process.stdout is not None
    line = process.stdout.readline()
    timer.cancel()
    return line


def _end(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """The shell and whatever it started; nothing happens when they have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _agree(said: Sequence[str], printed: Sequence[str]) -> bool:
    pattern = "".join(r"(?:.*\n)*" if line == "..." else re.escape(line) + r"\n" for line in said)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def _plain(text: str) -> list[str]:
    for pattern, name in _VARIABLE:
        text = pattern.sub(name, text)
    return [line.rstrip() for line in text.strip().splitlines()]
