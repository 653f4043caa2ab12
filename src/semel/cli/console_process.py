"""``semel serve --console``: runs the console in a process of its own, which ends when the broker's process ends.

Its standard input is a pipe that the broker's process holds and never writes to. When that process ends, in whatever
way, the kernel closes the pipe, and the console stops.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

STOP_SECONDS_MAX: Final = 5.0


@contextmanager
def started_console(listen: str | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that starts the console for a broker's address, or does nothing if ``listen`` is ``None``.

    The console is stopped at the end of the block.
    """
    processes: list[subprocess.Popen[bytes]] = []

    def start(servers: str) -> None:
        if listen is not None:
            command = ["console", "--listen", listen, "--bootstrap-server", servers, "--ends-with-stdin"]
            processes.append(subprocess.Popen([sys.executable, "-m", "semel", *command], stdin=subprocess.PIPE))

    try:
        yield start
    finally:
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
