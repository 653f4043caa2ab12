"""Runs ``semel serve`` in a process of its own, on a free port, for as long as the demo runs."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from semel.errors import SemelError

_READY: Final = re.compile(r"semel ready on ([^,\s]+),")


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run a broker with its data in ``folder`` and yield its address. It is killed at the end of the block."""
    folder.mkdir()
    said = folder / "errors.txt"
    with said.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "semel", "serve", "--data-dir", str(folder / "data"), "--listen", "127.0.0.1:0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # So that Ctrl-C reaches only the demo, which ends the driver first.
        )
    try:
        assert process.stdout is not None
        yield _address_in(process.stdout, said)
    finally:
        process.kill()
        process.communicate()


def _address_in(output: IO[str], said: Path) -> str:
    """Read a broker's output up to the line that says that it is ready, and return its address.

    Raises ``SemelError`` if the output ends before that line.
    """
    for line in output:
        if ready := _READY.match(line):
            return ready[1]
    raise SemelError(f"the demo's broker did not start: {said.read_text(errors='replace').strip()}")
