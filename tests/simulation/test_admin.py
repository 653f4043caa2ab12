"""The real admin client and the real broker, with requests and answers lost, late and repeated, and a broker that dies.

What must hold: every call is settled in time; what was acknowledged is there when the faults are over, also after the
last power cut; and a topic that nobody else creates is there already only if the error says that a lost try did it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from semel import Admin
from semel.admin import ConfigResource
from semel.errors import ErrorCode, KafkaError
from semel.testing.simulation import Simulation, run, seeds
from semel.types import TopicPartition
from tests.simulation.broker_faults import Fault, Meddler
from tests.simulation.served_broker import BROKER, PORT, ServedBroker

T = TypeVar("T")

TOPICS = 12
TIMEOUT_MS = 8_000


@dataclass
class Operator:
    """Creates, configures and commits, and remembers what was acknowledged."""

    simulation: Simulation
    admin: Admin
    partitions: dict[str, int] = field(default_factory=dict)
    retention_ms: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    errors: list[KafkaError] = field(default_factory=list)

    async def work(self) -> None:
        random = self.simulation.random("operator")
        for number in range(TOPICS):
            name, partitions = f"topic-{number}", random.randint(1, 3)
            created = await self._attempt(self.admin.topics.create(name, partitions=partitions))
            if created is not None:
                assert created.partitions == partitions
                self.partitions[name] = partitions
            change = {"retention.ms": 1_000_000 + number}
            before = len(self.errors)
            await self._attempt(self.admin.configs.alter(ConfigResource.topic(name), change))
            if len(self.errors) == before:
                self.retention_ms[name] = 1_000_000 + number
            committed = await self._attempt(self.admin.groups.alter_offsets(name, {(name, 0): number}))
            if committed is not None and not committed.failed:
                self.offsets[name] = number
            hanging = await self._attempt(self.admin.transactions.find_hanging(max_transaction_timeout_ms=0))
            assert not hanging
            await asyncio.sleep(random.uniform(0, 0.5))

    async def check(self) -> None:
        """There are no faults any more: what was acknowledged is there."""
        for error in self.errors:
            assert error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or "may have been served" in str(error), error
        for name, partitions in self.partitions.items():
            assert len((await self.admin.topics.describe(name)).partitions) == partitions
        for name, retention_ms in self.retention_ms.items():
            entries = await self.admin.configs.describe(ConfigResource.topic(name))
            assert entries["retention.ms"].value == str(retention_ms)
        for name, offset in self.offsets.items():
            assert (await self.admin.groups.list_offsets(name))[TopicPartition(name, 0)].offset == offset

    async def _attempt(self, call: Coroutine[Any, Any, T]) -> T | None:
        name = getattr(call, "__qualname__", call)
        started_s = self.simulation.loop.time()
        try:
            return await call
        except KafkaError as error:
            self.errors.append(error)
            return None
        finally:
            taken_ms = (self.simulation.loop.time() - started_s) * 1_000
            assert taken_ms < TIMEOUT_MS + 100, f"{name} took {taken_ms} ms"


async def administration_under_faults(simulation: Simulation) -> tuple[Counter[Fault], int]:
    """Returns the faults that struck, and how much was acknowledged."""
    faults: Counter[Fault] = Counter()
    served = ServedBroker(simulation)
    served.start()
    await served.until_up()
    host = simulation.host("operator")
    admin = Admin(
        bootstrap_servers=f"{BROKER}:{PORT}",
        request_timeout_ms=1_000,
        default_api_timeout_ms=TIMEOUT_MS,
        network=host.network,
        clock=host.clock,
        random=simulation.random("admin"),
    )
    operator = Operator(simulation, admin)
    simulation.network.interceptor = Meddler(simulation.random("meddler"), faults, 0.0, spares_older=False)
    working = host.start(operator.work())
    await inject_faults(simulation, served, faults)
    simulation.network.interceptor = None
    await working
    served.host.cut_power()
    served.start()
    await host.start(operator.check())
    await host.start(admin.close())
    return faults, len(operator.partitions) + len(operator.retention_ms) + len(operator.offsets)


async def inject_faults(simulation: Simulation, served: ServedBroker, faults: Counter[Fault]) -> None:
    random, host = simulation.random("torment"), served.host
    for _ in range(random.randint(4, 10)):
        await asyncio.sleep(random.uniform(0.01, 2.0))
        match random.randrange(5):
            case 0:
                faults[Fault.BROKER_KILLED] += 1
                host.kill()
            case 1:
                faults[Fault.BROKER_LOST_POWER] += 1
                host.cut_power()
            case 2:
                faults[Fault.BROKER_PAUSED] += 1
                host.pause()
                await asyncio.sleep(random.uniform(0.1, 3.0))
                host.resume()
            case 3:
                faults[Fault.CLIENT_CUT_OFF] += 1
                simulation.network.partition(BROKER, "operator")
                await asyncio.sleep(random.uniform(0.1, 3.0))
                simulation.network.heal()
            case _:
                moved = served.move_coordinator(of_offsets=True, partition=random.randrange(2), away_ms=500)
                faults[Fault.GROUP_COORDINATOR_MOVED] += moved
        await asyncio.sleep(random.uniform(0.01, 1.0))
        if not host.alive:
            served.start()


@pytest.mark.parametrize("seed", seeds(10))
def test_what_the_admin_client_was_told_is_so(seed: int) -> None:
    """Scenarios 36 and 38, from the operator's side."""
    faults, acknowledged = run(administration_under_faults, seed=seed)
    assert faults
    assert acknowledged
