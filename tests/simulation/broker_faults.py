"""Everything that can happen to a broker, its coordinators, its clients and what they say to each other, for a while.

A fault is counted when it has struck, not when it was planned: runs without it would prove nothing about it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from random import Random

from semel.testing.simulation import Simulation
from semel.testing.virtual.frames import DELIVER, DROP, REPEAT, RESET, Frame, Verdict
from semel.wire.apis import ApiKey
from tests.simulation.client_workloads import Application, Bank, Transactional
from tests.simulation.served_broker import BROKER, ServedBroker

FAULT_PROBABILITY = 0.03

# What an older producer sends late belongs to whichever transaction is open when it arrives (KAFKA-17754): these
# requests say in their version whether they name the transaction that they mean.
NAMES_ITS_TRANSACTION = {ApiKey.END_TXN: 5, ApiKey.TXN_OFFSET_COMMIT: 5}


class Fault(StrEnum):
    REQUEST_LOST = "request lost"
    REQUEST_REPEATED = "request repeated"
    REQUEST_DELAYED = "request delayed"
    END_DELAYED = "end of a transaction delayed"
    ANSWER_LOST = "answer lost"
    ANSWER_LOST_WITH_ITS_CONNECTION = "answer lost with its connection"
    ANSWER_REPEATED = "answer repeated"
    ANSWER_DELAYED = "answer delayed"
    BROKER_KILLED = "broker killed"
    BROKER_LOST_POWER = "broker lost power"
    BROKER_DIED_IN_A_DISK_OPERATION = "broker died in a disk operation"
    BROKER_DIED_ENDING_A_TRANSACTION = "broker died while it ended a transaction"
    BROKER_PAUSED = "broker paused"
    CLIENT_KILLED = "client killed"
    CLIENT_PAUSED = "client paused"
    CLIENT_REPLACED = "client paused and replaced"
    CLIENT_CUT_OFF = "client cut off"
    TRANSACTION_COORDINATOR_MOVED = "transaction coordinator moved"
    GROUP_COORDINATOR_MOVED = "group coordinator moved"


class Meddler:
    """Loses, repeats and delays whole requests and answers, and ends of transactions most of all.

    ``spares_older``: only as far as the older protocol promises to bear it.
    """

    def __init__(
        self, random: Random, faults: Counter[Fault], late_end_probability: float, *, spares_older: bool
    ) -> None:
        self.strike_at_end: Callable[[], None] | None = None
        """What happens when the next end of a transaction is asked for."""
        self._random = random
        self._faults = faults
        self._late_end_probability = late_end_probability
        self._spares_older = spares_older
        self._late_connections: set[int] = set()
        """Those on which a request was delayed: what is sent after it is late, too."""

    def __call__(self, frame: Frame) -> Verdict:
        random = self._random
        api_key, version = int.from_bytes(frame.payload[:2], "big"), int.from_bytes(frame.payload[2:4], "big")
        is_end = frame.to_server and api_key == ApiKey.END_TXN
        if frame.to_server and frame.connection in self._late_connections and self._is_spared(api_key, version):
            self._faults[Fault.REQUEST_LOST] += 1
            return RESET
        if is_end and self.strike_at_end is not None:
            strike, self.strike_at_end = self.strike_at_end, None
            strike()
            return DELIVER
        if random.random() > (self._late_end_probability if is_end else FAULT_PROBABILITY):
            return DELIVER
        fault, verdict = self._misfortune(frame.to_server, api_key, version)
        self._faults[fault] += 1
        if fault is Fault.REQUEST_DELAYED:
            self._late_connections.add(frame.connection)
        return verdict

    def _is_spared(self, api_key: int, version: int) -> bool:
        return self._spares_older and version < NAMES_ITS_TRANSACTION.get(ApiKey(api_key), 0)

    def _misfortune(self, to_server: bool, api_key: int, version: int) -> tuple[Fault, Verdict]:
        random = self._random
        if not to_server:
            return random.choice(
                (
                    (Fault.ANSWER_LOST, DROP),
                    (Fault.ANSWER_REPEATED, REPEAT),
                    (Fault.ANSWER_LOST_WITH_ITS_CONNECTION, RESET),
                    (Fault.ANSWER_DELAYED, Verdict(delay_ms=random.uniform(1, 3_000))),
                )
            )
        if self._is_spared(api_key, version):
            return Fault.REQUEST_LOST, RESET
        if api_key == ApiKey.END_TXN:
            # Later than the client waits: it asks again elsewhere, goes on, and then this one arrives.
            return Fault.END_DELAYED, Verdict(delay_ms=random.uniform(1_500, 4_000))
        return random.choice(
            (
                (Fault.REQUEST_LOST, RESET),
                (Fault.REQUEST_REPEATED, REPEAT),
                (Fault.REQUEST_LOST, RESET),
                (Fault.REQUEST_DELAYED, Verdict(delay_ms=random.uniform(1, 3_000))),
            )
        )


async def strike_client(
    fault: Fault, simulation: Simulation, random: Random, victim: Application, banks: Sequence[Bank], broker: str
) -> Fault | None:
    """Something happens to a client, or between it and a broker. Returns what has struck."""
    match fault:
        case Fault.CLIENT_CUT_OFF:
            simulation.network.partition(broker, victim.name)
            await asyncio.sleep(random.uniform(0.1, 5.0))
            simulation.network.heal(broker, victim.name)
        case Fault.CLIENT_PAUSED:
            # Perhaps for longer than its transaction may take.
            victim.host.pause()
            await asyncio.sleep(random.uniform(0.1, 6.0))
            victim.host.resume()
        case Fault.CLIENT_REPLACED:
            zombie = (victim if isinstance(victim, Transactional) else random.choice(banks)).replace()
            await asyncio.sleep(random.uniform(0.1, 6.0))
            zombie.resume()
        case Fault.CLIENT_KILLED:
            return fault if victim.die() else None
        case _:
            raise AssertionError(fault)
    return fault


async def inject_faults(
    simulation: Simulation,
    served: ServedBroker,
    meddler: Meddler,
    applications: list[Application],
    faults: Counter[Fault],
) -> None:
    """One misfortune after another; then peace. What died is up again, or on its way, when this returns."""
    random, host = simulation.random("torment"), served.host
    banks = [application for application in applications if isinstance(application, Bank)]
    death = Fault.BROKER_DIED_IN_A_DISK_OPERATION
    for _ in range(random.randint(4, 10)):
        await asyncio.sleep(random.uniform(0.01, 1.5))
        victim = random.choice(applications)
        fault: Fault | None = None
        match random.randrange(14):
            case 0:
                host.kill()
                death = Fault.BROKER_KILLED
            case 1:
                host.cut_power()
                death = Fault.BROKER_LOST_POWER
            case 2 | 9 | 10:
                host.cut_power_in_disk_operation(random.randint(1, 80))
                death = Fault.BROKER_DIED_IN_A_DISK_OPERATION
            case 3:
                host.kill_in_disk_operation(random.randint(1, 80))
                death = Fault.BROKER_DIED_IN_A_DISK_OPERATION
            case 4:
                fault = await strike_client(Fault.CLIENT_CUT_OFF, simulation, random, victim, banks, BROKER)
            case 5:
                fault = Fault.BROKER_PAUSED
                host.pause()
                await asyncio.sleep(random.uniform(0.1, 5.0))
                host.resume()
            case 6:
                fault = await strike_client(Fault.CLIENT_PAUSED, simulation, random, victim, banks, BROKER)
            case 8:
                fault = await strike_client(Fault.CLIENT_REPLACED, simulation, random, victim, banks, BROKER)
            case 7:
                fault = await strike_client(Fault.CLIENT_KILLED, simulation, random, victim, banks, BROKER)
            case 11 | 12:
                # Between the decision and its last marker.
                dies = random.choice((host.kill_in_disk_operation, host.cut_power_in_disk_operation))
                meddler.strike_at_end = partial(dies, random.randint(1, 8))
                death = Fault.BROKER_DIED_ENDING_A_TRANSACTION
            case _:
                of_offsets = random.random() < 0.3
                moved = served.move_coordinator(
                    of_offsets=of_offsets, partition=random.randrange(2), away_ms=random.uniform(0, 1_000)
                )
                if moved:
                    fault = Fault.GROUP_COORDINATOR_MOVED if of_offsets else Fault.TRANSACTION_COORDINATOR_MOVED
        if fault is not None:
            faults[fault] += 1
        await asyncio.sleep(random.uniform(0.01, 1.0))
        if not host.alive:
            faults[death] += 1
            served.start()
    meddler.strike_at_end = None
    host.disk.repair()
    if not host.alive:
        served.start()
