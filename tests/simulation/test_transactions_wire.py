"""The real broker with transactional producers of both generations, under kills, power cuts and a meddling network.

What must hold once the faults stop: no transaction stays open; every value of a committed transaction is visible to a
read_committed reader, once, on all its partitions; no value of an aborted one is visible on any; and the offset of a
group is that of the last committed transaction that carried one.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from semel.broker.broker import Address, Broker
from semel.broker.config import BrokerConfig
from semel.errors import ErrorCode
from semel.testing.frames import DELIVER, DROP, REPEAT, RESET, Frame, Verdict
from semel.testing.host import VirtualHost
from semel.testing.simulation import Simulation, seeds, simulate
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.list_transactions import ListTransactionsRequest
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.simulation.committed_reader import read_committed
from tests.simulation.transactional_producer import TransactionalProducer
from tests.simulation.wire_client import WireClient

BROKER = "broker"
PORT = 9092
TOPIC = "orders"
PARTITIONS = 3
TRANSACTIONS = 12
TIMEOUT_MS = 4_000

SETTINGS = {
    "log.dirs": "/data",
    "node.id": "1",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


class Served:
    """The broker on its host, and how to start it again."""

    def __init__(self, simulation: Simulation, settings: dict[str, str]) -> None:
        self.host = simulation.host(BROKER)
        self._simulation = simulation
        self._settings = settings
        self._broker: Broker | None = None

    def start(self) -> None:
        self.host.start(self._serve(self._simulation.random(f"broker {self._simulation.loop.time()}")))

    def move_coordinator(self, topic_is_offsets: bool, partition: int, away_ms: float) -> None:
        """As a failover to another broker and back."""
        broker = self._broker
        if self.host.alive and broker is not None:
            coordinators = broker.node.coordinators
            moved = coordinators.groups if topic_is_offsets else coordinators.transactions
            if moved.topic in broker.node.image.topics:
                self.host.start(moved.move(partition, away_ms=away_ms))

    async def _serve(self, random: Random) -> None:
        host = self.host
        self._broker = None
        broker = Broker(
            BrokerConfig.load("", {**SETTINGS, **self._settings}),
            listen=Address(BROKER, PORT),
            disk=host.disk,
            network=host.network,
            clock=host.clock,
            random=random,
            make_worker=lambda _: host.worker(),
        )
        await broker.start()
        self._broker = broker


def meddler(random: Random, *, probability: float) -> Any:
    """Loses, repeats and delays whole requests and answers, but lets no EndTxn of the older generation come twice or
    late: it would end the next transaction, as it does in Apache Kafka (KAFKA-17754)."""

    def decide(frame: Frame) -> Verdict:
        if random.random() > probability:
            return DELIVER
        loss = RESET if frame.to_server else DROP
        api_key, version = int.from_bytes(frame.payload[:2], "big"), int.from_bytes(frame.payload[2:4], "big")
        if frame.to_server and api_key == ApiKey.END_TXN and version < 5:
            return RESET
        return random.choice((loss, REPEAT, RESET, Verdict(delay_ms=random.uniform(1, 3_000))))

    return decide


async def torment(simulation: Simulation, served: Served, *, power_cuts: bool = True) -> None:
    random, host = simulation.random("torment"), served.host
    for _ in range(random.randint(3, 8)):
        await asyncio.sleep(random.uniform(0.01, 2.0))
        fault = random.randrange(7)
        if fault == 0:
            host.kill()
        elif fault == 1:
            host.cut_power() if power_cuts else host.kill()
        elif fault == 2:
            disk_operation = random.randint(1, 80)
            (host.cut_power_in_disk_operation if power_cuts else host.kill_in_disk_operation)(disk_operation)
        elif fault == 3:
            host.kill_in_disk_operation(random.randint(1, 80))
        elif fault == 4:
            simulation.network.partition(BROKER, "clients")
            await asyncio.sleep(random.uniform(0.1, 5.0))
            simulation.network.heal()
        elif fault == 5:
            host.pause()
            await asyncio.sleep(random.uniform(0.1, 5.0))
            host.resume()
        else:
            served.move_coordinator(random.random() < 0.3, random.randrange(2), random.uniform(0, 1_000))
        await asyncio.sleep(random.uniform(0.01, 1.0))
        if not host.alive:
            served.start()
    host.disk.repair()
    if not host.alive:
        served.start()


async def create_topic(client: WireClient) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    while True:
        try:
            answer = await client.call(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
        except (OSError, TimeoutError):
            await asyncio.sleep(0.1)
            continue
        assert answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        return


async def until_nothing_is_open(client: WireClient) -> None:
    """Give what was left behind the time to time out; then nothing may be open."""
    await asyncio.sleep(TIMEOUT_MS / 1000 + 2.0)
    listed = await client.call(
        ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest(["Ongoing", "PrepareCommit", "PrepareAbort"])
    )
    assert (listed.error_code, listed.transaction_states) == (0, [])


async def check_visible(client: WireClient, producers: list[TransactionalProducer]) -> int:
    committed, aborted = set(), set()
    for producer in producers:
        for written in producer.transactions:
            assert written.committed is not None, f"{producer.name}: the end of {written} is not known"
            (committed if written.committed else aborted).update(
                (partition, value) for partition, values in written.values.items() for value in values
            )
    seen = []
    for index in range(PARTITIONS):
        partition = TopicPartition(TOPIC, index)
        seen += [(partition, value) for value in await read_committed(client, partition)]
    assert len(seen) == len(set(seen)), "a value is visible twice"
    assert committed - set(seen) == set(), "values of committed transactions are missing"
    assert aborted & set(seen) == set(), "values of aborted transactions are visible"
    assert set(seen) == committed
    return len(seen)


async def check_offsets(client: WireClient, producers: list[TransactionalProducer]) -> None:
    for producer in producers:
        expected = [w.number for w in producer.transactions if w.committed and w.has_offset]
        request = OffsetFetchRequest(producer.group, [OffsetFetchRequestTopic(TOPIC, [0])], require_stable=True)
        answer = await client.call(ApiKey.OFFSET_FETCH, 7, request)
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code, partition.committed_offset) == (0, expected[-1] if expected else -1)


async def transactions_under_faults(simulation: Simulation) -> None:
    served, clients = Served(simulation, {"flush": "commit"}), simulation.host("clients")

    def client() -> WireClient:
        return WireClient(clients.network, BROKER, PORT)

    served.start()
    await create_topic(client())
    simulation.network.interceptor = meddler(simulation.random("meddler"), probability=0.05)
    producers = [
        TransactionalProducer(
            f"p{n}",
            client(),
            simulation.random(f"producer {n}"),
            topic=TOPIC,
            partitions=PARTITIONS,
            is_v2=n % 2 == 0,
            timeout_ms=TIMEOUT_MS,
        )
        for n in range(4)
    ]
    running = [asyncio.ensure_future(producer.run(TRANSACTIONS)) for producer in producers]
    await torment(simulation, served)
    simulation.network.interceptor = None
    await asyncio.gather(*running)
    await until_nothing_is_open(client())
    count = await check_visible(client(), producers)
    await check_offsets(client(), producers)
    simulation.trace.record(f"{count} values")


@pytest.mark.parametrize("seed", seeds(20))
def test_transactions_are_atomic_and_none_stays_open(seed: int) -> None:
    """Scenarios 26, 27, 31 to 36, 42, 51 and 52, against the whole broker."""
    simulate(seed, transactions_under_faults)
