"""Pipelines of one group under faults, seed by seed (``pipelines_in_groups``), in all three ways to rebalance."""

from __future__ import annotations

import pytest

from semel.testing.simulation import Scenario, seeds, simulate
from tests.simulation.pipelines_in_groups import consumer, cooperative, eager


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("scenario", [eager, cooperative, consumer], ids=["eager", "cooperative", "consumer"])
def test_every_input_is_copied_once(scenario: Scenario[None], seed: int) -> None:
    """Scenarios 53, 54 and 57."""
    simulate(seed, scenario)
