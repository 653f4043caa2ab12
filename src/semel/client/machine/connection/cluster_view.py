"""The cluster's metadata as this client last received it: brokers, topics, leaders (Kafka: ``Cluster``).

A view is immutable: every Metadata response makes a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from semel.errors import ErrorCode, named
from semel.types import ZERO_UUID, Address, TopicPartition
from semel.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic


@dataclass(frozen=True, slots=True)
class PartitionView:
    leader: int | None
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class TopicView:
    """The metadata of one topic: its partitions by number, or the error that the broker returned for it."""

    name: str
    topic_id: UUID = ZERO_UUID
    partitions: tuple[PartitionView, ...] = ()
    error: ErrorCode = ErrorCode.NONE
    is_internal: bool = False

    @property
    def available(self) -> tuple[int, ...]:
        """The partitions that have a leader; all of them if none has."""
        led = tuple(index for index, partition in enumerate(self.partitions) if partition.leader is not None)
        return led or tuple(range(len(self.partitions)))


@dataclass(frozen=True, slots=True)
class ClusterView:
    brokers: Mapping[int, Address] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    controller: int | None = None

    def leader(self, topic_partition: TopicPartition) -> int | None:
        partition = self.partition(topic_partition)
        return None if partition is None else partition.leader

    def partition(self, topic_partition: TopicPartition) -> PartitionView | None:
        topic = self.topics.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            return None
        return topic.partitions[topic_partition.partition]

    def topic_id(self, topic: str) -> UUID:
        view = self.topics.get(topic)
        return ZERO_UUID if view is None else view.topic_id

    def updated(self, response: MetadataResponse) -> ClusterView:
        """Return the view after a Metadata response, which replaces all brokers, and those topics that it contains."""
        brokers = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
        topics = dict(self.topics)
        for answer in response.topics:
            if answer.name is not None:
                topics[answer.name] = _topic(answer, topics.get(answer.name))
        return _view(brokers, topics, response.controller_id)

    def with_leader(
        self, topic_partition: TopicPartition, leader: int, leader_epoch: int, brokers: Mapping[int, Address]
    ) -> ClusterView:
        """Return the view with this leader of a partition.

        It is this same view if the leader epoch is not newer, or if the partition or the leader's address is unknown.
        """
        partition = self.partition(topic_partition)
        known = {**self.brokers, **brokers}
        if partition is None or leader not in known:
            return self
        if partition.leader_epoch is not None and leader_epoch <= partition.leader_epoch:
            return self
        topic = self.topics[topic_partition.topic]
        partitions = list(topic.partitions)
        partitions[topic_partition.partition] = PartitionView(leader, leader_epoch)
        changed = replace(topic, partitions=tuple(partitions))
        return _view(known, {**self.topics, topic.name: changed}, self.controller)

    def without(self, topic: str) -> ClusterView:
        topics = {name: view for name, view in self.topics.items() if name != topic}
        return _view(self.brokers, topics, self.controller)


def _view(brokers: Mapping[int, Address], topics: Mapping[str, TopicView], controller: int | None) -> ClusterView:
    names = {topic.topic_id: topic.name for topic in topics.values() if topic.topic_id != ZERO_UUID}
    return ClusterView(brokers, topics, names, controller)


def _topic(answer: MetadataResponseTopic, known: TopicView | None) -> TopicView:
    name = answer.name or ""
    if answer.error_code != ErrorCode.NONE and not answer.partitions:
        return TopicView(name, error=named(answer.error_code))
    partitions = {partition.partition_index: partition for partition in answer.partitions}
    # A topic that was deleted and created again has epochs that start from the beginning.
    older = known.partitions if known is not None and known.topic_id == answer.topic_id else ()
    return TopicView(
        name,
        answer.topic_id,
        tuple(
            _partition(partitions.get(index), older[index] if index < len(older) else None)
            for index in range(max(partitions, default=-1) + 1)
        ),
        is_internal=answer.is_internal,
    )


def _partition(answer: MetadataResponsePartition | None, known: PartitionView | None) -> PartitionView:
    if answer is None:
        return known or PartitionView(None, None)
    epoch = answer.leader_epoch
    # A broker with older metadata must not overwrite what a newer response said.
    if known is not None and known.leader_epoch is not None and epoch is not None and epoch < known.leader_epoch:
        return known
    return PartitionView(answer.leader_id, epoch)
