"""Changes of in-sync sets (Kafka's AlterPartition): leaders propose them, and many are committed together.

    proposal of a ReplicaSet --> proposed: it counts in the maximal set --> commit --> image --> settled

Proposals that are made during a commit are in the next commit. The store refuses a commit if the topic has changed
since the image that it was decided on; then it is decided again on the newer image. A proposal is settled when its
outcome is in the image. If the store gives no answer, the outcome is not known, and the proposal is not settled before
the store has been read again.

If a broker's log of a partition goes offline, or cannot be made, the broker itself leaves the in-sync set, and so its
leadership too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.errors import StorageError
from semel.metadata.controller import MetadataDecision
from semel.metadata.election import leave_isr
from semel.metadata.image import BrokerRegistered, Change, ClusterImage, PartitionState, TopicAltered
from semel.types import TopicPartition

logger = logging.getLogger("semel.broker")

# How many partitions a commit changes at most, so that no decision takes long. It is also limited by what the store
# accepts at once.
PARTITIONS_PER_COMMIT: Final = 1000
RETRY_S: Final = 0.5

SLICE_PARTITIONS: Final = 1000
"""How many partitions are examined in one turn of the event loop: some 2 us each."""


class InSyncChanges:
    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._looked_for: dict[Partition, None] = {}
        self._given_up: dict[TopicPartition, None] = {}
        self.changes = 0
        """How many in-sync sets were changed."""
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        node.cluster.watch(self._changed)

    def start(self) -> None:
        self._later()

    def look_at(self, partition: Partition) -> None:
        """Propose a change of this partition's in-sync set, if its replica set has one to propose."""
        replicas = partition.replicas
        if replicas is not None and self._proposal(partition) is not None:
            self._looked_for[partition] = None
            self._begin()

    def give_up(self, topic_partition: TopicPartition) -> None:
        """Leave the partition's in-sync set, because it has no log here that works. A set of only this broker stays."""
        self._given_up[topic_partition] = None
        self._begin()

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _later(self) -> None:
        """Look for lagging followers in half of ``replica.lag.time.max.ms``, so that none lags 1.5 times as long."""
        self._timer = self._loop.call_later(self._node.config.replica_lag_time_max_ms / 2000, self._look_at_all)

    def _changed(self, before: ClusterImage, after: ClusterImage, changes: Sequence[Change]) -> None:
        """Examine all partitions when a broker has registered: it may have caught up before the registration was known
        here."""
        if any(isinstance(change, BrokerRegistered) for change in changes):
            self._look()

    def _look_at_all(self) -> None:
        self._later()
        self._look()

    def _look(self) -> None:
        self._look_from(list(self._node.partitions), 0)

    def _look_from(self, partitions: Sequence[Partition], first: int) -> None:
        """Examine the partitions from ``first`` on, in slices: a broker may lead tens of thousands of partitions."""
        if self._is_closed:
            return
        behind = first + SLICE_PARTITIONS
        for partition in partitions[first:behind]:
            if partition.replicas is not None:
                self.look_at(partition)
        if behind < len(partitions):
            self._node.turns.soon(partial(self._look_from, partitions, behind))

    def _proposal(self, partition: Partition) -> frozenset[int] | None:
        assert partition.replicas is not None
        return partition.replicas.proposal(
            self._node.clock.monotonic_ms(),
            lag_max_ms=self._node.config.replica_lag_time_max_ms,
            broker_epochs=_broker_epochs(self._node.image),
        )

    def _begin(self) -> None:
        if self._task is None and not self._is_closed:
            self._task = self._loop.create_task(self._commit_all())

    async def _commit_all(self) -> None:
        try:
            while (self._looked_for or self._given_up) and not self._is_closed:
                if self._given_up:
                    await self._leave_some()
                else:
                    await self._commit_some()
        finally:
            self._task = None

    async def _leave_some(self) -> None:
        leaving, self._given_up = self._given_up, {}
        cluster = self._node.cluster

        def decide(image: ClusterImage) -> MetadataDecision[None]:
            def stays(topic: str, index: int) -> bool:
                state = image.partition(topic, index)
                # The last in-sync replica stays in the set: only its disk has all acknowledged records.
                return TopicPartition(topic, index) not in leaving or state is None or len(state.isr) == 1

            return MetadataDecision(cluster.fitting(leave_isr(image, self._node.config.node_id, stays)), ())

        try:
            while (await cluster.change(decide)).changes:
                pass
        except StorageError as error:
            logger.warning("%d partitions could not be left to others, and are tried again: %s", len(leaving), error)
            await asyncio.sleep(RETRY_S)
            self._given_up.update(leaving)

    async def _commit_some(self) -> None:
        wanted: dict[Partition, frozenset[int]] = {}
        image = self._node.image
        epochs, room, topics = _broker_epochs(image), self._node.cluster.room(), set[str]()
        while self._looked_for and len(wanted) < PARTITIONS_PER_COMMIT:
            partition = next(iter(self._looked_for))
            topic = image.topics.get(partition.topic_partition.topic)
            if topic is not None and topic.name not in topics and not room.takes(TopicAltered(topic)):
                break  # The others come with the next commit.
            topics.add(partition.topic_partition.topic)
            del self._looked_for[partition]
            if partition.replicas is None or self._node.partitions.get(*partition.topic_partition) is not partition:
                continue
            isr = self._proposal(partition)
            if isr is not None:
                partition.replicas.proposed(isr)
                wanted[partition] = isr
        if not wanted:
            return
        proposals = [
            _Proposal(partition, isr, partition.replicas.isr, epochs)
            for partition, isr in wanted.items()
            if partition.replicas is not None
        ]
        while not self._is_closed:
            try:
                decided = await self._node.cluster.change(
                    lambda image: _decide(image, proposals, self._node.config.node_id)
                )
                self.changes += sum(decided.results)
                break
            except StorageError as error:
                logger.warning("%d in-sync sets could not be changed, and are tried again: %s", len(wanted), error)
            await asyncio.sleep(RETRY_S)
            try:
                # The metadata that are read from now on contain the outcome.
                await self._node.cluster.refresh()
                break
            except StorageError:
                continue
        for partition in wanted:
            if self._node.partitions.get(*partition.topic_partition) is partition:
                partition.proposal_settled()


