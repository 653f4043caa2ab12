"""The role of this broker for each partition that it has a replica of: leader, follower, or neither for now.

``PartitionLifecycle`` derives the roles from the image, and ``Replicas`` starts and stops the copying. A partition
whose log is being truncated gets no other role before that has ended (``on_changed``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from semel.broker.cluster.peers import Peers
from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.broker.replication.copier import CopiedPartition, Copier
from semel.broker.replication.elections import Elections
from semel.broker.replication.follower_sessions import FollowerSessions
from semel.broker.replication.in_sync_changes import InSyncChanges
from semel.log.partition_log import PartitionLog
from semel.metadata.image import PartitionState
from semel.replication.replica_set import ReplicaSet
from semel.types import TopicPartition


class Replicas:
    """The replicas of this broker in a cluster of several: its copiers, its followers' sessions, and elections."""

    def __init__(self, node: Node, peers: Peers, loop: asyncio.AbstractEventLoop, random: Random) -> None:
        self._node = node
        self._peers = peers
        self._loop = loop
        self.sessions = FollowerSessions(node, loop, random=random)
        self.in_sync = InSyncChanges(node, loop)
        self.elections = Elections(node, loop)
        self.sessions.on_progress = self.in_sync.look_at
        # A broker that leads nothing gets no requests: only the loss of its own connections shows that it is gone.
        self.sessions.on_lost = peers.look_for
        self.on_changed: Callable[[TopicPartition], None] = _ignored
        """Called when a truncation has ended of a log that was no longer followed: it can get another role."""
        self._copiers: dict[int, Copier] = {}
        self._followed: dict[TopicPartition, CopiedPartition] = {}
        self._changing: dict[TopicPartition, CopiedPartition] = {}
        self._unserved: dict[CopiedPartition, None] = {}  # No leader has answered for them in this term yet.
        self._awaiting_served: list[asyncio.Future[None]] = []
        self._is_started = False
        peers.on_refused = self.elections.refused
        node.partitions.on_add.append(self._leads_now)
        node.partitions.on_offline = lambda partition: self.in_sync.give_up(partition.topic_partition)

    def start(self) -> None:
        """Begin elections and changes of in-sync sets. Called when this broker has become a member."""
        self._is_started = True
        self.in_sync.start()
        self.elections.begin()

    def close(self) -> None:
        self.elections.close()
        self.in_sync.close()
        for copier in self._copiers.values():
            copier.close()
        self._followed.clear()
        self.sessions.close()

    # Leading

    def replica_set(self, log: PartitionLog, state: PartitionState) -> ReplicaSet | None:
        """Return the replica set for a term that begins now; ``None`` if the partition has one replica."""
        if len(state.replicas) == 1:
            return None
        return ReplicaSet(
            node_id=self._node.config.node_id,
            replicas=state.replicas,
            isr=state.isr,
            epoch_start_offset=log.log_end_offset,
            log_end_offset=log.log_end_offset,
            durable_offset=log.durable_offset,
            high_watermark=log.high_watermark,
            min_insync_replicas=log.config.min_insync_replicas,
        )

    def _leads_now(self, partition: Partition) -> None:
        """Start the coordinators if this broker now leads a partition of an internal topic or with open transactions.

        They deliver the markers of decided transactions, and end transactions that no coordinator knows.
        """
        node = self._node
        if self._is_started and node.active_coordinators is None and partition.concerns_coordinators:
            node.coordinate()

    # Following

    def is_changing(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._changing

    def follows(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._followed

    @property
    def followed_count(self) -> int:
        return len(self._followed)

    def follow(self, log: PartitionLog, state: PartitionState) -> None:
        """Copy the partition from the leader that the image names, under its leader epoch."""
        leader = state.leader
        known = self._followed.get(log.topic_partition)
        if known is not None:
            assert known.copier is not None
            if known.leader_epoch == state.leader_epoch and known.copier.leader == leader and known.log is log:
                return
            self.unfollow(log.topic_partition)
        if log.offline is not None and self._node.config.node_id in state.isr:
            # The leader has taken this broker back by a Fetch that was sent before the log went offline.
            self.in_sync.give_up(log.topic_partition)
        if leader is None or leader == self._node.config.node_id or log.offline is not None:
            return
        copier = self._copiers.get(leader)
        if copier is None:
            copier = self._copiers[leader] = Copier(
                self._node,
                self._peers,
                self._loop,
                leader,
                served=self._served,
                failed=self._failed,
                changing=self._changed,
            )
        copied = self._followed[log.topic_partition] = CopiedPartition(log, state.leader_epoch)
        self._unserved[copied] = None
        copier.follow(copied)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        copied = self._followed.pop(topic_partition, None)
        if copied is not None:
            if copied.copier is not None:
                copied.copier.unfollow(copied)
            self._served(copied)

    async def wait_until_served(self) -> None:
        """Wait until a leader has answered, in its current term, for each partition that is followed here."""
        if self._unserved:
            waiting: asyncio.Future[None] = self._loop.create_future()
            self._awaiting_served.append(waiting)
            await waiting

    def _served(self, copied: CopiedPartition) -> None:
        self._unserved.pop(copied, None)
        if not self._unserved:
            waiting, self._awaiting_served = self._awaiting_served, []
            for each in waiting:
                if not each.done():
                    each.set_result(None)

    def unfollow_all(self) -> None:
        for topic_partition in list(self._followed):
            self.unfollow(topic_partition)

    def _failed(self, copied: CopiedPartition) -> None:
        """Leave the in-sync set of a followed partition whose log is offline; its copying has ended."""
        self._followed.pop(copied.log.topic_partition, None)
        self._served(copied)
        self.in_sync.give_up(copied.log.topic_partition)

    def _changed(self, copied: CopiedPartition) -> None:
        """Called when a truncation of a followed partition's log has begun or ended."""
        topic_partition = copied.log.topic_partition
        if copied.is_changing:
            self._changing[topic_partition] = copied
        elif self._changing.get(topic_partition) is copied:
            del self._changing[topic_partition]
            if copied.is_over:
                self.on_changed(topic_partition)


def _ignored(topic_partition: TopicPartition) -> None:
    """The ``on_changed`` until ``PartitionLifecycle`` sets its own."""
