"""Two hundred damages of a data directory; ``make campaign-damage`` runs five thousand."""

from __future__ import annotations

import pytest

from tests.simulation.damages import withstand

SEEDS = 200
GROUPS = 10


@pytest.mark.parametrize("group", range(GROUPS))
def test_a_damaged_directory_shows_what_it_had_or_says_what_is_lost(group: int) -> None:
    for seed in range(group, SEEDS, GROUPS):
        withstand(seed)
