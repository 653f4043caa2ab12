"""Several real brokers inside a test, as one cluster, with a model of ZooKeeper in memory: no Java is needed.

    with Cluster(brokers=3, num_partitions=6) as cluster:
        ...                                  # any client, at cluster.bootstrap_servers
        cluster.brokers[2].stop(kill=True)   # as kill -9: other replicas become leaders of its partitions
        cluster.brokers[2].start()           # the same data, the same port
        cluster.expire_session(3)            # as after a long pause: it joins again, in a new session
        cluster.committed("orders")          # what a read_committed consumer sees

The brokers are those that ``semel serve`` runs with ``zookeeper.connect``. They share a thread and a clock; each has a
port, faults and data of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.node import Node
from semel.client.values import ConsumerRecord
from semel.clock import SystemClock
from semel.coordinator.partitioning import partition_for
from semel.log.disk import Disk
from semel.testing.committed import committed_records, has_open_transaction, is_settling
from semel.testing.faults import Faults
from semel.testing.loop_thread import LoopThread
from semel.testing.served_broker import ServedBroker
from semel.testing.shifted_time import ShiftedClock
from semel.testing.virtual.latency import uniform_ms
from semel.testing.virtual.links import Link
from semel.testing.virtual.network import HostNetwork, VirtualNetwork
from semel.testing.zookeeper.ensemble import Ensemble
from semel.testing.zookeeper.server import ModelServer
from semel.testing.zookeeper.session import ModelSession
from semel.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

ZOOKEEPER: Final = "zookeeper"
_INTERNAL_FACTOR: Final = 3
_PAUSE_S: Final = 0.002


class Cluster:
    """A cluster of a test. Start it with ``with``, ``async with`` or ``start()``.

    ``settings`` are Kafka's settings, with ``_`` for ``.``, for all brokers. With ``data_dir`` each broker keeps its
    data in a folder below it. The data of ZooKeeper is always in memory and is lost when the fixture ends.
    """

    def __init__(self, brokers: int = 3, *, data_dir: str | os.PathLike[str] | None = None, **settings: object) -> None:
        if brokers < 1:
            raise ValueError(f"brokers={brokers}; a cluster has at least one")
        self.clock = ShiftedClock()
        self._thread = LoopThread(self.clock)
        self._zookeeper: _ZooKeeper | None = None
        factor = min(_INTERNAL_FACTOR, brokers)
        settings = {
            "offsets_topic_replication_factor": factor,
            "transaction_state_log_replication_factor": factor,
            **settings,
        }
        self.brokers = {
            node_id: ClusterBroker(self, node_id, None if data_dir is None else Path(data_dir, str(node_id)), settings)
            for node_id in range(1, brokers + 1)
        }
        """The brokers by node id."""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, separated by commas."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def start(self) -> Cluster:
        assert not self._thread.is_running, "the cluster is running already"
        self._thread.start()
        try:
            self._thread.call(self._start())
        except BaseException:
            self._thread.end()
            self._zookeeper = None
            raise
        return self

    def stop(self) -> None:
        """Stop all brokers and ZooKeeper. Ports, the thread and files are released when this returns."""
        if not self._thread.is_running:
            return
        try:
            self._thread.call(self._stop())
        finally:
            self._thread.end()
            self._zookeeper = None

    def expire_session(self, node_id: int) -> None:
        """End a broker's session with ZooKeeper, as after a pause longer than ``zookeeper.session.timeout.ms``.

        When this returns, the other brokers know that its registration has ended, and it leads nothing until it has
        registered again, which it does by itself. The session of a killed broker ends now instead of at its timeout.
        """

        async def expire() -> None:
            session = self.brokers[node_id].session
            assert session is not None, f"broker {node_id} was never started"
            epoch = self._epoch_of(node_id)
            self.zookeeper.server.expire(session.session_id)
            await self._until_others_know(node_id, epoch)

        self._thread.call(expire())

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the running broker that leads the partition; ``None`` if there is none now."""

        async def find() -> int | None:
            leading = (node for node in self._nodes() if node.partitions.get(topic, partition) is not None)
            return next((node.config.node_id for node in leading), None)

        return self._thread.call(find())

    def transaction_coordinator(self, transactional_id: str) -> int | None:
        """Return the transaction coordinator of this transactional id; ``None`` if there is none now."""
        return self._coordinator(TRANSACTION_STATE_TOPIC, transactional_id)

    def group_coordinator(self, group: str) -> int | None:
        return self._coordinator(CONSUMER_OFFSETS_TOPIC, group)

    def committed(self, topic: str, partition: int | None = None) -> list[ConsumerRecord]:
        """Return the records of the topic that a read_committed consumer sees, ordered by partition and offset.

        Waits until the markers of decided transactions are written on the brokers that run.
        """

        async def read() -> list[ConsumerRecord]:
            while is_settling(self._nodes(), topic):
                await asyncio.sleep(_PAUSE_S)
            return committed_records(self._nodes(), topic, partition)

        return self._thread.call(read())

    def has_open_transaction(self, topic: str) -> bool:
        """Whether a transaction with records in the topic has neither been committed nor aborted yet."""

        async def look() -> bool:
            return has_open_transaction(self._nodes(), topic)

        return self._thread.call(look())

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    async def __aenter__(self) -> Cluster:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *exception: object) -> None:
        await asyncio.to_thread(self.stop)

    # For ClusterBroker

    @property
    def thread(self) -> LoopThread:
        return self._thread

    @property
    def zookeeper(self) -> _ZooKeeper:
        assert self._zookeeper is not None, "the cluster is not running"
        return self._zookeeper

    async def stop_broker(self, broker: ClusterBroker, *, kill: bool) -> None:
        epoch = self._epoch_of(broker.node_id)
        await broker.served.stop(kill=kill)
        if not kill:
            await self._until_others_know(broker.node_id, epoch)

    # Private

    async def _until_others_know(self, node_id: int, epoch: int | None) -> None:
        """Wait until the other brokers know that the registration of ``node_id`` with this broker epoch has ended."""
        others = [broker.node for broker in self.brokers.values() if broker.is_running and broker.node_id != node_id]
        while epoch is not None and any(
            (known := node.image.brokers.get(node_id)) is not None and known.epoch == epoch for node in others
        ):
            await asyncio.sleep(_PAUSE_S)

    def _epoch_of(self, node_id: int) -> int | None:
        """Return the broker epoch of the node's registration, as a running broker knows it."""
        known = (broker.node.image.brokers.get(node_id) for broker in self.brokers.values() if broker.is_running)
        return max((registered.epoch for registered in known if registered is not None), default=None)

    def _coordinator(self, topic: str, key: str) -> int | None:
        async def partition_of() -> int | None:
            known = (node.image.topics.get(topic) for node in self._nodes())
            described = next((each for each in known if each is not None), None)
            return None if described is None else partition_for(key, len(described.partitions))

        partition = self._thread.call(partition_of())
        return None if partition is None else self.leader(topic, partition)

    def _nodes(self) -> list[Node]:
        running = [broker.node for broker in self.brokers.values() if broker.is_running]
        assert running, "no broker of the cluster is running"
        return running

    async def _start(self) -> None:
        self._zookeeper = _ZooKeeper()
        await self._zookeeper.server.start()
        await asyncio.gather(*(broker.served.start() for broker in self.brokers.values()))
        while any(node.image.brokers.keys() != self.brokers.keys() for node in self._nodes()):
            await asyncio.sleep(_PAUSE_S)  # The other brokers have not seen the last registration yet.

    async def _stop(self) -> None:
        await asyncio.gather(*(broker.served.stop(kill=False) for broker in self.brokers.values()))
        self.zookeeper.stop()


