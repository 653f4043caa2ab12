"""Members of one group that copy records in transactions, each on a machine of its own, while everything fails.

What must hold once the faults stop: the group gets done, in time, whoever of it is left; and every input stands in the
output once, however often partitions changed hands and whichever member did not notice (scenarios 53, 54 and 57).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from semel.client.consumer import Consumer
from semel.client.producer import Producer
from semel.errors import AbortableError, SemelError
from semel.testing.frames import DELIVER, DROP, REPEAT, RESET, Frame, Verdict
from semel.testing.simulation import Simulation
from semel.types import TopicPartition
from tests.simulation.committed_reader import read_committed
from tests.simulation.served_broker import BROKER, PORT, ServedBroker, create_topic

INPUT, OUTPUT, GROUP = "input", "output", "copiers"
PARTITIONS = 4
RECORDS = 160
WORKERS = 3
FINISH_S_MAX = 90.0
# Longer than a session: a member that was paused wakes as a zombie with a transaction that could still be committed.
TRANSACTION_TIMEOUT_MS = 6_000
FAULT_PROBABILITY = 0.02

_BROKER = {
    "flush": "commit",
    "group_min_session_timeout_ms": "1000",
    "group_initial_rebalance_delay_ms": "0",
    "group_consumer_min_session_timeout_ms": "1000",
    "group_consumer_session_timeout_ms": "2000",
    "group_consumer_min_heartbeat_interval_ms": "100",
    "group_consumer_heartbeat_interval_ms": "300",
}
_CLIENT = {"bootstrap_servers": f"{BROKER}:{PORT}", "request_timeout_ms": 1_000, "max_block_ms": 4_000}
_CLASSIC = {"session_timeout_ms": 2_000, "heartbeat_interval_ms": 300}

PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {**_CLASSIC, "partition_assignment_strategy": "range"},
    "cooperative": {**_CLASSIC, "partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}


async def eager(simulation: Simulation) -> None:
    await pipelines_under_faults(simulation, "eager")


async def cooperative(simulation: Simulation) -> None:
    await pipelines_under_faults(simulation, "cooperative")


async def consumer(simulation: Simulation) -> None:
    await pipelines_under_faults(simulation, "consumer")


async def pipelines_under_faults(simulation: Simulation, protocol: str) -> None:
    served = ServedBroker(simulation, **_BROKER)
    served.start()
    await create_topic(served.client(), INPUT, PARTITIONS)
    await create_topic(served.client(), OUTPUT, 1)
    values = await fill(simulation)
    workers = [Worker(simulation, f"worker-{number}", protocol) for number in range(WORKERS)]
    meddler = simulation.random("meddler")
    simulation.network.interceptor = lambda frame: meddle(frame, meddler)
    for worker in workers:
        worker.start()
    await torment(simulation, served, workers)
    simulation.network.interceptor = None
    deadline = simulation.loop.time() + FINISH_S_MAX
    while True:
        await asyncio.sleep(1.0)
        try:
            copied = await read_committed(served.client(), TopicPartition(OUTPUT, 0))
        except AssertionError:
            copied = []  # A transaction is open.
        except (OSError, TimeoutError):
            copied = []
        if len(copied) >= len(values):
            break
        assert simulation.loop.time() < deadline, f"{len(copied)} of {len(values)} within {FINISH_S_MAX} s of peace"
    assert Counter(copied) == Counter(values), f"{Counter(copied) - Counter(values)} too many"
    for worker in workers:
        worker.is_done = True
    await asyncio.sleep(TRANSACTION_TIMEOUT_MS / 1000 + 2.0)
    assert await read_committed(served.client(), TopicPartition(OUTPUT, 0)) == copied, "and nothing comes late"


async def fill(simulation: Simulation) -> list[bytes]:
    host = simulation.host("filler")
    values = [b"%d" % number for number in range(RECORDS)]
    random = simulation.random("filler")
    async with Producer(network=host.network, clock=host.clock, random=random, **_CLIENT) as producer:
        for number, value in enumerate(values):
            producer.send(INPUT, value, partition=number % PARTITIONS)
    return values


class Worker:
    """Does what the documentation says: one transaction for what poll has returned, and on after an abortable error."""

    def __init__(self, simulation: Simulation, name: str, protocol: str) -> None:
        self.name = name
        self.host = simulation.host(name)
        self._simulation = simulation
        self._settings = PROTOCOLS[protocol]
        self._random = simulation.random(f"application {name}")
        self._count = 0
        self.is_done = False

    def start(self) -> None:
        self._count += 1
        self.host.start(self._run())

    async def _run(self) -> None:
        while not self.is_done:
            # Not ``async with``: a process that is killed closes nothing.
            producer, member = self._producer(), self._consumer()
            try:
                await producer.init()
                member.subscribe([INPUT])
                while not self.is_done:
                    await self._copy(producer, member)
            except SemelError:
                await asyncio.sleep(0.1)  # It cannot go on: with new clients it can.
            await member.close()
            await producer.close()

    async def _copy(self, producer: Producer, member: Consumer) -> None:
        records = await member.poll(200, max_records=self._random.randint(1, 4))
        if not records:
            return
        try:
            async with producer.transaction(consumer=member):
                for record in records:
                    producer.send(OUTPUT, record.value, partition=0)
                await asyncio.sleep(self._random.choice((0.0, 0.1, 0.3, 1.0)))
                if self._random.random() < 0.1:
                    raise _Intended
        except (AbortableError, _Intended):
            pass

    def _producer(self) -> Producer:
        settings = {"transactional_id": self.name, "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS}
        return Producer(**self._seams("producer"), **_CLIENT, delivery_timeout_ms=3_000, **settings)

    def _consumer(self) -> Consumer:
        client = {name: value for name, value in _CLIENT.items() if name != "max_block_ms"}
        return Consumer(
            **self._seams("consumer"),
            **client,
            **self._settings,
            group_id=GROUP,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            max_poll_interval_ms=3_000,
            default_api_timeout_ms=4_000,
            fetch_max_wait_ms=200,
        )

    def _seams(self, role: str) -> dict[str, Any]:
        now = self._simulation.loop.time()
        random = self._simulation.random(f"{role} {self.name} {self._count} {now}")
        return {"network": self.host.network, "clock": self.host.clock, "random": random}


class _Intended(Exception):
    pass


def meddle(frame: Frame, random: Any) -> Verdict:
    if random.random() > FAULT_PROBABILITY:
        return DELIVER
    late = Verdict(delay_ms=random.uniform(1, 3_000))
    found: Verdict = random.choice((RESET, REPEAT, late) if frame.to_server else (DROP, REPEAT, RESET, late))
    return found


async def torment(simulation: Simulation, served: ServedBroker, workers: Sequence[Worker]) -> None:
    random, host = simulation.random("torment"), served.host
    for _ in range(random.randint(4, 8)):
        await asyncio.sleep(random.uniform(0.1, 2.0))
        victim = random.choice(list(workers))
        match random.randrange(8):
            case 0:
                host.kill()
            case 1:
                host.cut_power_in_disk_operation(random.randint(1, 60))
            case 2:
                simulation.network.partition(BROKER, victim.name)
                await asyncio.sleep(random.uniform(0.1, 5.0))
                simulation.network.heal()
            case 3 | 4:
                victim.host.pause()  # Perhaps for longer than its session lasts: a zombie, when it wakes.
                await asyncio.sleep(random.uniform(0.1, 6.0))
                victim.host.resume()
            case 5 | 6:
                victim.host.kill()
                await asyncio.sleep(random.uniform(0.0, 3.0))
                victim.start()
            case _:
                served.move_coordinator(
                    of_offsets=True, partition=random.randrange(2), away_ms=random.uniform(0, 1_000)
                )
        await asyncio.sleep(random.uniform(0.01, 1.0))
        if not host.alive:
            served.start()
    host.disk.repair()
    if not host.alive:
        served.start()
