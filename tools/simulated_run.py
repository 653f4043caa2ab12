"""Runs one simulation of a campaign: a scenario with a seed."""

from __future__ import annotations

import logging
from collections import Counter
from enum import Enum
from typing import Any, TypeVar

from semel.testing import simulation
from semel.testing.simulation import Scenario
from semel.testing.virtual.crash import SimulatedCrash

F = TypeVar("F", bound=Enum)


def simulate(scenario: Scenario[Counter[F]], seed: int) -> dict[str, Any]:
    """Return whether the scenario passed, with its faults, or with the error and the command that replays it."""
    # The command that replays it prints the log lines that are disabled here.
    logging.disable(logging.CRITICAL)
    result: dict[str, Any] = {"scenario": scenario.__name__}
    try:
        faults = simulation.run(scenario, seed=seed)
    except (Exception, SimulatedCrash) as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        return {**result, "passed": False, "error": f"{type(error).__name__}: {error}\n{notes}"}
    return {**result, "passed": True, "faults": {str(fault): count for fault, count in faults.items()}}
