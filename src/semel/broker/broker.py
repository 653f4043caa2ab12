"""One broker: everything it is made of, put together, started, stopped and killed.

This is the only place that knows all the parts. What touches the world (disk, network, clock, randomness, worker
threads) is handed in, so the same broker runs on a machine and inside a simulation.

Starting: take the data directory, read the metadata, open the logs, load the coordinators, listen. Stopping: accept
nothing more, answer what was asked, bring the logs to rest. Killing: let go of everything as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.fetch.fetch_sessions import FetchSessions
from semel.broker.log_lines import guard_log_lines
from semel.broker.metrics.broker_metrics import measure
from semel.broker.metrics.metrics import Metrics
from semel.broker.network.answer_cache import AnswerCache
from semel.broker.network.descriptors import Descriptors
from semel.broker.network.server import Limits, Server
from semel.broker.node import Node
from semel.broker.partitions.maintenance import Maintenance
from semel.broker.partitions.partition_lifecycle import PartitionLifecycle, topic_logs
from semel.broker.partitions.partitions import Partitions
from semel.broker.produce.record_checks import RecordChecks
from semel.broker.requests.dispatch import Dispatcher
from semel.broker.requests.features import Features
from semel.broker.turns import Turns
from semel.broker.waiting.deadlines import Deadlines
from semel.clock import Clock
from semel.coordinator.producer_ids import ProducerIds
from semel.errors import StorageError
from semel.log.directory import LogDirectory
from semel.log.disk import Disk
from semel.log.durability.checkpoints import MetaProperties
from semel.log.worker import Worker
from semel.metadata.cluster import ClusterMetadata
from semel.metadata.controller import Decision
from semel.metadata.embedded import EmbeddedStore
from semel.metadata.image import Broker as RegisteredBroker
from semel.metadata.image import BrokerRegistered, ClusterImage
from semel.metadata.producer_id_blocks import claim_producer_ids
from semel.metadata.store_files import identity_in
from semel.net.network import Network
from semel.types import INTERNAL_TOPICS, kafka_uuid

if TYPE_CHECKING:
    from semel.broker.coordinators.coordinators import Coordinators
    from semel.broker.metrics.metrics_page import MetricsPage

logger = logging.getLogger("semel.broker")

METADATA_FILE: Final = "metadata"

# How long a stopping broker takes at most, and how much of that for what: requests that are being served, clients that
# read their answers, the metadata. The rest is for the logs. The command ends its process a little later, so that ten
# seconds hold on a busy machine too.
STOP_SECONDS_MAX: Final = 7.0
STOP_TASKS_SECONDS_MAX: Final = 2.0
STOP_CONNECTIONS_SECONDS_MAX: Final = 2.0
STOP_METADATA_SECONDS_MAX: Final = 1.0


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Broker:
    """A broker of one node. ``start`` it, then ``stop`` or ``kill`` it; for another run make another one."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        listen: Address,
        advertise: Address | None = None,
        metrics_listen: Address | None = None,
        disk: Disk,
        network: Network,
        clock: Clock,
        random: Random,
        make_worker: Callable[[str], Worker],
        descriptors: Descriptors | None = None,
    ) -> None:
        guard_log_lines()
        self.config = config
        self._descriptors = descriptors or Descriptors()
        self.metrics = Metrics()
        self.cluster_id = ""
        self.address = listen
        self.metrics_address = metrics_listen
        self._advertise = advertise
        self._disk = disk
        self._network = network
        self._clock = clock
        self._random = random
        self._make_worker = make_worker
        self._closers: list[Callable[[], object]] = []  # What kill calls, in the reverse order of taking.
        self._running: _Running | None = None

    @property
    def node(self) -> Node:
        assert self._running is not None, "the broker is not running"
        return self._running.node

    async def start(self) -> None:
        """Serve. Raises StorageError or OSError in one sentence, and then nothing is left behind."""
        try:
            await self._start()
        except BaseException:
            self.kill()
            raise

    async def stop(self, *, timeout_s: float = STOP_SECONDS_MAX) -> bool:
        """Answer what was asked, then end. Returns whether that was clean: the next start has nothing to recover.

        It ends in time whatever clients and disks do. What the disk does not give until then is given up, as by
        ``kill``, and the next start recovers it.
        """
        running, self._running = self._running, None
        if running is None:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                clean = await self._bring_to_rest(running)
        except TimeoutError:
            logger.error("the broker could not be brought to rest within %g s; the next start recovers", timeout_s)
        except Exception as error:
            if isinstance(error, OSError | StorageError):
                logger.error("the broker could not be brought to rest: %s; the next start recovers", error)
            else:
                logger.exception("the broker could not be brought to rest; the next start recovers")
        else:
            self._closers.clear()
            if not clean:
                logger.error("not everything could be written; the next start recovers the rest")
            return clean
        self.kill()
        return False

    async def _bring_to_rest(self, running: _Running) -> bool:
        node, coordinators = running.node, running.node.active_coordinators
        running.maintenance.stop()
        # First of all: or clients that keep asking would keep a stopping broker busy for ever.
        running.server.stop_reading()
        if not await _in_time(running.dispatcher.drain(), STOP_TASKS_SECONDS_MAX):
            running.dispatcher.cancel()
        node.partitions.expire_fetches()
        if coordinators is not None:
            coordinators.release_members()
        await running.server.finish_connections(timeout_s=STOP_CONNECTIONS_SECONDS_MAX)
        node.record_checks.kill()
        if coordinators is not None:
            coordinators.stop()
        if running.page is not None:
            running.page.close()
        running.node.turns.stop()
        node.deadlines.close()
        # A metadata store that hangs does not keep the logs from coming to rest.
        clean = await _in_time(self._close_metadata(running), STOP_METADATA_SECONDS_MAX)
        if not clean:
            running.store_worker.kill()
            running.store.abandon()
        await node.settled()
        clean = await node.logs.close() and clean
        node.partitions.close()
        return clean

    async def _close_metadata(self, running: _Running) -> None:
        await running.node.producer_ids.close()
        await running.node.cluster.close()
        await running.store.close()
        running.store_worker.stop()

    def kill(self) -> None:
        """Drop everything where it stands, as ``kill -9`` would: nothing is flushed, no client is told."""
        self._running = None
        while self._closers:
            self._closers.pop()()

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        config = self.config
        (folder,) = config.log_dirs
        logs = LogDirectory(
            folder,
            disk=self._disk,
            clock=self._clock,
            loop=loop,
            make_worker=self._make_worker,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
            checkpoint_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
        )
        self._closers.append(logs.kill)
        own = MetaProperties(kafka_uuid(UUID(int=self._random.getrandbits(128), version=4)), config.node_id)
        metadata_path = f"{folder}/{METADATA_FILE}"
        properties = logs.acquire(
            own, in_metadata=lambda: identity_in(self._disk, metadata_path, node_id=config.node_id)
        )
        if properties.node_id != config.node_id:
            raise StorageError(
                f"{folder} belongs to node {properties.node_id} according to its meta.properties; node.id is "
                f"{config.node_id}. If that file is wrong, move it away: it is made again from the metadata"
            )
        self.cluster_id = properties.cluster_id

        store_worker = self._make_worker("semel-metadata")
        store = EmbeddedStore.open(self._disk, metadata_path, store_worker, give_room=logs.give_room)
        self._closers.append(store.abandon)
        self._closers.append(store_worker.kill)
        cluster = await ClusterMetadata.load(store, new_cluster_id=lambda: properties.cluster_id)
        if cluster.image.cluster_id != properties.cluster_id:
            raise StorageError(
                f"{folder} holds the metadata of cluster {cluster.image.cluster_id}, and its meta.properties says "
                f"{properties.cluster_id}. If that file is wrong, move it away: it is made again from the metadata"
            )
        altered = cluster.image.broker_configs
        config = config.altered(dynamic_default=altered.get(None, {}), dynamic=altered.get(config.node_id, {}))
        self._descriptors.check(cluster.image.partition_count)
        logs.load({topic.name: topic_logs(topic, config) for topic in cluster.image.topics.values()})

        node = Node(
            config=config,
            clock=self._clock,
            random=self._random,
            metrics=self.metrics,
            answers=AnswerCache(),
            features=Features.of_one_node(
                transaction_version=config.transaction_version, group_version=config.group_version
            ),
            cluster=cluster,
            logs=logs,
            partitions=Partitions(loop),
            deadlines=Deadlines(loop),
            sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, self._random),
            descriptors=self._descriptors,
            producer_ids=ProducerIds(lambda: claim_producer_ids(store, node_id=config.node_id)),
            turns=Turns(self._clock, loop),
            record_checks=RecordChecks(self._make_worker),
        )
        self._closers += [node.partitions.close, node.deadlines.close, node.record_checks.kill]
        hosting = PartitionLifecycle(node, loop)
        self._closers.append(hosting.close)
        hosting.open_all()
        cluster.watch(hosting.changed)
        node.make_coordinators = lambda: self._coordinators(node, loop)
        if _have_coordinators_to_do(node):
            node.coordinate()

        dispatcher = Dispatcher(node)
        server = Server(
            limits=lambda: _limits(node),
            serve=dispatcher.request,
            metrics=self.metrics,
            clock=self._clock,
            loop=loop,
            soon=node.turns.soon,
        )
        self._closers += [dispatcher.cancel, server.kill]
        self.address = self.address._replace(port=await server.listen(self._network, *self.address))
        await cluster.change(self._registration)
        measure(node, server)
        page = None
        if self.metrics_address is not None:
            from semel.broker.metrics.metrics_page import MetricsPage

            page = MetricsPage(self.metrics)
            node.turns.start(loop)
            self._closers += [page.close, node.turns.stop]
            port = await page.listen(self._network, *self.metrics_address)
            self.metrics_address = self.metrics_address._replace(port=port)
        maintenance = Maintenance(node, loop, self._make_worker)
        self._closers.append(maintenance.kill)
        maintenance.start()
        self._running = _Running(node, store, store_worker, dispatcher, server, maintenance, page)

    def _coordinators(self, node: Node, loop: asyncio.AbstractEventLoop) -> Coordinators:
        from semel.broker.coordinators.coordinators import (
            Coordinators,  # Not before they are needed: a start does without.
        )

        coordinators = Coordinators(node, loop)
        self._closers.append(coordinators.kill)
        return coordinators

    def _registration(self, image: ClusterImage) -> Decision[None]:
        host, port = self._advertise or self.address
        config = self.config
        broker = RegisteredBroker(config.node_id, host, port or self.address.port, config.broker_rack)
        return Decision((BrokerRegistered(broker),), ())


