"""One fault at a time on a partition with three replicas, at its worst moment (``single_replica_faults``)."""

from __future__ import annotations

import pytest

from semel.testing.simulation import Scenario, run
from tests.simulation import single_replica_faults as single


@pytest.mark.parametrize("scenario", single.SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("seed", range(2))
def test_a_fault_at_its_worst_moment_loses_nothing_and_tells_nothing_old(scenario: Scenario[None], seed: int) -> None:
    """Scenarios 31 to 34, 36 and 58 to 68: each says which."""
    run(scenario, seed=seed)
