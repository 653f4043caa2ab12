"""What must hold of a cluster's metadata at every moment, and of what its brokers lead once there is peace.

1. A registration begins with leader epochs that no registration of the same broker before it had.
2. A registration lasts as long as the session of the process that made it.
3. No block of producer ids is claimed twice.
4. In peace each broker leads what the store says, under the leader epochs that the store says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from semel.metadata import paths
from semel.metadata.image import Topic
from semel.metadata.zookeeper.session import Node
from semel.testing.zookeeper.ensemble import Transaction

if TYPE_CHECKING:
    from tests.simulation.served_cluster import ServedCluster

Epochs: TypeAlias = dict[tuple[UUID, int], int]
"""Leader epochs, by topic id and partition."""


class ClusterLaws:
    def __init__(self, cluster: ServedCluster) -> None:
        self._cluster = cluster
        self._broken: list[str] = []
        self._registered: dict[int, int] = {}
        self._epochs: dict[int, Epochs] = {}
        self._last_producer_id = -1
        cluster.ensemble.agreed.append(self._agreed)

    def check(self) -> None:
        """There is peace, and has been for a while."""
        assert not self._broken, "; ".join(self._broken)
        for node_id, member in self._cluster.brokers.items():
            led = {
                (partition.log.topic_id, partition.topic_partition.partition): partition.leader_epoch
                for partition in member.broker.node.partitions
            }
            assert led == self._epochs_of(node_id), f"law 4: broker {node_id} leads {led}"

    def _agreed(self, transaction: Transaction) -> None:
        for path, node in transaction.changes:
            folder, _, name = path.rpartition("/")
            if folder == paths.BROKERS and node is not None:
                self._has_registered(int(name), node)
            elif folder == paths.BROKERS:
                self._has_left(int(name))
            elif folder == paths.TOPICS and node is not None:
                self._is_led(paths.decode_topic(name, node.data))
            elif path == paths.LATEST_PRODUCER_ID_BLOCK and node is not None:
                self._has_claimed(node)

    def _has_registered(self, node_id: int, node: Node) -> None:
        before, now = self._epochs.get(node_id, {}), self._epochs_of(node_id)
        self._registered[node_id], self._epochs[node_id] = node.mzxid, now
        same = [partition for partition, epoch in now.items() if epoch <= before.get(partition, -1)]
        if same:
            self._broken.append(f"law 1: broker {node_id} has registered again with the same leader epochs of {same}")

    def _is_led(self, topic: Topic) -> None:
        """New partitions are led at once, unless their broker is just joining again; what is altered, from the next
        registration on."""
        for index, state in enumerate(topic.partitions):
            if state.leader is not None and self._leads(state.leader):
                self._epochs[state.leader].setdefault((topic.id, index), state.leader_epoch)

    def _has_left(self, node_id: int) -> None:
        member = self._cluster.brokers[node_id]
        if self._leads(node_id) and self._cluster.is_alive(self._cluster.session_of(member)):
            self._broken.append(f"law 2: the registration of broker {node_id} is gone and its session is not")

    def _leads(self, node_id: int) -> bool:
        """Whether the broker is a member by the registration that the store has."""
        registered = self._registered.get(node_id)
        return registered is not None and self._cluster.brokers[node_id].is_member_under(registered)

    def _has_claimed(self, node: Node) -> None:
        block = json.loads(node.data)
        if int(block["block_start"]) <= self._last_producer_id:
            self._broken.append(f"law 3: {block} after {self._last_producer_id}")
        self._last_producer_id = int(block["block_end"])

    def _epochs_of(self, node_id: int) -> Epochs:
        return {
            (topic.id, index): state.leader_epoch
            for topic in self._topics()
            for index, state in enumerate(topic.partitions)
            if state.leader == node_id
        }

    def _topics(self) -> Iterator[Topic]:
        tree = self._cluster.ensemble.tree
        for name in tree.children(paths.TOPICS):
            yield paths.decode_topic(name, tree.nodes[f"{paths.TOPICS}/{name}"].data)