def _have_coordinators_to_do(node: Node) -> bool:
    """Whether there is something to load, or a transaction that was left open."""
    return any(
        partition.topic_partition.topic in INTERNAL_TOPICS or partition.log.producers.first_undecided_offset is not None
        for partition in node.partitions
    )


async def _in_time(work: Coroutine[Any, Any, None], timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            await work
    except TimeoutError:
        return False
    return True


class _Running(NamedTuple):
    node: Node
    store: EmbeddedStore
    store_worker: Worker
    dispatcher: Dispatcher
    server: Server
    maintenance: Maintenance
    page: MetricsPage | None


def _limits(node: Node) -> Limits:
    config = node.config
    connections_max, rule = config.max_connections, "max.connections"
    by_files = node.descriptors.connections_max(len(node.partitions))
    if by_files is not None and by_files < connections_max:
        connections_max, rule = by_files, "what partitions leave of the limit of open files (ulimit -n, LimitNOFILE)"
    return Limits(
        frame_bytes_max=config.socket_request_max_bytes,
        connections_max=connections_max,
        connections_rule=rule,
        connections_per_ip_max=config.max_connections_per_ip,
        idle_ms_max=config.connections_max_idle_ms if config.connections_max_idle_ms >= 0 else None,
        stalled_ms_max=config.connections_max_stalled_ms,
        arriving_bytes_max=config.queued_max_request_bytes,
        leaving_bytes_max=config.queued_max_response_bytes,
    )
