"""Transactions and groups on three brokers under every fault there is, seed by seed (``cluster_under_faults``).

``make campaign-cluster-transactions`` and ``make campaign-cluster-groups`` run two thousand seeds each.
"""

from __future__ import annotations

import os
from collections import Counter
from enum import StrEnum

import pytest

from semel.testing.simulation import seeds, simulate
from tests.simulation.cluster_faults import Fault
from tests.simulation.cluster_under_faults import (
    cluster_copies_in_transactions,
    cluster_reads_with_plain_commits,
    cluster_transactions_v1,
    cluster_transactions_v2,
)
from tests.simulation.side_by_side import Run, SideBySide, assert_none_was_spared

V2 = [Run(cluster_transactions_v2, seed) for seed in seeds(30)]
V1 = [Run(cluster_transactions_v1, seed) for seed in seeds(30)]
COPIES = [Run(cluster_copies_in_transactions, seed) for seed in seeds(30)]
READS = [Run(cluster_reads_with_plain_commits, seed) for seed in seeds(30)]


@pytest.mark.parametrize("job", V2, ids=str)
def test_clients_of_three_brokers_see_everything_once_and_nothing_that_was_aborted(
    side_by_side: SideBySide[Counter[StrEnum]], job: Run[Counter[StrEnum]]
) -> None:
    """Scenarios 25, 26, 30 to 36, 38, 42, 51 and 52, with transactions V2."""
    side_by_side.result(job)


@pytest.mark.parametrize("job", V1, ids=str)
def test_clients_of_three_brokers_do_the_same_without_transactions_v2(
    side_by_side: SideBySide[Counter[StrEnum]], job: Run[Counter[StrEnum]]
) -> None:
    """The same with transactions V1, where a marker does not name the transaction that it ends."""
    side_by_side.result(job)


@pytest.mark.parametrize("job", COPIES, ids=str)
def test_a_group_on_three_brokers_copies_every_input_once(
    side_by_side: SideBySide[Counter[StrEnum]], job: Run[Counter[StrEnum]]
) -> None:
    """Scenarios 52, 53, 54 and 57: the coordinators of the group and of its transactions are on different brokers."""
    side_by_side.result(job)


@pytest.mark.parametrize("job", READS, ids=str)
def test_a_group_on_three_brokers_works_on_every_input_and_its_offsets_never_go_back(
    side_by_side: SideBySide[Counter[StrEnum]], job: Run[Counter[StrEnum]]
) -> None:
    side_by_side.result(job)


@pytest.mark.skipif("SEED" in os.environ or "SEEDS" in os.environ, reason="SEED, SEEDS: other seeds than this is about")
def test_no_fault_was_spared(side_by_side: SideBySide[Counter[StrEnum]]) -> None:
    """What the seeds above prove, they prove about these."""
    assert_none_was_spared(side_by_side, [*V2, *V1, *COPIES, *READS], Fault)


def test_the_same_seed_is_the_same_run() -> None:
    assert len({simulate(3, cluster_copies_in_transactions).digest() for _ in range(2)}) == 1
