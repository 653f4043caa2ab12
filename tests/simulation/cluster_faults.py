"""Everything that can happen to a cluster: to its brokers, its ZooKeeper, the links between them, and its clients.

A fault is counted when it has struck, not when it was planned: runs without it would prove nothing about it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from enum import StrEnum
from random import Random
from typing import Final

from semel.testing.simulation import Simulation
from semel.testing.virtual.frames import DELIVER, RESET, Frame, Interceptor, Verdict
from tests.simulation.host_deaths import WAYS, kill_host
from tests.simulation.replica_observers import OBSERVERS
from tests.simulation.served_cluster import SESSION_TIMEOUT_S, ServedCluster, ServedMember

BETWEEN_BROKERS_PROBABILITY: Final = 0.04
TO_ZOOKEEPER_PROBABILITY: Final = 0.02
# By then a session has expired: the server looks at them once in a tick of two seconds.
EXPIRED_S: Final = SESSION_TIMEOUT_S + 2.5


WAYS_OF_A_CLUSTER: Final = 14


class Fault(StrEnum):
    BROKER_DIED = "broker died"
    BROKER_WAS_AWAY = "broker dead for longer than its session"
    BROKER_PAUSED = "broker paused"
    BROKER_PAUSED_PAST_ITS_SESSION = "broker paused past its session"
    SESSION_EXPIRED_UNSEEN = "session expired, and the broker is not told"
    BROKERS_CUT_OFF = "link between two brokers cut"
    CUT_OFF_FROM_ZOOKEEPER = "broker cut off from ZooKeeper"
    CUT_OFF_FROM_ZOOKEEPER_PAST_ITS_SESSION = "broker cut off from ZooKeeper past its session"
    ZOOKEEPER_BEHIND = "ZooKeeper server cut off from the others"
    ZOOKEEPER_STOPPED = "ZooKeeper server stopped"
    BROKERS_REQUEST_LOST = "request between brokers lost"
    BROKERS_REQUEST_DELAYED = "request between brokers delayed"
    BROKERS_REQUEST_IN_AN_OLDER_CONNECTION = "request between brokers late, in an older connection"
    BROKERS_ANSWER_LOST = "answer between brokers lost"
    BROKERS_ANSWER_DELAYED = "answer between brokers delayed"
    WRITE_OF_METADATA_LOST = "request to ZooKeeper lost"
    WRITE_OF_METADATA_LATE = "request to ZooKeeper late, in an older connection"
    OUTCOME_OF_METADATA_LOST = "answer of ZooKeeper lost"
    IMAGE_BEHIND = "answers and watches of ZooKeeper late"


class ClusterMeddler:
    """Loses and delays messages between brokers, and between them and ZooKeeper; those of clients are ``clients``'s.

    TCP repeats nothing on one connection. But what was sent on a connection that its sender has lost may arrive after
    it was sent again on the next.
    """

    def __init__(self, random: Random, faults: Counter[StrEnum], clients: Interceptor) -> None:
        self.is_over = False
        """Connections keep their interceptor: it is not enough to take it off the network."""
        self._random = random
        self._faults = faults
        self._clients = clients

    def __call__(self, frame: Frame) -> Verdict:
        if self.is_over:
            return DELIVER
        ends = (frame.source, frame.destination)
        if OBSERVERS in ends:
            return DELIVER
        if any(name.startswith("zookeeper") for name in ends):
            probability, misfortune = TO_ZOOKEEPER_PROBABILITY, self._with_zookeeper
        elif all(name.startswith("broker") for name in ends):
            probability, misfortune = BETWEEN_BROKERS_PROBABILITY, self._between_brokers
        else:
            return self._clients(frame)
        if self._random.random() > probability:
            return DELIVER
        fault, verdict = misfortune(frame.to_server)
        self._faults[fault] += 1
        return verdict

    def _between_brokers(self, to_server: bool) -> tuple[Fault, Verdict]:
        random = self._random
        late_ms = random.uniform(1, 4_000)
        if not to_server:
            return random.choice(
                ((Fault.BROKERS_ANSWER_LOST, RESET), (Fault.BROKERS_ANSWER_DELAYED, Verdict(delay_ms=late_ms)))
            )
        return random.choice(
            (
                (Fault.BROKERS_REQUEST_LOST, RESET),
                (Fault.BROKERS_REQUEST_DELAYED, Verdict(delay_ms=late_ms)),
                (Fault.BROKERS_REQUEST_IN_AN_OLDER_CONNECTION, Verdict(delay_ms=late_ms, sender_loses=True)),
            )
        )

    def _with_zookeeper(self, to_server: bool) -> tuple[Fault, Verdict]:
        random = self._random
        late_ms = random.uniform(1, 4_000)
        if not to_server:
            return random.choice(
                ((Fault.OUTCOME_OF_METADATA_LOST, RESET), (Fault.IMAGE_BEHIND, Verdict(delay_ms=late_ms)))
            )
        return random.choice(
            (
                (Fault.WRITE_OF_METADATA_LOST, RESET),
                (Fault.WRITE_OF_METADATA_LATE, Verdict(delay_ms=late_ms, sender_loses=True)),
            )
        )


class Torment:
    """One misfortune after another for a cluster; then peace."""

    def __init__(self, simulation: Simulation, cluster: ServedCluster, faults: Counter[StrEnum], *, of: str) -> None:
        self._network = simulation.network
        self._random = simulation.random(f"torment of {of}")
        self._ways = deque(self._random.sample(range(WAYS_OF_A_CLUSTER), WAYS_OF_A_CLUSTER))
        self._cluster = cluster
        self._faults = faults

    async def strike(self, others: Callable[[Random], Awaitable[None]], *, count: int) -> None:
        """``others`` are misfortunes that do not concern the cluster. What died is up again when this returns."""
        random = self._random
        for _ in range(count):
            await asyncio.sleep(random.uniform(0.01, 1.5))
            if random.random() < 0.3:
                await others(random)
            else:
                await self._one()
            await asyncio.sleep(random.uniform(0.01, 1.0))
            self._start_the_dead()
        for member in self._cluster.brokers.values():
            member.host.disk.repair()
        self._start_the_dead()

    def _start_the_dead(self) -> None:
        for member in self._cluster.brokers.values():
            if not member.host.alive:
                self._faults[Fault.BROKER_DIED] += 1
                member.start()

    async def _one(self) -> None:
        random, faults, cluster = self._random, self._faults, self._cluster
        member = random.choice(list(cluster.brokers.values()))
        zookeeper = random.choice(cluster.servers)
        session = cluster.session_of(member)
        self._ways.rotate(1)  # No way twice before all others: a run has room for a few.
        match self._ways[0]:
            case 0 | 1 | 2:
                kill_host(member.host, random.randrange(WAYS), random, operations_max=60)
            case 3:
                member.host.kill()
                await asyncio.sleep(EXPIRED_S)
                faults[Fault.BROKER_WAS_AWAY] += 1
            case 4:
                await self._pause(member, random.uniform(0.1, 4.0))
                faults[Fault.BROKER_PAUSED] += 1
            case 5:
                await self._pause(member, EXPIRED_S)
                faults[Fault.BROKER_PAUSED_PAST_ITS_SESSION] += not cluster.is_alive(session)
            case 6 | 7:
                if cluster.expire(session):
                    faults[Fault.SESSION_EXPIRED_UNSEEN] += 1
            case 8 | 9:
                other = random.choice([one for one in cluster.brokers.values() if one is not member])
                await self._cut(member.name, [other.name], random.uniform(0.1, 5.0))
                faults[Fault.BROKERS_CUT_OFF] += 1
            case 10:
                await self._cut(member.name, [server.name for server in cluster.servers], random.uniform(0.1, 4.0))
                faults[Fault.CUT_OFF_FROM_ZOOKEEPER] += 1
            case 11:
                await self._cut(member.name, [server.name for server in cluster.servers], EXPIRED_S)
                faults[Fault.CUT_OFF_FROM_ZOOKEEPER_PAST_ITS_SESSION] += not cluster.is_alive(session)
            case 12:
                zookeeper.cut_off()
                await asyncio.sleep(random.uniform(0.5, 5.0))
                zookeeper.rejoin()
                faults[Fault.ZOOKEEPER_BEHIND] += 1
            case 13:
                zookeeper.stop()
                await asyncio.sleep(random.uniform(0.1, 3.0))
                await zookeeper.start()
                faults[Fault.ZOOKEEPER_STOPPED] += 1

    async def _pause(self, member: ServedMember, seconds: float) -> None:
        member.host.pause()
        await asyncio.sleep(seconds)
        member.host.resume()

    async def _cut(self, name: str, others: list[str], seconds: float) -> None:
        self._network.partition(name, *others)
        await asyncio.sleep(seconds)
        self._network.heal(name, *others)
