"""Two thousand simulations of our clients and our broker under every fault, in the mix of ``make test``."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from semel.testing import simulation
from semel.testing.simulation import Scenario
from tests.simulation.torment import Fault
from tests.simulation.transactions_under_faults import (
    transactions_v1,
    transactions_v2,
    transactions_v2_with_late_ends,
)

COUNT = 2_000
SOURCES = ("tests/simulation",)

_MIX: tuple[Scenario[Counter[Fault]], ...] = (
    *[transactions_v2] * 7,
    *[transactions_v1] * 2,
    transactions_v2_with_late_ends,
)


def run(seed: int) -> dict[str, Any]:
    scenario = _MIX[seed % len(_MIX)]
    # The command that replays a failure prints what is not printed here.
    logging.disable(logging.CRITICAL)
    result: dict[str, Any] = {"scenario": scenario.__name__}
    try:
        faults = simulation.run(scenario, seed=seed)
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        return {**result, "passed": False, "error": f"{type(error).__name__}: {error}\n{notes}"}
    return {**result, "passed": True, "faults": {str(fault): count for fault, count in faults.items()}}
