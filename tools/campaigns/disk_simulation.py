"""Five hundred simulations of our clients and our broker on a disk that is full, hangs, or is missing."""

from __future__ import annotations

import os
from typing import Any

from tests.simulation.disk_under_faults import clients_on_a_bad_disk
from tools.simulated_run import simulate

COUNT = 500
AT_ONCE = os.cpu_count() or 1
SOURCES = ("tests/simulation",)


def run(seed: int) -> dict[str, Any]:
    return simulate(clients_on_a_bad_disk, seed)
