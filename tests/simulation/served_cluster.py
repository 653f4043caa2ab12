"""Several real brokers on simulated machines, over a model of ZooKeeper: started, killed, cut off, started again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from semel.broker.broker import Broker
from semel.broker.config.broker_config import BrokerConfig
from semel.errors import StorageError
from semel.metadata import paths
from semel.metadata.image import ClusterImage
from semel.testing.simulation import Simulation
from semel.testing.zookeeper.ensemble import Ensemble
from semel.testing.zookeeper.server import ModelServer
from semel.testing.zookeeper.session import ModelSession
from semel.types import Address, TopicPartition
from tests.simulation.cluster_laws import ClusterLaws
from tests.simulation.in_sync_laws import InSyncLaws
from tests.simulation.wire_client import WireClient

CLIENTS = "clients"
PORT = 9092
INTER_BROKER_PORT = 9093
SESSION_TIMEOUT_S = 6.0

SETTINGS = {
    "log.dirs": "/data",
    "zookeeper.connect": "zookeeper:2181",
    "zookeeper.session.timeout.ms": str(int(SESSION_TIMEOUT_S * 1000)),
    "transaction.state.log.num.partitions": "6",
    "offsets.topic.num.partitions": "6",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    # A broker that dies takes its partitions with it; what replicas do is tested with other settings.
    "transaction.state.log.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
}
REPLICATED = {
    "transaction_state_log_replication_factor": "3",
    "offsets_topic_replication_factor": "3",
}


class ServedCluster:
    """Implements ``Served``."""

    def __init__(self, simulation: Simulation, brokers: int = 3, servers: int = 3, **settings: str) -> None:
        self._simulation = simulation
        self._clients = simulation.host(CLIENTS)
        self.ensemble = Ensemble(simulation.loop)
        names = [f"zookeeper-{number}" for number in range(1, servers + 1)]
        self.servers = [
            ModelServer(name, simulation.network, self.ensemble, simulation.random(f"zookeeper {name}"), lag_s=0.02)
            for name in names
        ]
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.brokers = {
            node_id: ServedMember(simulation, node_id, names, self._settings) for node_id in range(1, brokers + 1)
        }

        self.laws = ClusterLaws(self)
        self.in_sync_laws = InSyncLaws(self)

    async def start(self) -> None:
        for server in self.servers:
            await server.start()
        for broker in self.brokers.values():
            broker.start()
        for broker in self.brokers.values():
            await broker.until_up()
        while any(len(broker.broker.node.image.brokers) < len(self.brokers) for broker in self.brokers.values()):
            await asyncio.sleep(0.01)

    def session_of(self, member: ServedMember) -> int:
        """The session that ZooKeeper has with it, as far as the broker knows; 0 if there is none."""
        return 0 if member.session is None else member.session.session_id

    def is_alive(self, session_id: int) -> bool:
        return self.ensemble.is_alive(session_id)

    def expire(self, session_id: int) -> bool:
        """End a session as ZooKeeper would after its timeout; False if there is none."""
        is_alive = self.ensemble.is_alive(session_id)
        self.ensemble.expire(session_id)
        return is_alive

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{broker.name}:{PORT}" for broker in self.brokers.values())

    @property
    def offsets_partitions(self) -> int:
        return int({**SETTINGS, **self._settings}["offsets.topic.num.partitions"])

    @property
    def replicas(self) -> int:
        return int({**SETTINGS, **self._settings}["offsets.topic.replication.factor"])

    def clients(self) -> list[WireClient]:
        return [self.client(node_id) for node_id in self.brokers]

    def leader_of(self, partition: TopicPartition) -> WireClient:
        return self.client(self.led_by_store(*partition))

    def led_by_store(self, topic: str, partition: int) -> int:
        """According to the store itself, whatever the brokers know of it."""
        data = self.ensemble.tree.nodes[paths.topic_path(topic)].data
        leader = paths.decode_topic(topic, data).partitions[partition].leader
        assert leader is not None, f"{topic}-{partition} has no leader"
        return leader

    def client(self, node_id: int) -> WireClient:
        return WireClient(self._clients.network, f"broker-{node_id}", PORT)

    def stranger(self, node_id: int) -> ServedMember:
        """Another broker with that node id, on another machine."""
        return ServedMember(
            self._simulation, node_id, [server.name for server in self.servers], self._settings, name="stranger"
        )

    @property
    def image(self) -> ClusterImage:
        """As one of the brokers has it."""
        return next(iter(self.brokers.values())).broker.node.image

    def led_by(self, topic: str, partition: int) -> int | None:
        state = self.image.partition(topic, partition)
        return None if state is None else state.leader


class ServedMember:
    """One broker of the cluster, on a machine of its own."""

    def __init__(
        self, simulation: Simulation, node_id: int, servers: list[str], settings: Mapping[str, str], name: str = ""
    ) -> None:
        self.node_id = node_id
        self.name = name or f"broker-{node_id}"
        self.host = simulation.host(self.name)
        self._simulation = simulation
        self._servers = servers
        self.settings = settings
        self.accept_loss = False
        self.quick_disk = False
        """Whether it is so quick that the loop syncs small groups itself."""
        self.session: ModelSession | None = None
        self._broker: Broker | None = None

    @property
    def broker(self) -> Broker:
        assert self._broker is not None, f"{self.name} is not up"
        return self._broker

    @property
    def is_up(self) -> bool:
        return self.host.alive and self._broker is not None and self._broker.is_running

    def start(self) -> None:
        self._broker = None
        self.host.start(self._supervised())

    def is_member_under(self, broker_epoch: int) -> bool:
        """Whether its process is up, and a member of the cluster by this registration."""
        if not self.is_up:
            return False
        node = self.broker.node
        registered = node.image.brokers.get(self.node_id)
        return node.is_member and registered is not None and registered.epoch == broker_epoch

    async def until_up(self) -> None:
        while self._broker is None:
            await asyncio.sleep(0.01)

    async def _supervised(self) -> None:
        """A broker whose start has failed, by its disk or because ZooKeeper could not be reached, is started again."""
        while True:
            try:
                return await self.serve()
            except (StorageError, OSError) as error:
                self._simulation.trace.record(f"{self.name} could not start: {error}")
                await asyncio.sleep(1)

    async def serve(self) -> None:
        host, random = self.host, self._simulation.random(f"{self.name} {self._simulation.loop.time()}")

        async def open_session(config: BrokerConfig) -> ModelSession:
            first = (self.node_id - 1) % len(self._servers)
            servers = self._servers[first:] + self._servers[:first]
            session = ModelSession(host.network, servers, timeout_s=config.zookeeper_session_timeout_ms / 1000)
            self.session = session
            await session.start()
            return session

        settings = {**SETTINGS, "node.id": str(self.node_id), **self.settings}
        broker = Broker(
            BrokerConfig.load("", settings),
            listen=Address(self.name, PORT),
            inter_broker_listen=Address(self.name, INTER_BROKER_PORT),
            open_session=open_session,
            accept_loss=self.accept_loss,
            disk=host.disk,
            network=host.network,
            clock=host.clock,
            random=random,
            make_worker=lambda _: host.worker(brief_at_once=self.quick_disk),
        )
        await broker.start()
        self._broker = broker
