"""Two thousand simulations of our clients on three brokers under every fault, with transactions V1 and V2."""

from __future__ import annotations

import os
from typing import Any

from tests.simulation.cluster_under_faults import cluster_transactions_v1, cluster_transactions_v2
from tools.simulated_run import simulate

COUNT = 2_000
AT_ONCE = os.cpu_count() or 1
SOURCES = ("tests/simulation",)


def run(seed: int) -> dict[str, Any]:
    return simulate(cluster_transactions_v1 if seed % 2 else cluster_transactions_v2, seed)
