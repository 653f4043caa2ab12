"""Everything that can happen to a group: to its coordinator, its members, and what they say to each other, for a while.

A fault is counted when it has struck, not when it was planned: runs without it would prove nothing about it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from random import Random
from typing import Final

from semel.testing.simulation import Simulation
from semel.testing.virtual.frames import DELIVER, DROP, REPEAT, RESET, Frame, Verdict
from semel.wire.apis import ApiKey
from tests.simulation.group_members import SESSION_TIMEOUT_MS, Worker
from tests.simulation.served_broker import BROKER, ServedBroker

FAULT_PROBABILITY: Final = 0.02
LATE_COMMIT_PROBABILITY: Final = 0.1
# What never stands before a commit on its connection.
_APART_FROM_COMMITS: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.FETCH})
_COMMITS: Final = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.END_TXN})
_HEARTBEATS: Final = frozenset({ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT})


class Fault(StrEnum):
    REQUEST_LOST = "request lost"
    REQUEST_REPEATED = "request repeated"
    REQUEST_DELAYED = "request delayed"
    COMMIT_DELAYED = "commit delayed"
    ANSWER_LOST = "answer lost"
    ANSWER_LOST_WITH_ITS_CONNECTION = "answer lost with its connection"
    ANSWER_REPEATED = "answer repeated"
    ANSWER_DELAYED = "answer delayed"
    BROKER_KILLED = "broker killed"
    BROKER_LOST_POWER = "broker lost power"
    BROKER_DIED_IN_A_DISK_OPERATION = "broker died in a disk operation"
    BROKER_PAUSED = "broker paused"
    COORDINATOR_MOVED = "group coordinator moved"
    MEMBER_KILLED = "member killed"
    MEMBER_PAUSED = "member paused"
    MEMBER_BECAME_A_ZOMBIE = "member paused past its session"
    MEMBER_REPLACED = "member paused and replaced"
    MEMBER_CUT_OFF = "member cut off"
    MEMBER_NOT_HEARD = "member works on while its heartbeats are not heard"
    MEMBER_LEFT = "member left and came back"
    MEMBER_CHANGED_ITS_PROTOCOL = "member came back with the other protocol"


class Meddler:
    """Loses, repeats and delays whole requests and answers of the members.

    ``delays_commits``: whatever members say to the coordinator may come late. Else only what does not share a
    connection with their commits.
    """

    def __init__(self, random: Random, faults: Counter[Fault], *, delays_commits: bool) -> None:
        self.muted: str | None = None
        """Whose heartbeats are not heard."""
        self.is_over = False
        """Connections keep their interceptor: it is not enough to take it off the network."""
        self._random = random
        self._faults = faults
        self._delays_commits = delays_commits

    def __call__(self, frame: Frame) -> Verdict:
        random = self._random
        member = frame.source if frame.to_server else frame.destination
        if self.is_over or not member.startswith("worker"):
            return DELIVER
        api_key = int.from_bytes(frame.payload[:2], "big")
        is_commit = frame.to_server and api_key in _COMMITS and self._delays_commits
        if frame.to_server and member == self.muted and (api_key in _HEARTBEATS or is_commit):
            return Verdict(delay_ms=random.uniform(1, 2) * SESSION_TIMEOUT_MS) if self._delays_commits else RESET
        if random.random() > (LATE_COMMIT_PROBABILITY if is_commit else FAULT_PROBABILITY):
            return DELIVER
        if is_commit:
            # Later than the client waits: it asks again elsewhere, goes on, and then this one arrives.
            self._faults[Fault.COMMIT_DELAYED] += 1
            return Verdict(delay_ms=random.uniform(1_000, 4_000))
        fault, verdict = self._misfortune(frame.to_server, api_key)
        self._faults[fault] += 1
        return verdict

    def _misfortune(self, to_server: bool, api_key: int) -> tuple[Fault, Verdict]:
        random = self._random
        late = Verdict(delay_ms=random.uniform(1, 3_000))
        if not to_server:
            return random.choice(
                (
                    (Fault.ANSWER_LOST, DROP),
                    (Fault.ANSWER_REPEATED, REPEAT),
                    (Fault.ANSWER_LOST_WITH_ITS_CONNECTION, RESET),
                    (Fault.ANSWER_DELAYED, late),
                )
            )
        if not self._delays_commits and api_key not in _APART_FROM_COMMITS:
            return random.choice(((Fault.REQUEST_LOST, RESET), (Fault.REQUEST_REPEATED, REPEAT)))
        return random.choice(
            ((Fault.REQUEST_LOST, RESET), (Fault.REQUEST_REPEATED, REPEAT), (Fault.REQUEST_DELAYED, late))
        )


MEMBER_WAYS: Final = range(7, 15)


async def strike_member(
    way: int, simulation: Simulation, random: Random, victim: Worker, meddler: Meddler, broker: str
) -> Fault:
    """Something happens to a member, or between it and a broker. Returns what has struck."""
    match way:
        case 7 | 8 | 9 if victim.is_static or random.random() < 0.3:
            # Not for longer than its session: nothing but its successor keeps a static zombie from going on.
            zombie = victim.replace()
            await asyncio.sleep(random.uniform(0.1, 1.2) * SESSION_TIMEOUT_MS / 1000)
            zombie.resume()
            return Fault.MEMBER_REPLACED
        case 7 | 8 | 9:
            pause_s = random.uniform(0.5, 6.0)
            victim.host.pause()
            await asyncio.sleep(pause_s)
            victim.host.resume()
            is_long = pause_s * 1000 > SESSION_TIMEOUT_MS
            return Fault.MEMBER_BECAME_A_ZOMBIE if is_long else Fault.MEMBER_PAUSED
        case 10:
            simulation.network.partition(broker, victim.host.name)
            await asyncio.sleep(random.uniform(0.1, 4.0))
            simulation.network.heal(broker, victim.host.name)
            return Fault.MEMBER_CUT_OFF
        case 11 | 12:
            meddler.muted = victim.host.name
            await asyncio.sleep(random.uniform(1, 2) * SESSION_TIMEOUT_MS / 1000)
            meddler.muted = None
            return Fault.MEMBER_NOT_HEARD
        case 13:
            victim.host.kill()
            await asyncio.sleep(random.uniform(0.0, 3.0))
            victim.start()
            return Fault.MEMBER_KILLED
        case _:
            victim.retire()
            await asyncio.sleep(random.uniform(0.0, 3.0))
            victim.start()
            return Fault.MEMBER_LEFT


async def inject_faults(
    simulation: Simulation,
    served: ServedBroker,
    meddler: Meddler,
    workers: Sequence[Worker],
    faults: Counter[Fault],
) -> None:
    """One misfortune after another; then peace. What died is up again, or on its way, when this returns."""
    random, host = simulation.random("torment"), served.host
    death = Fault.BROKER_DIED_IN_A_DISK_OPERATION
    for _ in range(random.randint(4, 7)):
        await asyncio.sleep(random.uniform(0.1, 1.5))
        victim = random.choice(list(workers))
        protocol = victim.protocol
        fault: Fault | None = None
        match random.randrange(15):
            case 0:
                host.kill()
                death = Fault.BROKER_KILLED
            case 1:
                host.cut_power()
                death = Fault.BROKER_LOST_POWER
            case 2 | 3:
                host.cut_power_in_disk_operation(random.randint(1, 40))
                death = Fault.BROKER_DIED_IN_A_DISK_OPERATION
            case 4:
                fault = Fault.BROKER_PAUSED
                host.pause()
                await asyncio.sleep(random.uniform(0.1, 4.0))
                host.resume()
            case 5 | 6:
                partition, away_ms = random.randrange(2), random.uniform(0, 1_000)
                if served.move_coordinator(of_offsets=True, partition=partition, away_ms=away_ms):
                    fault = Fault.COORDINATOR_MOVED
            case way:
                fault = await strike_member(way, simulation, random, victim, meddler, BROKER)
        if fault is not None:
            faults[fault] += 1
        if victim.protocol != protocol:
            faults[Fault.MEMBER_CHANGED_ITS_PROTOCOL] += 1
        await asyncio.sleep(random.uniform(0.01, 1.0))
        if not host.alive:
            faults[death] += 1
            served.start()
    meddler.is_over = True
    host.disk.repair()
    if not host.alive:
        served.start()
