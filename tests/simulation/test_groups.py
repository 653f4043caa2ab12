"""Groups of our own consumer under every fault there is, seed by seed (``groups_under_faults``).

A sixth of the seeds each: eager, cooperative, KIP-848, both classic ways beside it, and groups that convert all the
while. ``make campaign-groups-simulation`` runs two thousand seeds of the same mix.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from semel.testing.simulation import seeds, simulate
from tests.simulation.group_faults import Fault
from tests.simulation.groups_under_faults import (
    copies_in_transactions,
    reads_with_late_commits,
    reads_with_plain_commits,
)
from tests.simulation.side_by_side import Run, SideBySide, assert_none_was_spared

COPIES = [Run(copies_in_transactions, seed) for seed in seeds(12)]
READS = [Run(reads_with_plain_commits, seed) for seed in seeds(12)]
LATE = [Run(reads_with_late_commits, seed) for seed in seeds(6)]


@pytest.mark.parametrize("job", COPIES, ids=str)
def test_a_group_that_commits_in_transactions_copies_every_input_once(
    side_by_side: SideBySide[Counter[Fault]], job: Run[Counter[Fault]]
) -> None:
    """Scenarios 52, 53, 54 and 57."""
    side_by_side.result(job)


@pytest.mark.parametrize("job", READS, ids=str)
def test_a_group_that_commits_plainly_works_on_every_input_and_its_offsets_never_go_back(
    side_by_side: SideBySide[Counter[Fault]], job: Run[Counter[Fault]]
) -> None:
    side_by_side.result(job)


@pytest.mark.parametrize("job", LATE, ids=str)
def test_a_commit_that_comes_after_its_generation_is_nobody_s(
    side_by_side: SideBySide[Counter[Fault]], job: Run[Counter[Fault]]
) -> None:
    """Scenario 53 without transactions: whoever is not a member of the current generation commits nothing."""
    side_by_side.result(job)


@pytest.mark.skipif("SEED" in os.environ or "SEEDS" in os.environ, reason="SEED, SEEDS: other seeds than this is about")
def test_no_fault_was_spared(side_by_side: SideBySide[Counter[Fault]]) -> None:
    """What the seeds above prove, they prove about these."""
    assert_none_was_spared(side_by_side, [*COPIES, *READS, *LATE], Fault)


def test_the_same_seed_is_the_same_run() -> None:
    assert len({simulate(5, copies_in_transactions).digest() for _ in range(2)}) == 1
