"""A full disk, no descriptors, hanging syncs and a directory that is gone, under load, seed by seed.

``make campaign-disk-simulation`` runs five hundred seeds of the same; ``make campaign-disk`` does it to real processes.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from semel.testing.simulation import seeds
from tests.simulation.disk_under_faults import DiskTrouble, clients_on_a_bad_disk
from tests.simulation.side_by_side import Run, SideBySide, assert_none_was_spared

RUNS = [Run(clients_on_a_bad_disk, seed) for seed in seeds(20)]


@pytest.mark.parametrize("job", RUNS, ids=str)
def test_when_the_disk_is_well_again_everything_goes_on_and_nothing_is_lost(
    side_by_side: SideBySide[Counter[DiskTrouble]], job: Run[Counter[DiskTrouble]]
) -> None:
    side_by_side.result(job)


@pytest.mark.skipif("SEED" in os.environ or "SEEDS" in os.environ, reason="SEED, SEEDS: other seeds than this is about")
def test_no_trouble_was_spared(side_by_side: SideBySide[Counter[DiskTrouble]]) -> None:
    assert_none_was_spared(side_by_side, RUNS, DiskTrouble)
