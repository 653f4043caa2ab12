"""One broker: creates all its parts, and starts, stops and kills them.

This is the only module that knows all the parts. Disk, network, clock, randomness and worker threads are passed in, so
the same broker runs on a machine and inside a simulation.

Starting: lock the data directory, read the metadata, open the logs, load the coordinators, listen. Stopping: accept no
more requests, answer those that were received, sync and close the logs. Killing: close everything at once, and flush
nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from semel.broker.config.broker_config import BrokerConfig, FlushPolicy
from semel.broker.config.features import BrokerFeatures
from semel.broker.config.ignored_settings import note_ignored
from semel.broker.config.logger_levels import restore
from semel.broker.endpoints import Endpoints, server_of
from semel.broker.fetch.fetch_sessions import FetchSessions
from semel.broker.log_lines import guard_log_lines
from semel.broker.metrics.broker_metrics import measure
from semel.broker.metrics.metrics import Metrics
from semel.broker.network.answer_cache import AnswerCache
from semel.broker.network.descriptors import Descriptors
from semel.broker.network.server import Server
from semel.broker.node import Node
from semel.broker.opened_metadata import OpenedMetadata, SharedMetadata, open_own_metadata, open_shared_metadata
from semel.broker.partitions.maintenance import Maintenance
from semel.broker.partitions.partition_lifecycle import PartitionLifecycle, lost_replicas, topic_logs
from semel.broker.partitions.partitions import LedPartitions
from semel.broker.produce.record_checks import RecordChecks
from semel.broker.requests.dispatch import Dispatcher
from semel.broker.turns import Turns
from semel.broker.waiting.deadlines import Deadlines
from semel.clock import Clock
from semel.coordinator.producer_ids import ProducerIds
from semel.errors import StorageError
from semel.log.directory import LogDirectory
from semel.log.disk import Disk
from semel.log.worker import Worker
from semel.metadata.controller import MetadataDecision
from semel.metadata.image import Broker as RegisteredBroker
from semel.metadata.image import BrokerRegistered, ClusterImage
from semel.metadata.producer_id_blocks import claim_producer_ids
from semel.net.network import Network
from semel.types import Address, TopicPartition

if TYPE_CHECKING:
    from semel.broker.cluster.membership import Membership
    from semel.broker.cluster.shared_metadata import OpenSession
    from semel.broker.coordinators.coordinators import Coordinators
    from semel.broker.metrics.metrics_page import MetricsPage
    from semel.broker.security.audit import Audit

logger = logging.getLogger("semel.broker")

# How long a broker takes at most to stop, and how much of that is for each step: requests that are being served,
# clients that read their responses, the audit log, the metadata. The rest is for the logs. The command ends its process
# a little later, so that a stop takes at most ten seconds on a busy machine too.
STOP_SECONDS_MAX: Final = 7.0
STOP_TASKS_SECONDS_MAX: Final = 2.0
STOP_CONNECTIONS_SECONDS_MAX: Final = 2.0
STOP_AUDIT_SECONDS_MAX: Final = 0.5
STOP_METADATA_SECONDS_MAX: Final = 1.0


class Broker:
    """A broker. Call ``start``, then ``stop`` or ``kill``; to run again, create another ``Broker``.

    It listens at the addresses of the setting ``listeners``; without this setting at ``listen``, as the listener
    PLAINTEXT, and then ``advertise`` is the address that clients receive. With ``zookeeper.connect`` it is one broker
    of several: ``inter_broker_listen`` is the address for the other brokers, and ``open_session`` connects to the
    metadata that they share. With ``accept_loss`` the broker also starts on an empty data directory that should contain
    partitions.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        listen: Address | None = None,
        advertise: Address | None = None,
        metrics_listen: Address | None = None,
        inter_broker_listen: Address | None = None,
        open_session: OpenSession | None = None,
        accept_loss: bool = False,
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
        self.endpoints = Endpoints(
            config,
            listen=listen,
            advertise=advertise,
            inter_broker_listen=inter_broker_listen,
            network=network,
            make_worker=make_worker,
        )
        self.metrics_address = metrics_listen
        self._open_session = open_session
        self._accept_loss = accept_loss
        self._disk = disk
        self._network = network
        self._clock = clock
        self._random = random
        self._make_worker = make_worker
        self._closers: list[Callable[[], object]] = []  # Called by kill, the last one first.
        self._running: _Running | None = None

    @property
    def address(self) -> Address:
        """The address of the first listener for clients; its port is known once the broker is running."""
        return self.endpoints.address

    @property
    def is_running(self) -> bool:
        """Whether the broker serves requests: False while it starts or stops."""
        return self._running is not None

    @property
    def node(self) -> Node:
        assert self._running is not None, "the broker is not running"
        return self._running.node

    async def start(self) -> None:
        """Start to serve. Raises StorageError or OSError, whose message is one sentence, after closing all parts that
        had been started."""
        try:
            await self._start()
        except BaseException:
            self.kill()
            raise

    async def stop(self, *, timeout_s: float = STOP_SECONDS_MAX) -> bool:
        """Answer the received requests, then stop. Returns whether the stop was clean: the next start recovers nothing.

        Returns within ``timeout_s`` whatever clients and disks do. If the disk has not finished by then, the broker is
        killed as by ``kill``, and the next start recovers.
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
        if running.membership is not None:
            await running.membership.resign()
        # Before the requests are drained: a client that keeps sending requests must not delay the stop.
        running.server.stop_reading()
        if not await _in_time(running.dispatcher.drain(), STOP_TASKS_SECONDS_MAX):
            running.dispatcher.cancel()
        if running.membership is not None:
            await running.membership.leave()
        node.partitions.expire_fetches()
        if coordinators is not None:
            coordinators.release_members()
        await running.server.finish_connections(timeout_s=STOP_CONNECTIONS_SECONDS_MAX)
        node.record_checks.kill()
        if node.audit is not None and not await _in_time(node.audit.close(), STOP_AUDIT_SECONDS_MAX):
            node.audit.kill()
        self.endpoints.close_logins()
        if coordinators is not None:
            coordinators.stop()
        if node.replicas is not None:
            node.replicas.close()
        if node.peers is not None:
            node.peers.close()
        if running.inter_broker_server is not None:
            running.inter_broker_server.kill()
        if running.page is not None:
            running.page.close()
        running.node.turns.stop()
        node.deadlines.close()
        # A metadata store that hangs must not prevent the logs from being closed.
        clean = await _in_time(self._close_metadata(running), STOP_METADATA_SECONDS_MAX)
        if not clean:
            running.metadata.abandon()
        await node.settled()
        clean = await node.logs.close() and clean
        node.partitions.close()
        restore(node.logger_levels_before)
        return clean

    async def _close_metadata(self, running: _Running) -> None:
        await running.node.producer_ids.close()
        await running.node.cluster.close()
        await running.metadata.store.close()
        if running.metadata.worker is not None:
            running.metadata.worker.stop()

    def kill(self) -> None:
        """Stop at once, as ``kill -9`` would: nothing is flushed, and no request is answered."""
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
            is_unsynced=config.flush is FlushPolicy.OS,
        )
        self._closers.append(logs.kill)
        metadata = await self._open_metadata(logs)
        cluster = metadata.cluster
        self.cluster_id = cluster.image.cluster_id
        config = config.with_dynamic_configs(cluster.image.broker_configs)
        note_ignored(config.sources.effective())
        self._descriptors.check(cluster.image.partition_count)
        logs.load({topic.name: topic_logs(topic, config) for topic in cluster.image.topics.values()})
        lost: frozenset[TopicPartition] = frozenset()
        if isinstance(metadata, SharedMetadata):
            lost = lost_replicas(cluster.image, logs, config)

        node = Node(
            config=config,
            clock=self._clock,
            random=self._random,
            metrics=self.metrics,
            answers=AnswerCache(),
            features=BrokerFeatures.finalized_at(metadata.feature_levels),
            cluster=cluster,
            logs=logs,
            partitions=LedPartitions(loop),
            deadlines=Deadlines(loop),
            sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, self._random),
            descriptors=self._descriptors,
            producer_ids=ProducerIds(lambda: claim_producer_ids(metadata.store, node_id=config.node_id)),
            turns=Turns(self._clock, loop),
            record_checks=RecordChecks(self._make_worker),
        )
        self._closers += [node.partitions.close, node.deadlines.close, node.record_checks.kill]
        self._closers.append(partial(restore, node.logger_levels_before))
        if config.audit_log_path is not None:
            node.audit = self._open_audit(config.audit_log_path, config)
        if config.authorizer_class_name:
            from semel.broker.requests.access.authorization import authorize

            authorize(node)
        if isinstance(metadata, SharedMetadata):
            self._create_peers_and_replicas(node, loop)
        lifecycle = PartitionLifecycle(node, loop)
        self._closers.append(lifecycle.close)
        node.make_coordinators = lambda: self._coordinators(node, loop)
        membership = None
        if isinstance(metadata, SharedMetadata):
            membership = self._membership(node, metadata, lifecycle, lost)
        lifecycle.open_all()
        cluster.watch(lifecycle.changed)
        cluster.watch(lambda before, after, _: None if before.security is after.security else node.load_quotas())
        node.load_quotas()
        if _have_coordinators_to_do(node):
            node.coordinate()

        dispatcher = Dispatcher(node)
        server = self._server(node, dispatcher, loop)
        await self.endpoints.listen(node, dispatcher, server)
        inter_broker_server = None
        if membership is None:
            await cluster.change(self._register)
        else:
            from semel.broker.requests.inter_broker_dispatch import InterBrokerDispatcher

            of_brokers = InterBrokerDispatcher(node)
            inter_broker_server = self._server(node, of_brokers, loop)
            assert node.replicas is not None
            inter_broker_server.on_closed = node.replicas.sessions.connection_closed
            await self.endpoints.listen_to_brokers(node, of_brokers, inter_broker_server)
            await membership.join()
            self._begin_replication(node, membership)
            if node.active_coordinators is None and _have_coordinators_to_do(node):
                node.coordinate()
        measure(node, server)
        page = None
        if self.metrics_address is not None:
            from semel.broker.metrics.metrics_page import MetricsPage

            page = MetricsPage(self.metrics, is_serving=lambda: self.is_running)
            node.turns.start(loop)
            self._closers += [page.close, node.turns.stop]
            port = await page.listen(self._network, *self.metrics_address)
            self.metrics_address = self.metrics_address._replace(port=port)
        maintenance = Maintenance(node, loop, self._make_worker)
        self._closers.append(maintenance.kill)
        maintenance.start()
        self._running = _Running(node, metadata, membership, dispatcher, server, inter_broker_server, maintenance, page)

    def _server(self, node: Node, dispatcher: Dispatcher, loop: asyncio.AbstractEventLoop) -> Server:
        server = server_of(node, dispatcher, loop)
        self._closers += [dispatcher.cancel, server.kill, self.endpoints.close_logins]
        return server

    async def _open_metadata(self, logs: LogDirectory) -> OpenedMetadata:
        if self.config.zookeeper_connect is None:
            return await open_own_metadata(
                self.config,
                logs,
                disk=self._disk,
                random=self._random,
                make_worker=self._make_worker,
                closers=self._closers,
            )
        return await open_shared_metadata(
            self.config,
            logs,
            disk=self._disk,
            random=self._random,
            open_session=self._open_session,
            accept_loss=self._accept_loss,
            closers=self._closers,
        )

    def _open_audit(self, path: str, config: BrokerConfig) -> Audit:
        from semel.broker.security.audit import Audit
        from semel.broker.security.audit_file import AuditFile

        file = AuditFile(
            self._disk, path, size_bytes_max=config.audit_log_max_bytes, files_max=config.audit_log_max_files
        )
        file.open()
        audit = Audit(file, self._make_worker("semel-audit"), self._clock)
        self._closers.append(audit.kill)
        return audit

    # The other brokers

    def _create_peers_and_replicas(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        """Create the connections to other brokers and the replicas, before this broker is a member."""
        from semel.broker.cluster.peers import Peers
        from semel.broker.replication.replicas import Replicas

        network, login = self.endpoints.inter_broker_network_and_login(self._clock, self._random)
        peers = node.peers = Peers(
            self.config.node_id, network=network, loop=loop, brokers=lambda: node.image.brokers, login=login
        )
        node.cluster.watch(peers.changed)
        node.replicas = Replicas(node, peers, loop, self._random)
        self._closers += [peers.close, node.replicas.close]

    def _membership(
        self,
        node: Node,
        metadata: SharedMetadata,
        lifecycle: PartitionLifecycle,
        lost: frozenset[TopicPartition],
    ) -> Membership:
        from semel.broker.cluster.membership import Membership

        def registration() -> RegisteredBroker:
            own = self.endpoints.registration()
            inter_broker = self.endpoints.inter_broker_endpoint(own)
            return replace(own, inter_broker=inter_broker, directory_id=metadata.directory_id)

        assert node.peers is not None
        membership = Membership(node, metadata.store, lifecycle, node.peers, registration, lost)
        self._closers.append(membership.kill)
        return membership

    def _begin_replication(self, node: Node, membership: Membership) -> None:
        """Start replication and its metrics. Called once this broker is a member."""
        from semel.broker.replication.replication_metrics import measure_replicas

        assert node.replicas is not None
        measure_replicas(node, node.replicas, membership)
        node.replicas.start()

    def _coordinators(self, node: Node, loop: asyncio.AbstractEventLoop) -> Coordinators:
        from semel.broker.coordinators.coordinators import (
            Coordinators,  # Imported when needed, so that a start is faster.
        )

        coordinators = Coordinators(node, loop)
        self._closers.append(coordinators.kill)
        return coordinators

    def _register(self, image: ClusterImage) -> MetadataDecision[None]:
        return MetadataDecision((BrokerRegistered(self.endpoints.registration()),), ())


def _have_coordinators_to_do(node: Node) -> bool:
    """Whether a partition of an internal topic is led here, or one with a transaction that was left open."""
    return any(partition.concerns_coordinators for partition in node.partitions)


async def _in_time(work: Coroutine[Any, Any, None], timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            await work
    except TimeoutError:
        return False
    return True


class _Running(NamedTuple):
    node: Node
    metadata: OpenedMetadata
    membership: Membership | None
    dispatcher: Dispatcher
    server: Server
    inter_broker_server: Server | None
    maintenance: Maintenance
    page: MetricsPage | None
