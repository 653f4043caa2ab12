"""Runs the tests of clients in other languages, with those languages' test runners: ``node --test`` and ``go test``.

Their packages are pinned by lock files in the programs' folders; npm and go fetch them once into the cache folder, from
the registries that are configured on the machine.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tools.kafka_jars import Unavailable, cache

_CLIENTS: Final = Path(__file__).resolve().parent.parent / "tests" / "clients"
JAVASCRIPT: Final = _CLIENTS / "javascript"
GO: Final = _CLIENTS / "go"

_NODE_MIN: Final = (20, 19)
_GO_MIN: Final = (1, 26)


class ProgramFailed(Exception):
    """A program in another language ended with an error; the message is the end of its output."""


def node() -> str:
    """Return the ``node`` on PATH. Raises Unavailable if it is missing or too old, or if npm is missing."""
    found = shutil.which("node")
    if found is None or shutil.which("npm") is None:
        raise Unavailable("there is no node with npm on PATH: apt-get install nodejs npm, or brew install node")
    _check_version("node", [found, "--version"], _NODE_MIN)
    return found


def go() -> str:
    """Return the ``go`` on PATH. Raises Unavailable if it is missing or too old."""
    found = shutil.which("go")
    if found is None:
        raise Unavailable("there is no go on PATH: apt-get install golang-go, or brew install go")
    _check_version("go", [found, "version"], _GO_MIN)
    return found


def run_node_test(program: str, servers: str) -> str:
    """Run the tests in ``program``, a file of ``tests/clients/javascript``. Raises ProgramFailed."""
    folder = _node_modules()
    for source in JAVASCRIPT.glob("*.js"):
        shutil.copy(source, folder)
    return _run([node(), "--test", "--test-force-exit", program], folder, {"BOOTSTRAP_SERVERS": servers})


def run_go_test(pattern: str, servers: str) -> str:
    """Run the tests of ``tests/clients/go`` whose names match ``pattern``. Raises ProgramFailed."""
    folder = cache() / "go"
    own = {"GOMODCACHE": str(folder / "modules"), "GOCACHE": str(folder / "build"), "GOFLAGS": "-mod=readonly"}
    command = [go(), "test", "-count=1", "-v", "-run", pattern, "./..."]
    printed = _run(command, GO, {**own, "BOOTSTRAP_SERVERS": servers})
    if "--- PASS" not in printed:
        raise ProgramFailed(f"no test of {GO} matches {pattern}: {printed[-2000:]}")
    return printed


def _node_modules() -> Path:
    """Return a folder in which npm has installed the packages of the lock file."""
    pins = [JAVASCRIPT / "package.json", JAVASCRIPT / "package-lock.json"]
    digest = hashlib.sha256(b"".join(pin.read_bytes() for pin in pins)).hexdigest()[:12]
    folder = cache() / f"node-{digest}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as scratch:
            for pin in pins:
                shutil.copy(pin, scratch)
            _run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], Path(scratch), {})
            installed = Path(scratch) / "installed"
            installed.mkdir()
            for name in ("node_modules", *(pin.name for pin in pins)):
                (Path(scratch) / name).rename(installed / name)
            try:
                installed.rename(folder)
            except OSError:
                if not folder.is_dir():  # Otherwise another process was faster.
                    raise
    return folder


def _check_version(name: str, command: Sequence[str], least: tuple[int, int]) -> None:
    told = subprocess.run(command, capture_output=True, text=True).stdout
    found = re.search(r"(\d+)\.(\d+)", told)
    if found is None or (int(found[1]), int(found[2])) < least:
        raise Unavailable(f"{name} {least[0]}.{least[1]} or newer is needed, and this one says {told.strip()!r}")


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise ProgramFailed(f"{' '.join(command)} ended with code {done.returncode}: {done.stdout[-6000:]}")
    return done.stdout
