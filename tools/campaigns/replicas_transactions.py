"""Two thousand simulations of our clients on replicated partitions under every fault, with transactions V1 and V2."""

from __future__ import annotations

import os
from typing import Any

from tests.simulation.replicas_under_faults import replicated_transactions_v1, replicated_transactions_v2
from tools.simulated_run import simulate

COUNT = 2_000
AT_ONCE = os.cpu_count() or 1
SOURCES = ("tests/simulation",)


def run(seed: int) -> dict[str, Any]:
    # With an even seed the internal topics are compacted, so the version depends on seed // 2: both are run with it.
    return simulate(replicated_transactions_v1 if seed // 2 % 2 else replicated_transactions_v2, seed)
