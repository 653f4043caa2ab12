"""Transactions and groups on replicated partitions under every fault there is, seed by seed: ``replicas_under_faults``.

``make campaign-replicas-transactions`` and ``make campaign-replicas-groups`` run two thousand seeds each.
"""

from __future__ import annotations

import os
from collections import Counter
from enum import StrEnum

import pytest

from semel.testing.simulation import seeds, simulate
from tests.simulation.replica_faults import ReplicaFault
from tests.simulation.replicas_under_faults import (
    replicated_copies_in_transactions,
    replicated_reads_with_plain_commits,
    replicated_transactions_v1,
    replicated_transactions_v2,
)
from tests.simulation.side_by_side import Run, SideBySide

V2 = [Run(replicated_transactions_v2, seed) for seed in seeds(25)]
V1 = [Run(replicated_transactions_v1, seed) for seed in seeds(25)]
COPIES = [Run(replicated_copies_in_transactions, seed) for seed in seeds(25)]
READS = [Run(replicated_reads_with_plain_commits, seed) for seed in seeds(25)]


@pytest.mark.parametrize("job", V2, ids=str)
def test_clients_of_replicas_see_everything_once_and_nothing_that_was_aborted(
    side_by_side: SideBySide[Counter[StrEnum]], job: Run[Counter[StrEnum]]
) -> None:
    """Scenarios 31 to 36, 38, 59 to 62, 64, 65, 67 and 68, with transactions V2."""
    side_by_side.result(job)


@pytest.mark.parametrize("job", V1, ids=str)
def test_clients_of_replicas_do_the_same_without_transactions_v2(
    side_by_side: SideBySide[Counter[StrEnum]], job: Run[Counter[StrEnum]]
) -> None:
    """The same with transactions V1, where a marker does not name the transaction that it ends."""
    side_by_side.result(job)


@pytest.mark.parametrize("job", COPIES, ids=str)
def test_a_group_on_replicas_copies_every_input_once(
    side_by_side: SideBySide[Counter[StrEnum]], job: Run[Counter[StrEnum]]
) -> None:
    """Scenarios 36, 52, 53, 54 and 57: both coordinators move, with their brokers and without."""
    side_by_side.result(job)


@pytest.mark.parametrize("job", READS, ids=str)
def test_a_group_on_replicas_works_on_every_input(
    side_by_side: SideBySide[Counter[StrEnum]], job: Run[Counter[StrEnum]]
) -> None:
    side_by_side.result(job)


@pytest.mark.skipif("SEED" in os.environ or "SEEDS" in os.environ, reason="SEED, SEEDS: other seeds than this is about")
def test_hardly_a_fault_of_replicas_was_spared(side_by_side: SideBySide[Counter[StrEnum]]) -> None:
    """What the seeds above prove, they prove about these; a campaign has hundreds of each."""
    struck: Counter[StrEnum] = Counter()
    for run in [*V2, *V1, *COPIES, *READS]:
        struck.update(side_by_side.result(run))
    spared = [str(fault) for fault in ReplicaFault if not struck[fault]]
    assert not spared, f"spared: {spared}"


def test_the_same_seed_is_the_same_run() -> None:
    assert len({simulate(1, replicated_reads_with_plain_commits).digest() for _ in range(2)}) == 1
