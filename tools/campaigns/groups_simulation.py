"""Two thousand simulations of groups of our consumer on our broker under every fault, in the mix of ``make test``."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from semel.testing import simulation
from semel.testing.simulation import Scenario
from tests.simulation.group_torment import Fault
from tests.simulation.groups_under_faults import (
    MIXES,
    copies_in_transactions,
    reads_with_late_commits,
    reads_with_plain_commits,
)

COUNT = 2_000
SOURCES = ("tests/simulation",)

_KINDS: tuple[Scenario[Counter[Fault]], ...] = (
    copies_in_transactions,
    copies_in_transactions,
    reads_with_plain_commits,
    reads_with_late_commits,
)


def run(seed: int) -> dict[str, Any]:
    # A seed says which mix of protocols: each kind gets every one of them.
    scenario = _KINDS[seed // len(MIXES) % len(_KINDS)]
    # The command that replays a failure prints what is not printed here.
    logging.disable(logging.CRITICAL)
    result: dict[str, Any] = {"scenario": scenario.__name__, "mix": " and ".join(MIXES[seed % len(MIXES)])}
    try:
        faults = simulation.run(scenario, seed=seed)
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        return {**result, "passed": False, "error": f"{type(error).__name__}: {error}\n{notes}"}
    return {**result, "passed": True, "faults": {str(fault): count for fault, count in faults.items()}}
