"""Groups of our own consumer under faults, seed by seed (``pipelines_in_groups``), in all three ways to rebalance."""

from __future__ import annotations

import pytest

from semel.testing.simulation import seeds, simulate
from tests.simulation.pipelines_in_groups import consumer, cooperative, eager


@pytest.mark.parametrize("seed", seeds(12))
def test_every_input_is_copied_once_by_an_eager_group(seed: int) -> None:
    """Scenarios 53, 54 and 57."""
    simulate(seed, eager)


@pytest.mark.parametrize("seed", seeds(12))
def test_every_input_is_copied_once_by_a_cooperative_group(seed: int) -> None:
    """Scenarios 53, 54 and 57."""
    simulate(seed, cooperative)


@pytest.mark.parametrize("seed", seeds(12))
def test_every_input_is_copied_once_by_a_group_of_the_consumer_protocol(seed: int) -> None:
    """Scenarios 53, 54 and 57."""
    simulate(seed, consumer)
