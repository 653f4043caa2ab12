"""The cluster's metadata as one immutable value, which is replaced and never changed (Kafka: MetadataImage).

A caller that has an image can continue to read it while the next one is made. ``apply`` copies only the tables that are
written, once for all changes of a call. The tables of topics are plain dicts: copying them takes 0.4 ms with 10,000
topics, less than the sync of the same change, and every look-up is that of a dict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, Union
from uuid import UUID

from semel.types import INTERNAL_TOPICS

if TYPE_CHECKING:  # At runtime it is imported only if there are ACLs, users or quotas, so that a broker starts faster.
    from semel.metadata.security.image import SecurityChange, SecurityImage


PLAINTEXT: Final = "PLAINTEXT"
"""The name of the only listener of a broker whose settings give it no name."""


class Endpoint(NamedTuple):
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Broker:
    """A registered broker. Its epoch grows with every registration: a process with an older epoch is a zombie."""

    node_id: int
    host: str
    """With ``port``, the address of its first listener."""
    port: int
    rack: str | None = None
    epoch: int = 0
    """The version of the commit that registered it."""
    inter_broker: Endpoint | None = None
    """The address for other brokers; ``None`` in a cluster of one."""
    directory_id: str | None = None
    """The id of its data directory: two processes with the same id are the same broker, one after the other."""
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    """The address for clients of each listener; empty if there is one listener without a name."""

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the address for clients of a listener; None if the broker has no such listener."""
        if self.endpoints:
            return self.endpoints.get(listener)
        return Endpoint(self.host, self.port) if listener == PLAINTEXT else None


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The leader of a partition, its replicas and its in-sync set. ``leader`` is ``None`` while no broker can lead."""

    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic; ``configs`` holds only what was set on it."""

    name: str
    id: UUID
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas)


@dataclass(frozen=True, slots=True)
class TopicCreated:
    topic: Topic


@dataclass(frozen=True, slots=True)
class TopicAltered:
    """A topic has new partitions, other leaders or other configs. ``topic`` is its new value."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    topic: Topic


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    broker: Broker


@dataclass(frozen=True, slots=True)
class BrokerUnregistered:
    node_id: int


@dataclass(frozen=True, slots=True)
class BrokerConfigsAltered:
    """All dynamic configs of one broker after a change; without a ``node_id``, those for all brokers."""

    node_id: int | None
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupConfigsAltered:
    """All configs of one group after a change; empty if only the brokers' settings apply."""

    group_id: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ClientMetricsAltered:
    """A client metrics subscription (KIP-714) after a change; ``configs`` is empty if it was deleted."""

    name: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ControllerChanged:
    """Another broker is the controller now, or none is."""

    node_id: int | None


Configs: TypeAlias = Mapping[str, Mapping[str, str]]

Change: TypeAlias = Union[
    TopicCreated,
    TopicAltered,
    TopicDeleted,
    BrokerRegistered,
    BrokerUnregistered,
    BrokerConfigsAltered,
    GroupConfigsAltered,
    ClientMetricsAltered,
    ControllerChanged,
    "SecurityChange",
]


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The cluster's metadata at one moment. ``version`` grows with every change that this process receives."""

    cluster_id: str
    controller_id: int | None = None
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    topics_by_id: Mapping[UUID, Topic] = field(default_factory=dict)
    broker_configs: Mapping[int | None, Mapping[str, str]] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The configs of groups that have configs of their own."""
    client_metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The client metrics subscriptions, by their names."""
    security: SecurityImage | None = None
    """ACLs, users and quotas; None if there have never been any."""
    partition_count: int = 0
    version: int = 0
    # The topics with a '.' or '_' in their name, by the name with '_' for every '.': two of them would share a metric.
    names_by_metric: Mapping[str, str] = field(default_factory=dict)

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        known = self.topics.get(topic)
        return known.partitions[partition] if known and 0 <= partition < len(known.partitions) else None

    def endpoints(self, listener: str) -> Iterator[tuple[Broker, Endpoint]]:
        """Yield the brokers that clients of a listener can reach, with their addresses."""
        for broker in self.brokers.values():
            endpoint = broker.endpoint(listener)
            if endpoint is not None:
                yield broker, endpoint

    def seen_by(self, listener: str) -> ClusterImage:
        """Return this image without the brokers that clients of a listener cannot reach: to them these are offline."""
        reached = {broker.node_id: broker for broker, _ in self.endpoints(listener)}
        return self if len(reached) == len(self.brokers) else replace(self, brokers=reached)

    def leader(self, state: PartitionState) -> int | None:
        """Return the leader of a partition if it is registered, otherwise None."""
        return state.leader if state.leader in self.brokers else None

    def colliding_topic(self, name: str) -> str | None:
        """Return another topic that Kafka's metrics could not tell from a topic of this name, or None."""
        other = self.names_by_metric.get(name.replace(".", "_"))
        return None if other == name else other

    def apply(self, changes: Iterable[Change]) -> ClusterImage:
        """Return the image after these changes, which are applied in their order."""
        return _Draft(self).apply(changes)


