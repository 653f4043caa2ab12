"""The membership of this broker in the cluster: it joins, and joins again after its session was lost.

    joining ----> member ----(session lost, or registration gone)----> expelled ----> joining ...

The law: while this broker is not a member it leads nothing, and every membership begins with leader epochs that no
earlier membership had. Two processes cannot be the same broker, because one of them has locked the data directory; a
commit could not prevent that. ``docs/design/cluster.md`` describes the state that a crash leaves at each step.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from semel.broker.cluster.peers import Peers
from semel.broker.cluster.shared_metadata import node_id_taken_message
from semel.broker.node import Node
from semel.broker.partitions.partition_lifecycle import PartitionLifecycle
from semel.errors import StorageError
from semel.metadata.controller import MetadataDecision
from semel.metadata.election import PARTITIONS_PER_COMMIT, leave_isr, resign
from semel.metadata.image import (
    Broker,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ClusterImage,
    ControllerChanged,
    Topic,
    TopicAltered,
)
from semel.metadata.zookeeper.session import SessionState
from semel.metadata.zookeeper.store import ZooKeeperStore
from semel.types import TopicPartition

logger = logging.getLogger("semel.broker")

REJOIN_PAUSE_S: Final = 1.0
# The part of the time for a stop that the resignation may take.
RESIGN_SECONDS_MAX: Final = 1.5


class _SessionLost(StorageError):
    """The session with ZooKeeper was lost, and the registration with it."""


class Membership:
    """The membership of this broker: it registers, leads while it is registered, and resigns when it stops.

    ``registration`` returns the registration to commit; its epoch is known after the commit. ``lost`` are the
    partitions whose log here may lack acknowledged records. The broker leaves their in-sync sets before it registers.
    """

    def __init__(
        self,
        node: Node,
        store: ZooKeeperStore,
        lifecycle: PartitionLifecycle,
        peers: Peers,
        registration: Callable[[], Broker],
        lost: frozenset[TopicPartition] = frozenset(),
    ) -> None:
        self._node = node
        self._node_id = node.config.node_id
        self._lifecycle = lifecycle
        self._peers = peers
        self._registration = registration
        self._lost = lost
        self._epoch: int | None = None
        self._is_connected = True
        self._losses = 0  # How many sessions were lost.
        self._is_resigning = False
        self._is_closed = False
        self._working: asyncio.Task[None] | None = None
        self._wakened = asyncio.Event()
        node.is_member = False
        store.watch_session(self._session_changed)
        node.cluster.watch(self._changed)

    @property
    def is_connected(self) -> bool:
        """Whether this broker's session with ZooKeeper is neither suspended nor lost."""
        return self._is_connected

    async def join(self) -> None:
        """Become a member. Raises StorageError if this node id is taken, or if the metadata store does not answer."""
        while True:
            try:
                await self._join()
                break
            except _SessionLost as error:
                logger.warning("this broker begins to join again: %s", error)
        self._working = asyncio.get_running_loop().create_task(self._stay())

    async def resign(self) -> None:
        """Give all leaderships to other in-sync replicas, and wait until those lead (Kafka's controlled shutdown).

        Partitions without another in-sync replica stay here. Returns after ``RESIGN_SECONDS_MAX`` at most, and raises
        nothing if the metadata store fails.
        """
        if self._epoch is None or self._node.replicas is None:
            return
        cluster = self._node.cluster
        try:
            async with asyncio.timeout(RESIGN_SECONDS_MAX):
                self._is_resigning = True
                while (await cluster.change(self._resign)).changes:
                    pass
                await self._node.replicas.wait_until_served()
        except TimeoutError:
            logger.warning("not all partitions were taken over within %g s", RESIGN_SECONDS_MAX)
        except StorageError as error:
            logger.warning("the partitions that this broker leads could not be given to others: %s", error)

    def _resign(self, image: ClusterImage) -> MetadataDecision[None]:
        """Decide one commit of the resignation. The last one removes the registration, so that no leader adds this
        broker to an in-sync set again."""
        changes = self._fitting(resign(image, self._node_id, partitions_max=PARTITIONS_PER_COMMIT))
        if not changes and self._is_registered(image):
            changes = (BrokerUnregistered(self._node_id),)
        return MetadataDecision(changes, ())

    async def leave(self) -> None:
        """End the membership. A registration that is still there ends with the session."""
        self.kill()
        if self._working is not None:
            await asyncio.gather(self._working, return_exceptions=True)

    def kill(self) -> None:
        self._is_closed = True
        if self._working is not None:
            self._working.cancel()

    # Joining

    async def _join(self) -> None:
        cluster = self._node.cluster
        await cluster.refresh()
        self._refuse_stranger(cluster.image)
        if self._lost:
            await self._leave_in_sync_sets()
        try:
            await self._node.logs.losses_reported()
        except OSError as error:
            logger.warning("the next start leaves the in-sync sets again: %s", error)
        # Until the registration no broker leads under these epochs, so it does no harm if only some commits are made.
        raised: set[str] = set()
        while changes := (await cluster.change(lambda image: self._raise_epochs(image, raised))).changes:
            raised.update(change.topic.name for change in changes if isinstance(change, TopicAltered))
        losses = self._losses
        await cluster.change(self._register)
        registered = cluster.image.brokers.get(self._node_id)
        if registered is None or losses != self._losses:
            raise _SessionLost("the session with ZooKeeper was lost meanwhile")
        self._epoch = self._peers.broker_epoch = registered.epoch
        self._node.is_member = True
        self._lifecycle.lead_all()
        await self._node.settled()
        await cluster.change(self._control_if_no_broker_does)

    async def _leave_in_sync_sets(self) -> None:
        """Leave the in-sync sets of ``lost``. The old registration is removed before that, because a Fetch under it
        could add this broker to a set again."""
        cluster = self._node.cluster

        def unregister(image: ClusterImage) -> MetadataDecision[None]:
            known = image.brokers.get(self._node_id)
            return MetadataDecision(() if known is None else (BrokerUnregistered(self._node_id),), ())

        def leave(image: ClusterImage) -> MetadataDecision[None]:
            lost = self._lost
            changes = leave_isr(
                image,
                self._node_id,
                lambda topic, index: TopicPartition(topic, index) not in lost,
                partitions_max=PARTITIONS_PER_COMMIT,
            )
            return MetadataDecision(self._fitting(changes), ())

        await cluster.change(unregister)
        while (await cluster.change(leave)).changes:
            pass
        logger.warning(
            "this broker may lack records of %d partitions that others have, and copies them before it leads them",
            len(self._lost),
        )
        self._lost = frozenset()

    def _refuse_stranger(self, image: ClusterImage) -> None:
        known, own = image.brokers.get(self._node_id), self._registration()
        if known is not None and known.directory_id != own.directory_id:
            raise StorageError(node_id_taken_message(known, own.directory_id))

    def _raise_epochs(self, image: ClusterImage, raised: set[str]) -> MetadataDecision[None]:
        """Raise the leader epochs of the partitions that this broker leads, of as many topics as fit into a commit."""
        changes: list[Change] = []
        room = PARTITIONS_PER_COMMIT
        for topic in image.topics.values():
            if topic.name in raised or all(state.leader != self._node_id for state in topic.partitions):
                continue
            room -= len(topic.partitions)
            if room < 0 and changes:
                break
            changes.append(TopicAltered(_with_raised_epochs(topic, self._node_id)))
        return MetadataDecision(self._fitting(changes), ())

    def _fitting(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        return self._node.cluster.fitting(changes)

    def _register(self, image: ClusterImage) -> MetadataDecision[None]:
        self._refuse_stranger(image)
        return MetadataDecision((BrokerRegistered(self._registration()),), ())

    def _control_if_no_broker_does(self, image: ClusterImage) -> MetadataDecision[None]:
        if image.controller_id in image.brokers or not self._is_registered(image):
            return MetadataDecision((), ())
        return MetadataDecision((ControllerChanged(self._node_id),), ())

    # Staying

    async def _stay(self) -> None:
        """Join again whenever the membership has ended, and become the controller if there is none."""
        cluster = self._node.cluster
        while not self._is_closed:
            await self._wakened.wait()
            self._wakened.clear()
            try:
                if self._epoch is None and self._is_connected:
                    await self._join()
                    logger.info("this broker is a member again, with broker epoch %s", self._epoch)
                elif cluster.image.controller_id not in cluster.image.brokers:
                    await cluster.change(self._control_if_no_broker_does)
            except StorageError as error:
                logger.error("this broker cannot join the cluster, and tries again: %s", error)
                await asyncio.sleep(REJOIN_PAUSE_S)
                self._wakened.set()

    def _session_changed(self, state: SessionState) -> None:
        self._is_connected = state is SessionState.CONNECTED
        if state is SessionState.LOST:
            self._losses += 1
            self._expel("its session with ZooKeeper has expired")
        self._wakened.set()

    def _changed(self, before: ClusterImage, after: ClusterImage, changes: Sequence[Change]) -> None:
        for change in changes:
            if isinstance(change, BrokerRegistered | BrokerUnregistered | ControllerChanged):
                if self._epoch is not None and not self._is_registered(after) and not self._is_resigning:
                    self._expel("its registration is gone, or another process has taken it")
                self._wakened.set()
                return

    def _is_registered(self, image: ClusterImage) -> bool:
        known = image.brokers.get(self._node_id)
        return known is not None and known.epoch == self._epoch

    def _expel(self, reason: str) -> None:
        if self._epoch is None:
            return
        if not self._is_closed:
            logger.warning("this broker is no member of the cluster any more, and leads nothing: %s", reason)
        self._epoch = None
        self._node.is_member = False
        self._lifecycle.resign_all()


def _with_raised_epochs(topic: Topic, node_id: int) -> Topic:
    return replace(
        topic,
        partitions=tuple(
            replace(state, leader_epoch=state.leader_epoch + 1) if state.leader == node_id else state
            for state in topic.partitions
        ),
    )
