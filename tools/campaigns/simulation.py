"""Runs every simulation in ``tests/simulation``, seed by seed; a failed one prints the command that replays it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

COUNT = 500


def run(seed: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "pytest", "tests/simulation", "-q", "-x", "--tb=short", "-p", "no:cacheprovider"]
    done = subprocess.run(command, env={**os.environ, "SEED": str(seed)}, capture_output=True, text=True)
    result: dict[str, Any] = {"passed": done.returncode == 0}
    if done.returncode != 0:
        result["output"] = done.stdout[-4000:]
    return result
