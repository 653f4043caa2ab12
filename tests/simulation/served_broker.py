"""The real broker on a simulated machine: started, moved about, and started again after it died."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Protocol

from semel.broker.broker import Broker
from semel.broker.config.broker_config import BrokerConfig
from semel.errors import ErrorCode
from semel.testing.simulation import Simulation
from semel.types import Address, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.simulation.wire_client import WireClient

BROKER = "broker"
CLIENTS = "clients"
PORT = 9092
ONE_BROKER = f"{BROKER}:{PORT}"

SETTINGS = {
    "log.dirs": "/data",
    "node.id": "1",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


class Served(Protocol):
    """One broker, or several."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def offsets_partitions(self) -> int:
        """How many partitions ``__consumer_offsets`` has."""

    @property
    def replicas(self) -> int:
        """How many replicas topics get."""

    def clients(self) -> list[WireClient]:
        """One for each broker."""

    def leader_of(self, partition: TopicPartition) -> WireClient:
        """Asks the broker that leads the partition."""


class ServedBroker:
    def __init__(self, simulation: Simulation, **settings: str) -> None:
        self.quick_disk = False
        """Whether it is so quick that the loop syncs small groups itself."""
        self.host = simulation.host(BROKER)
        self._clients = simulation.host(CLIENTS)
        self._simulation = simulation
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self._broker: Broker | None = None

    @property
    def broker(self) -> Broker:
        assert self._broker is not None, "the broker is not up"
        return self._broker

    @property
    def bootstrap_servers(self) -> str:
        return ONE_BROKER

    @property
    def offsets_partitions(self) -> int:
        return int(SETTINGS["offsets.topic.num.partitions"])

    @property
    def replicas(self) -> int:
        return 1

    def client(self) -> WireClient:
        return WireClient(self._clients.network, BROKER, PORT)

    def clients(self) -> list[WireClient]:
        """One for each broker."""
        return [self.client()]

    def leader_of(self, partition: TopicPartition) -> WireClient:
        return self.client()

    def start(self) -> None:
        self.host.start(self._serve(self._simulation.random(f"broker {self._simulation.loop.time()}")))

    async def until_up(self) -> None:
        while self._broker is None:
            await asyncio.sleep(0.01)

    def move_coordinator(self, *, of_offsets: bool, partition: int, away_ms: float) -> bool:
        """What clients see of a failover to another broker and back; False if there is nothing yet to move."""
        broker = self._broker
        if not self.host.alive or broker is None:
            return False
        coordinators = broker.node.coordinators
        moved = coordinators.groups if of_offsets else coordinators.transactions
        if moved.topic not in broker.node.image.topics:
            return False
        self.host.start(moved.move(partition, away_ms=away_ms))
        return True

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
            make_worker=lambda _: host.worker(brief_at_once=self.quick_disk),
        )
        await broker.start()
        self._broker = broker


async def create_topic(client: WireClient, name: str, partitions: int, *, replicas: int = 1) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    while True:
        try:
            answer = await client.call(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
        except (OSError, TimeoutError):
            await asyncio.sleep(0.1)
            continue
        assert answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        return
