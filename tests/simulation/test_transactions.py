"""Transactions of our own clients under every fault there is, seed by seed (``transactions_under_faults``).

``make campaign-transactions`` runs two thousand seeds of the same mix.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from semel.testing.simulation import seeds, simulate
from tests.simulation.broker_faults import Fault
from tests.simulation.side_by_side import Run, SideBySide, assert_none_was_spared
from tests.simulation.transactions_under_faults import (
    transactions_v1,
    transactions_v2,
    transactions_v2_with_late_ends,
)

V2 = [Run(transactions_v2, seed) for seed in seeds(24)]
V1 = [Run(transactions_v1, seed) for seed in seeds(8)]
LATE_ENDS = [Run(transactions_v2_with_late_ends, seed) for seed in seeds(6)]


@pytest.mark.parametrize("job", V2, ids=str)
def test_our_clients_see_everything_once_and_nothing_that_was_aborted(
    side_by_side: SideBySide[Counter[Fault]], job: Run[Counter[Fault]]
) -> None:
    """Scenarios 1, 16, 17, 20, 21, 26, 27, 31 to 36, 42, 51 and 52, with transactions V2."""
    side_by_side.result(job)


@pytest.mark.parametrize("job", V1, ids=str)
def test_our_clients_do_the_same_on_a_broker_without_transactions_v2(
    side_by_side: SideBySide[Counter[Fault]], job: Run[Counter[Fault]]
) -> None:
    """The same with transactions V1, except for requests of theirs that come late (scenario 22)."""
    side_by_side.result(job)


@pytest.mark.parametrize("job", LATE_ENDS, ids=str)
def test_ends_that_come_late_do_not_touch_the_next_transaction(
    side_by_side: SideBySide[Counter[Fault]], job: Run[Counter[Fault]]
) -> None:
    """Scenario 21, KAFKA-17754, with transactions V2. What it does to V1 is shown beside the planted bugs."""
    side_by_side.result(job)


@pytest.mark.skipif("SEED" in os.environ or "SEEDS" in os.environ, reason="SEED, SEEDS: other seeds than this is about")
def test_no_fault_was_spared(side_by_side: SideBySide[Counter[Fault]]) -> None:
    """What the seeds above prove, they prove about these."""
    assert_none_was_spared(side_by_side, [*V2, *V1, *LATE_ENDS], Fault)


def test_the_same_seed_is_the_same_run() -> None:
    assert len({simulate(5, transactions_v2).digest() for _ in range(2)}) == 1
