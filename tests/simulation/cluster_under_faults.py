"""Real brokers over a model of ZooKeeper, with the applications and the groups that one broker has, and more.

Leaders and coordinators are spread over all of them. What must hold once the faults stop is what must hold on one
broker; and what was written to topics that were just made is there, or is not, as its producer was told. With replicas
there are more faults, observers, and laws of its own (``replicas_under_faults``).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from enum import StrEnum
from functools import partial
from random import Random

from semel.testing.simulation import Simulation
from semel.types import TopicPartition
from tests.simulation import broker_faults, group_faults, group_members
from tests.simulation.client_history import History
from tests.simulation.client_workloads import Bank
from tests.simulation.cluster_faults import ClusterMeddler, Torment
from tests.simulation.group_members import Worker
from tests.simulation.groups_under_faults import BROKER_SETTINGS, PARTITIONS, group_works
from tests.simulation.host_deaths import WAYS, kill_host
from tests.simulation.replicated_cluster import ReplicatedCluster
from tests.simulation.served_cluster import ServedCluster
from tests.simulation.topic_maker import TopicMaker
from tests.simulation.transactions_under_faults import (
    ALL_PARTITIONS,
    INPUT,
    check_all,
    create_topics,
    finish_all,
    workloads,
)

NEW_TOPICS = 8

_CLIENT_FAULTS = (
    broker_faults.Fault.CLIENT_CUT_OFF,
    broker_faults.Fault.CLIENT_PAUSED,
    broker_faults.Fault.CLIENT_REPLACED,
    broker_faults.Fault.CLIENT_KILLED,
)


async def cluster_transactions_v2(simulation: Simulation) -> Counter[StrEnum]:
    return await transactions_on_brokers(simulation, transaction_version=2)


async def cluster_transactions_v1(simulation: Simulation) -> Counter[StrEnum]:
    return await transactions_on_brokers(simulation, transaction_version=1)


async def cluster_copies_in_transactions(simulation: Simulation) -> Counter[StrEnum]:
    """Exactly once, in a group."""
    return await group_on_brokers(simulation, group_members.Copier, delays_commits=True)


async def cluster_reads_with_plain_commits(simulation: Simulation) -> Counter[StrEnum]:
    """At least once, and offsets never go back."""
    return await group_on_brokers(simulation, group_members.Reader, delays_commits=False)


async def transactions_on_brokers(
    simulation: Simulation, *, transaction_version: int, replicated: ReplicatedCluster | None = None
) -> Counter[StrEnum]:
    """Returns the faults that struck the cluster."""
    faults: Counter[StrEnum] = Counter()
    cluster = await _started(simulation, replicated, flush="commit", transaction_version=str(transaction_version))
    await create_topics(cluster)
    history = History(simulation.loop.time)
    are_inputs_final = asyncio.Event()
    applications, readers = workloads(simulation, history, cluster, is_peace=are_inputs_final.is_set)
    where = {"servers": cluster.bootstrap_servers}
    maker = TopicMaker(simulation, "topic-maker", NEW_TOPICS, replicas=cluster.replicas, **where)
    applications.append(maker)
    banks = [application for application in applications if isinstance(application, Bank)]
    of_clients = broker_faults.Meddler(simulation.random("meddler"), Counter(), 0.12, spares_older=True)
    meddler = ClusterMeddler(simulation.random("cluster meddler"), faults, of_clients)
    simulation.network.interceptor = meddler
    for application in [*applications, *readers]:
        application.start()

    async def strike_others(random: Random) -> None:
        victim, member = random.choice(applications), random.choice(list(cluster.brokers.values()))
        if random.random() < 0.3:
            # Between the decision and its last marker.
            way = random.choice(range(2, WAYS))
            of_clients.strike_at_end = partial(kill_host, member.host, way, random, operations_max=8)
        else:
            fault = random.choice(_CLIENT_FAULTS)
            await broker_faults.strike_client(fault, simulation, random, victim, banks, member.name)

    torment = _torment(simulation, cluster, replicated, faults, f"transactions V{transaction_version}", ALL_PARTITIONS)
    await torment.strike(strike_others, count=simulation.random("count").randint(4, 8))
    meddler.is_over = True
    if replicated is not None:
        replicated.has_peace()
        await replicated.until_committed([partition for partition in ALL_PARTITIONS if partition.topic == INPUT])
    are_inputs_final.set()
    await finish_all(simulation, applications, readers, history)
    await check_all(simulation, cluster, history)
    await maker.check(cluster)
    if replicated is not None:
        await replicated.check(faults)  # Waits for brokers that are still on their way up: the others did without.
    cluster.laws.check()
    return faults


async def group_on_brokers(
    simulation: Simulation, kind: type[Worker], *, delays_commits: bool, replicated: ReplicatedCluster | None = None
) -> Counter[StrEnum]:
    """Returns the faults that struck the cluster."""
    faults: Counter[StrEnum] = Counter()
    cluster = await _started(simulation, replicated, **BROKER_SETTINGS)
    of_members = group_faults.Meddler(simulation.random("meddler"), Counter(), delays_commits=delays_commits)
    meddler = ClusterMeddler(simulation.random("cluster meddler"), faults, of_members)
    partitions = [TopicPartition(group_members.INPUT, index) for index in range(PARTITIONS)]

    async def suffer(workers: list[Worker]) -> None:
        simulation.network.interceptor = meddler
        if replicated is not None:
            # A coordinator that waits for a follower that died reads no further request of a connection until then,
            # and then reads also those of connections that its clients have given up.
            workers[0].commits_come_late()

        async def strike_others(random: Random) -> None:
            way, victim = random.choice(group_faults.MEMBER_WAYS), random.choice(workers)
            member = random.choice(list(cluster.brokers.values()))
            await group_faults.strike_member(way, simulation, random, victim, of_members, member.name)

        count = simulation.random("count").randint(4, 7)
        torment = _torment(simulation, cluster, replicated, faults, kind.__name__, partitions)
        await torment.strike(strike_others, count=count)
        meddler.is_over = True
        if replicated is not None:
            replicated.has_peace()

    await group_works(simulation, cluster, kind, suffer, delays_commits=delays_commits)
    if replicated is not None:
        await replicated.check(faults)  # Waits for brokers that are still on their way up: the others did without.
    cluster.laws.check()
    return faults


async def _started(simulation: Simulation, replicated: ReplicatedCluster | None, **settings: str) -> ServedCluster:
    """A cluster, each broker on a quick disk or a slow one."""
    if replicated is None:
        cluster = ServedCluster(simulation, brokers=3, servers=3, **settings)
    else:
        cluster = replicated.made(**settings)
    for member in cluster.brokers.values():
        member.quick_disk = simulation.random(f"quick disk of {member.name}").random() < 0.3
    await cluster.start()
    return cluster


def _torment(
    simulation: Simulation,
    cluster: ServedCluster,
    replicated: ReplicatedCluster | None,
    faults: Counter[StrEnum],
    of: str,
    partitions: list[TopicPartition],
) -> Torment:
    if replicated is None:
        return Torment(simulation, cluster, faults, of=of)
    return replicated.torment(faults, of=of, partitions=partitions)