class _Draft:
    """The tables of an image, each copied when it is first written."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._brokers: dict[int, Broker] | None = None
        self._topics: dict[str, Topic] | None = None
        self._topics_by_id: dict[UUID, Topic] = {}
        self._names_by_metric: dict[str, str] = {}
        self._broker_configs: dict[int | None, Mapping[str, str]] | None = None
        self._group_configs: dict[str, Mapping[str, str]] = {}
        self._client_metrics: dict[str, Mapping[str, str]] = {}
        self._security: list[SecurityChange] = []
        self._partition_count = image.partition_count
        self._controller_id = image.controller_id

    def apply(self, changes: Iterable[Change]) -> ClusterImage:
        for change in changes:
            match change:
                case TopicCreated(topic):
                    self._put_topic(topic, before=None)
                case TopicAltered(topic):
                    self._put_topic(topic, before=self._writable_topics()[topic.name])
                case TopicDeleted(topic):
                    self._remove_topic(topic)
                case BrokerRegistered(broker):
                    self._writable_brokers()[broker.node_id] = broker
                case BrokerUnregistered(node_id):
                    del self._writable_brokers()[node_id]
                case BrokerConfigsAltered(node_id, configs):
                    self._writable_broker_configs()[node_id] = configs
                case GroupConfigsAltered(group_id, configs):
                    self._group_configs[group_id] = configs
                case ClientMetricsAltered(name, configs):
                    self._client_metrics[name] = configs
                case ControllerChanged(controller_id):
                    self._controller_id = controller_id
                case _:
                    self._security.append(change)
        image = replace(
            self._image,
            controller_id=self._controller_id,
            partition_count=self._partition_count,
            version=self._image.version + 1,
        )
        if self._brokers is not None:
            image = replace(image, brokers=self._brokers)
        if self._broker_configs is not None:
            image = replace(image, broker_configs=self._broker_configs)
        if self._group_configs:
            image = replace(image, group_configs=_overlaid(image.group_configs, self._group_configs))
        if self._client_metrics:
            image = replace(image, client_metrics=_overlaid(image.client_metrics, self._client_metrics))
        if self._security:
            from semel.metadata.security.image import security_of

            image = replace(image, security=security_of(image).apply(self._security))
        if self._topics is not None:
            image = replace(
                image,
                topics=self._topics,
                topics_by_id=self._topics_by_id,
                names_by_metric=self._names_by_metric,
            )
        return image

    def _put_topic(self, topic: Topic, *, before: Topic | None) -> None:
        topics = self._writable_topics()
        if before is None:
            assert topic.name not in topics, topic
            assert topic.id not in self._topics_by_id, topic
            if "." in topic.name or "_" in topic.name:
                self._names_by_metric[topic.name.replace(".", "_")] = topic.name
        else:
            assert topic.id == before.id, (topic, before)
            self._partition_count -= len(before.partitions)
        topics[topic.name] = topic
        self._topics_by_id[topic.id] = topic
        self._partition_count += len(topic.partitions)

    def _remove_topic(self, topic: Topic) -> None:
        removed = self._writable_topics().pop(topic.name)
        assert removed.id == topic.id, (removed, topic)
        del self._topics_by_id[topic.id]
        metric = topic.name.replace(".", "_")
        if self._names_by_metric.get(metric) == topic.name:  # Else its successor was created by an earlier change.
            del self._names_by_metric[metric]
        self._partition_count -= len(removed.partitions)

    def _writable_topics(self) -> dict[str, Topic]:
        if self._topics is None:
            self._topics = dict(self._image.topics)
            self._topics_by_id = dict(self._image.topics_by_id)
            self._names_by_metric = dict(self._image.names_by_metric)
        return self._topics

    def _writable_brokers(self) -> dict[int, Broker]:
        if self._brokers is None:
            self._brokers = dict(self._image.brokers)
        return self._brokers

    def _writable_broker_configs(self) -> dict[int | None, Mapping[str, str]]:
        if self._broker_configs is None:
            self._broker_configs = dict(self._image.broker_configs)
        return self._broker_configs


def _overlaid(before: Configs, altered: Configs) -> Configs:
    """Return ``before`` with ``altered`` in it, without the names that have no configs any more."""
    return {name: configs for name, configs in {**before, **altered}.items() if configs}


def changes_between(before: ClusterImage, after: ClusterImage) -> list[Change]:
    """Return the changes that turn one image of a cluster into another.

    A topic whose id changed was deleted and created again.
    """
    changes: list[Change] = []
    for name, topic in before.topics.items():
        if name not in after.topics or after.topics[name].id != topic.id:
            changes.append(TopicDeleted(topic))
    for name, topic in after.topics.items():
        known = before.topics.get(name)
        if known is None or known.id != topic.id:
            changes.append(TopicCreated(topic))
        elif known != topic:
            changes.append(TopicAltered(topic))
    changes += [BrokerUnregistered(node_id) for node_id in before.brokers if node_id not in after.brokers]
    changes += [BrokerRegistered(b) for node_id, b in after.brokers.items() if before.brokers.get(node_id) != b]
    for node_id in dict.fromkeys([*before.broker_configs, *after.broker_configs]):
        configs = after.broker_configs.get(node_id, {})
        if before.broker_configs.get(node_id, {}) != configs:
            changes.append(BrokerConfigsAltered(node_id, configs))
    groups = _altered(before.group_configs, after.group_configs)
    changes += [GroupConfigsAltered(group_id, configs) for group_id, configs in groups.items()]
    metrics = _altered(before.client_metrics, after.client_metrics)
    changes += [ClientMetricsAltered(name, configs) for name, configs in metrics.items()]
    if before.controller_id != after.controller_id:
        changes.append(ControllerChanged(after.controller_id))
    if before.security is not after.security:
        from semel.metadata.security.image import security_changes_between

        changes += security_changes_between(before.security, after.security)
    return changes


def _altered(before: Configs, after: Configs) -> Configs:
    names = dict.fromkeys([*before, *after])
    return {name: after.get(name, {}) for name in names if before.get(name, {}) != after.get(name, {})}