class _Proposal(NamedTuple):
    partition: Partition
    isr: frozenset[int]
    isr_before: frozenset[int]
    broker_epochs: Mapping[int, int]
    """The broker epochs under which the members of ``isr`` have fetched."""


def _broker_epochs(image: ClusterImage) -> dict[int, int]:
    return {node_id: broker.epoch for node_id, broker in image.brokers.items()}


def _decide(image: ClusterImage, proposals: Iterable[_Proposal], node_id: int) -> MetadataDecision[int]:
    """Decide the changes of the partitions whose term goes on and whose in-sync set is the one that was examined.

    A broker that has registered again since its last Fetch may have lost its disk, so it must not join by that Fetch.
    """
    by_topic: dict[str, dict[int, PartitionState]] = {}
    joining: dict[int, None] = {}
    for partition, isr, isr_before, broker_epochs in proposals:
        name, index = partition.topic_partition
        state = image.partition(name, index)
        if (
            state is None
            or image.topics[name].id != partition.log.topic_id
            or (state.leader, state.leader_epoch) != (node_id, partition.leader_epoch)
            or frozenset(state.isr) != isr_before
            or any(
                image.brokers[joins].epoch != broker_epochs[joins] if joins in image.brokers else True
                for joins in isr - isr_before
            )
        ):
            continue
        in_order = tuple(replica for replica in state.replicas if replica in isr)
        changed = replace(state, isr=in_order, partition_epoch=state.partition_epoch + 1)
        by_topic.setdefault(name, {})[index] = changed
        joining.update(dict.fromkeys(isr - isr_before))
    changes: list[Change] = []
    for name, changed_states in by_topic.items():
        topic = image.topics[name]
        partitions = tuple(changed_states.get(index, state) for index, state in enumerate(topic.partitions))
        changes.append(TopicAltered(replace(topic, partitions=partitions)))
    return MetadataDecision(tuple(changes), (sum(map(len, by_topic.values())),), brokers=tuple(joining))
