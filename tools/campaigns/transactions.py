"""Two thousand simulations of our clients and our broker under every fault, in the mix of ``make test``."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from semel.testing.simulation import Scenario
from tests.simulation.broker_faults import Fault
from tests.simulation.transactions_under_faults import (
    transactions_v1,
    transactions_v2,
    transactions_v2_with_late_ends,
)
from tools.simulated_run import simulate

COUNT = 2_000
AT_ONCE = os.cpu_count() or 1
SOURCES = ("tests/simulation",)

_MIX: tuple[Scenario[Counter[Fault]], ...] = (
    *[transactions_v2] * 7,
    *[transactions_v1] * 2,
    transactions_v2_with_late_ends,
)


def run(seed: int) -> dict[str, Any]:
    return simulate(_MIX[seed % len(_MIX)], seed)
