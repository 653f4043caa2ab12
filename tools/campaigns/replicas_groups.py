"""Two thousand simulations of groups on replicated partitions under every fault, in all ways to join."""

from __future__ import annotations

import os
from typing import Any

from tests.simulation.groups_under_faults import MIXES
from tests.simulation.replicas_under_faults import (
    replicated_copies_in_transactions,
    replicated_reads_with_plain_commits,
)
from tools.simulated_run import simulate

COUNT = 2_000
AT_ONCE = os.cpu_count() or 1
SOURCES = ("tests/simulation",)


def run(seed: int) -> dict[str, Any]:
    # The seed selects the mix of protocols and the scenario so that each scenario runs with every mix.
    copies = seed // len(MIXES) % 2
    scenario = replicated_copies_in_transactions if copies else replicated_reads_with_plain_commits
    return {"mix": " and ".join(MIXES[seed % len(MIXES)]), **simulate(scenario, seed)}