class ClusterBroker:
    """One broker of a cluster. The cluster's ``start`` starts it; ``stop`` and ``start`` restart it alone."""

    def __init__(self, cluster: Cluster, node_id: int, data_dir: Path | None, settings: Mapping[str, object]) -> None:
        self.node_id = node_id
        self.faults = Faults(self._move_coordinator)
        """Faults for the requests of clients and of other brokers to this one."""
        self.session: ModelSession | None = None
        """The broker's latest session with ZooKeeper."""
        self._cluster = cluster
        own = {**settings, "node_id": node_id, "zookeeper_connect": f"{ZOOKEEPER}:2181"}
        self.served = ServedBroker(data_dir, own, cluster.clock, self.faults, open_session=self._open_session)

    @property
    def disk(self) -> Disk:
        return self.served.disk

    @property
    def bootstrap_servers(self) -> str:
        return self.served.bootstrap_servers

    @property
    def port(self) -> int:
        return self.served.address.port

    @property
    def is_running(self) -> bool:
        return self.served.broker is not None

    @property
    def node(self) -> Node:
        return self.served.node

    def start(self) -> ClusterBroker:
        """Start the broker again, with the same data and on the same port. Returns when it is a member again."""
        self._cluster.thread.call(self.served.start())
        return self

    def stop(self, *, kill: bool = False) -> None:
        """Stop the broker: cleanly, and wait until the other brokers know it; or as ``kill -9`` would.

        The session of a killed broker expires some seconds later.
        """
        self._cluster.thread.call(self._cluster.stop_broker(self, kill=kill))

    def restart(self, *, kill: bool = False) -> None:
        self.stop(kill=kill)
        self.start()

    def _move_coordinator(self, name: str, away_seconds: float) -> None:
        self._cluster.thread.call(self.served.move_coordinator(name, away_seconds))

    async def _open_session(self, config: BrokerConfig) -> ModelSession:
        network = self._cluster.zookeeper.host(self.node_id)
        session = ModelSession(network, [ZOOKEEPER], timeout_s=config.zookeeper_session_timeout_ms / 1000)
        await session.start()
        self.session = session
        return session


class _ZooKeeper:
    """The model of ZooKeeper: one server, on a network in memory.

    ``Cluster.clock`` does not shift its time: advancing the time would expire all sessions.
    """

    def __init__(self) -> None:
        loop, clock = asyncio.get_running_loop(), SystemClock()
        self._network = VirtualNetwork(loop, Random(0), link=Link(uniform_ms(0.0, 0.0)))
        self._ensemble = Ensemble(loop, now_s=lambda: clock.monotonic_ms() / 1000)
        self.server = ModelServer(ZOOKEEPER, self._network, self._ensemble, Random(0), lag_s=0.0)

    def host(self, node_id: int) -> HostNetwork:
        return self._network.host(f"broker-{node_id}")

    def stop(self) -> None:
        self.server.stop()
        self._ensemble.close()
