"""Draws docs/pictures/first-minutes.svg: a terminal with the first commands of a new user.

The commands are really run, on a terminal, with a broker of their own; the picture shows their output. If the output is
the same except for times and ids, the picture is not written, so that it changes only when the commands do.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.brokers import semel
from tools.patience import wait_until
from tools.server import Server, running
from tools.terminal_picture import Screen, svg, text_of

PICTURE: Final = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "first-minutes.svg"

SERVE: Final = "semel serve &"
COMMANDS: Final = (
    "semel topic create orders --partitions 2",
    r"printf '%s\n' apples pears plums | semel produce orders --key ann --transaction --transactional-id shop",
    "semel consume orders --from beginning --group billing --format key-value",
    "semel group describe billing",
    "semel txn trace shop",
)

_VARIABLE: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|127\.0\.0\.1:\d+|cluster \S{22}")


def main() -> int:
    picture = svg(session(), title="semel")
    before = PICTURE.read_text() if PICTURE.exists() else ""
    is_same = bool(before) and without_times(text_of(before)) == without_times(text_of(picture))
    if not is_same:
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        PICTURE.write_text(picture)
    print(f"  docs/pictures/first-minutes.svg: {'as it was' if is_same else 'written'}")
    return 0


def session() -> Screen:
    """Run the commands. Return everything that a terminal would show."""
    screen = Screen()
    with tempfile.TemporaryDirectory(prefix="semel-picture-") as folder, running(semel(Path(folder))) as server:
        screen.type(SERVE)
        screen.print(_as_by_default(_ready_line(server), server))
        for command in COMMANDS:
            screen.type(command)
            screen.print(_as_by_default(_run(command, server), server))
    return screen


def without_times(text: str) -> str:
    """Return the text without the parts that differ from run to run."""
    return _VARIABLE.sub("#", text)


def _ready_line(server: Server) -> str:
    """Return the broker's line that says that it is ready.

    The broker serves requests a moment before it prints the line, and may have printed other lines before it.
    """

    def ready() -> list[str]:
        return [line for line in server.printed().splitlines(keepends=True) if line.startswith("semel ready")]

    wait_until(lambda: "\n" in "".join(ready()), "the broker serves, and does not say so")
    return ready()[0].rstrip("\n")


def _run(command: str, server: Server) -> str:
    """Return the output of a command on a terminal, with colours."""
    reader, writer = pty.openpty()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SEMEL_BOOTSTRAP_SERVERS": server.bootstrap_servers, "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(
        ["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, env=environment
    ) as process:
        os.close(writer)
        printed = bytearray()
        while chunk := _read(reader):
            printed += chunk
    os.close(reader)
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with {process.returncode}: {printed.decode()}")
    return printed.decode().replace("\r\n", "\n")


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 65_536)
    except OSError:  # On Linux: no process has the other end of the terminal open any more.
        return b""


def _as_by_default(text: str, server: Server) -> str:
    """Return the text with the default address and folder instead of those that this broker uses to avoid conflicts."""
    text = re.sub(r", metrics on \S+", "", text)
    return text.replace(server.bootstrap_servers, "127.0.0.1:9092").replace(str(server.data_dir), "semel-data")


if __name__ == "__main__":
    sys.exit(main())
