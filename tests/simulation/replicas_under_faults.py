"""Clients and groups on brokers whose partitions have three replicas, under all faults of a cluster and of replicas.

What must hold besides what must hold of any cluster: no end that was told goes back, and no committed offset is told
that is older than one acknowledged before the question (``replica_observers``); a minute after the last fault every
partition is led, all its replicas are in sync, and their logs are the same (``replica_laws``).
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from semel.testing.simulation import Simulation
from tests.simulation import group_members
from tests.simulation.cluster_under_faults import group_on_brokers, transactions_on_brokers
from tests.simulation.replicated_cluster import ReplicatedCluster


async def replicated_transactions_v2(simulation: Simulation) -> Counter[StrEnum]:
    replicated = ReplicatedCluster(simulation, compacts=simulation.seed % 2 == 0)
    return await transactions_on_brokers(simulation, transaction_version=2, replicated=replicated)


async def replicated_transactions_v1(simulation: Simulation) -> Counter[StrEnum]:
    replicated = ReplicatedCluster(simulation, compacts=simulation.seed % 2 == 0)
    return await transactions_on_brokers(simulation, transaction_version=1, replicated=replicated)


async def replicated_copies_in_transactions(simulation: Simulation) -> Counter[StrEnum]:
    """Exactly once, in a group."""
    # The laws of a group are read from all that its coordinator has written: nothing of it may be compacted.
    replicated = ReplicatedCluster(simulation, compacts=False)
    return await group_on_brokers(simulation, group_members.Copier, delays_commits=True, replicated=replicated)


async def replicated_reads_with_plain_commits(simulation: Simulation) -> Counter[StrEnum]:
    """At least once."""
    replicated = ReplicatedCluster(simulation, compacts=False)
    return await group_on_brokers(simulation, group_members.Reader, delays_commits=False, replicated=replicated)
