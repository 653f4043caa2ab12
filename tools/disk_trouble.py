"""Temporary failures of a real broker's disk: full, no descriptors, hanging syncs, a missing directory.

``full`` needs a small file system in memory (``mount -t tmpfs``), and therefore root. The others do not.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tools.brokers import semel
from tools.ports import free_port
from tools.server import Launch, Server

FULL, NO_DESCRIPTORS, HANGS, GONE = "full", "no descriptors", "syncs hang", "directory gone"
KINDS = (FULL, NO_DESCRIPTORS, HANGS, GONE)

SETTINGS = {"log.flush.offset.checkpoint.interval.ms": "500", "transaction.state.log.num.partitions": "2"}

_FILE_SYSTEM_BYTES = 256 * 1024 * 1024
_BALLAST_STEP_BYTES = 256 * 1024


@contextlib.contextmanager
def server_on(folder: Path, kind: str) -> Iterator[Server]:
    """Return a broker on whose disk this failure can be caused. It is not started yet."""
    if kind == HANGS:
        port = free_port()
        command = [sys.executable, "-m", "tools.hanging_broker", str(folder / "data"), str(port), str(folder / "hangs")]
        yield Server(Launch("Semel", command, port, folder / "data", folder / "output.txt"))
        return
    if kind != FULL:
        yield semel(folder, settings=SETTINGS)
        return
    small = folder / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_FILE_SYSTEM_BYTES}", "tmpfs", str(small)], check=True)
    try:
        yield semel(small, settings=SETTINGS)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


@contextlib.contextmanager
def in_trouble(server: Server, kind: str, random: Random) -> Iterator[None]:
    folder, data = server.data_dir.parent, server.data_dir
    if kind == FULL:
        ballast = folder / "ballast"
        _fill(ballast)
        try:
            yield
        finally:
            ballast.unlink()
    elif kind == NO_DESCRIPTORS:
        pid = server.pid
        limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = len(os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + random.choice((0, 1, 2)), limit[1]))
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):  # The process may have been stopped meanwhile.
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
    elif kind == HANGS:
        (folder / "hangs").touch()
        try:
            yield
        finally:
            (folder / "hangs").unlink()
    else:
        away = folder / "away"
        data.rename(away)
        try:
            yield
        finally:
            away.rename(data)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        size = _BALLAST_STEP_BYTES
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2
