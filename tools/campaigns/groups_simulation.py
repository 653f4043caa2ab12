"""Two thousand simulations of groups of our consumer on our broker under every fault, in the mix of ``make test``."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from semel.testing.simulation import Scenario
from tests.simulation.group_faults import Fault
from tests.simulation.groups_under_faults import (
    MIXES,
    copies_in_transactions,
    reads_with_late_commits,
    reads_with_plain_commits,
)
from tools.simulated_run import simulate

COUNT = 2_000
AT_ONCE = os.cpu_count() or 1
SOURCES = ("tests/simulation",)

_KINDS: tuple[Scenario[Counter[Fault]], ...] = (
    copies_in_transactions,
    copies_in_transactions,
    reads_with_plain_commits,
    reads_with_late_commits,
)


def run(seed: int) -> dict[str, Any]:
    # The seed selects the mix of protocols and the scenario so that each scenario runs with every mix.
    scenario = _KINDS[seed // len(MIXES) % len(_KINDS)]
    return {"mix": " and ".join(MIXES[seed % len(MIXES)]), **simulate(scenario, seed)}
