"""What must hold whenever the store changes a leader or an in-sync set, seen in the logs of the brokers themselves.

1. A broker that joins an in-sync set is registered, and has on its disk all that is committed, and all that its leader
   had when the term began.
2. A leader comes from the in-sync set, and its log has all that was ever committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from semel.broker.partitions.partitions import Partition
from semel.log.partition_log import PartitionLog
from semel.metadata import paths
from semel.metadata.image import PartitionState, Topic
from semel.testing.zookeeper.ensemble import Transaction
from semel.types import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.served_cluster import ServedCluster


class InSyncLaws:
    def __init__(self, cluster: ServedCluster) -> None:
        self._cluster = cluster
        self._topics: dict[str, Topic] = {}
        self._committed: dict[tuple[UUID, int], int] = {}
        self._broken: list[str] = []
        cluster.ensemble.agreed.append(self._agreed)

    def check(self) -> None:
        assert not self._broken, "; ".join(self._broken)

    def _agreed(self, transaction: Transaction) -> None:
        for path, node in transaction.changes:
            folder, _, name = path.rpartition("/")
            if folder == paths.TOPICS and node is not None:
                topic = paths.decode_topic(name, node.data)
                before, self._topics[name] = self._topics.get(name), topic
                if before is not None and before.id == topic.id:
                    for index, (old, new) in enumerate(zip(before.partitions, topic.partitions, strict=False)):
                        if len(new.replicas) > 1:
                            self._changed(topic, index, old, new)

    def _changed(self, topic: Topic, index: int, old: PartitionState, new: PartitionState) -> None:
        partition = TopicPartition(topic.name, index)
        for joins in set(new.isr) - set(old.isr):
            self._joined(topic, partition, new, joins)
        if new.leader is not None and new.leader != old.leader:
            if new.leader not in old.isr:
                self._broken.append(f"law 2: {partition} is led by {new.leader}, and {old.isr} are in sync")
            self._elected(topic, partition, new.leader)

    def _joined(self, topic: Topic, partition: TopicPartition, state: PartitionState, joins: int) -> None:
        if paths.broker_path(joins) not in self._cluster.ensemble.tree.nodes:
            self._broken.append(f"law 1: broker {joins} is in sync with {partition}, and not registered")
        leading = None if state.leader is None else self._partition(state.leader, partition)
        if not self._cluster.brokers[joins].is_up or leading is None or leading.replicas is None:
            return
        if leading.leader_epoch == state.leader_epoch:
            log = self._log(joins, topic, partition)
            least = max(leading.log.high_watermark, leading.replicas._epoch_start_offset)
            if log is None or log.durable_offset < least:
                found = "no log" if log is None else f"a log up to {log.durable_offset}"
                self._broken.append(f"law 1: broker {joins} joins {partition} with {found}; it needs {least}")

    def _elected(self, topic: Topic, partition: TopicPartition, leader: int) -> None:
        key = (topic.id, partition.partition)
        for node_id in self._cluster.brokers:
            log = self._log(node_id, topic, partition)
            if log is not None:
                self._committed[key] = max(self._committed.get(key, 0), log.high_watermark)
        if self._cluster.brokers[leader].is_up:
            log = self._log(leader, topic, partition)
            end = 0 if log is None else log.log_end_offset
            if end < self._committed[key]:
                self._broken.append(
                    f"law 2: broker {leader} is to lead {partition} with a log up to {end}; "
                    f"up to {self._committed[key]} was committed"
                )

    def _partition(self, node_id: int, partition: TopicPartition) -> Partition | None:
        member = self._cluster.brokers[node_id]
        return member.broker.node.partitions.get(*partition) if member.is_up else None

    def _log(self, node_id: int, topic: Topic, partition: TopicPartition) -> PartitionLog | None:
        member = self._cluster.brokers[node_id]
        log = member.broker.node.logs.get(partition) if member.is_up else None
        return log if log is not None and log.topic_id == topic.id else None
