"""Topics: create, delete, list, describe, and add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from semel.client.admin.admin_requests import AdminRequests
from semel.client.admin.results import Results
from semel.client.config.common import as_text
from semel.client.machine.admin.ask import CLUSTER, AnyBroker, Ask, Controller, outcome
from semel.wire.apis import ApiKey
from semel.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from semel.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created. What is ``None`` is decided by the broker.

    ``assignments`` says which brokers have which partition, the preferred leader first: ``{0: [1, 2], 1: [2, 3]}``.
    """

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, object] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] | None = None

    def __post_init__(self) -> None:
        if self.assignments is not None and (self.partitions, self.replication_factor) != (None, None):
            raise ValueError(
                f"topic {self.name!r} has assignments, which say how many partitions and replicas there are: leave out "
                "partitions and replication_factor"
            )


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as it was created, with all its settings, including defaults."""

    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class TopicListing:
    name: str
    topic_id: UUID
    partitions: int
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """The replicas of one partition. ``leader`` is ``None`` while no broker leads it."""

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class Topics:
    """``admin.topics``: create, delete, list and describe topics, and add partitions."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic; raises TOPIC_ALREADY_EXISTS if it exists. ``validate_only`` only checks whether it could be.

        await admin.topics.create("orders", partitions=6, configs={"cleanup.policy": "compact"})
        """
        topic = NewTopic(name, partitions, replication_factor, configs or {}, assignments)
        return (await self.create_many([topic], validate_only=validate_only))[name]

    async def create_many(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> Results[str, CreatedTopic]:
        """Create topics, each independently of the others.

        results = await admin.topics.create_many([NewTopic("orders", 6), NewTopic("ledger", 1)])
        """
        wanted = {topic.name: topic for topic in topics}
        ask = _create(wanted, self._requests.request_timeout_ms, validate_only)
        return await self._requests.many(ask, wanted)

    async def delete(self, name: str) -> None:
        """Delete a topic and its records; raises UNKNOWN_TOPIC_OR_PARTITION if there is none.

        await admin.topics.delete("orders")
        """
        (await self.delete_many([name])).all()

    async def delete_many(self, names: Iterable[str]) -> Results[str, None]:
        """Delete topics, each independently of the others.

        (await admin.topics.delete_many(["orders", "ledger"])).all()
        """
        return await self._requests.many(_delete(self._requests.request_timeout_ms), names)

    async def list(self, *, include_internal: bool = False) -> dict[str, TopicListing]:
        """Return every topic, by name; internal topics only with ``include_internal``.

        for name, topic in (await admin.topics.list()).items(): print(name, topic.partitions)
        """
        listed = await self._requests.one(LIST_TOPICS, CLUSTER)
        return {topic.name: topic for topic in listed if include_internal or not topic.is_internal}

    async def describe(self, name: str) -> TopicDescription:
        """Return a topic's partitions, their leaders and replicas; raises UNKNOWN_TOPIC_OR_PARTITION if there is none.

        leaders = [partition.leader for partition in (await admin.topics.describe("orders")).partitions]
        """
        return await self._requests.one(DESCRIBE_TOPIC, name)

    async def describe_many(self, names: Iterable[str]) -> Results[str, TopicDescription]:
        """Return the descriptions of many topics, as ``describe`` does for one.

        results = await admin.topics.describe_many(["orders", "ledger"])
        """
        return await self._requests.many(DESCRIBE_TOPIC, names)

    async def create_partitions(
        self,
        name: str,
        total: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Add partitions until there are ``total``; raises INVALID_PARTITIONS if there are as many or more.

        ``assignments`` has the brokers of each that is added. Records with a key may go elsewhere from then on.

        await admin.topics.create_partitions("orders", 12)
        """
        ask = _create_partitions(total, assignments, self._requests.request_timeout_ms, validate_only)
        await self._requests.one(ask, name)


def _topic(name: str) -> str:
    return f"topic {name!r}"


def _create(topics: Mapping[str, NewTopic], timeout_ms: int, validate_only: bool) -> Ask[str, CreatedTopic]:
    return Ask(
        ApiKey.CREATE_TOPICS,
        target=lambda name: Controller(),
        build=lambda names, version: CreateTopicsRequest(
            [_creatable(topics[name]) for name in names], timeout_ms, validate_only
        ),
        read=lambda response, names, version: [
            (topic.name, outcome(_created(topic), topic.error_code, topic.error_message)) for topic in response.topics
        ],
        name=_topic,
        version_min=5,  # The first version that returns what was created.
    )


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        topic.name,
        topic.partitions,
        topic.replication_factor,
        [CreatableReplicaAssignment(index, list(ids)) for index, ids in (topic.assignments or {}).items()],
        [
            CreatableTopicConfig(name, None if value is None else as_text(value))
            for name, value in topic.configs.items()
        ],
    )


def _created(topic: CreatableTopicResult) -> CreatedTopic:
    configs = {config.name: config.value for config in topic.configs or ()}
    return CreatedTopic(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor, configs)


def _delete(timeout_ms: int) -> Ask[str, None]:
    return Ask(
        ApiKey.DELETE_TOPICS,
        target=lambda name: Controller(),
        build=lambda names, version: DeleteTopicsRequest(
            [DeleteTopicState(name) for name in names], list(names), timeout_ms
        ),
        read=lambda response, names, version: [
            (topic.name, outcome(None, topic.error_code, topic.error_message)) for topic in response.responses
        ],
        name=_topic,
    )


def _create_partitions(
    total: int, assignments: Sequence[Sequence[int]] | None, timeout_ms: int, validate_only: bool
) -> Ask[str, None]:
    replicas = None if assignments is None else [CreatePartitionsAssignment(list(ids)) for ids in assignments]
    return Ask(
        ApiKey.CREATE_PARTITIONS,
        target=lambda name: Controller(),
        build=lambda names, version: CreatePartitionsRequest(
            [CreatePartitionsTopic(name, total, replicas) for name in names], timeout_ms, validate_only
        ),
        read=lambda response, names, version: [
            (topic.name, outcome(None, topic.error_code, topic.error_message)) for topic in response.results
        ],
        name=_topic,
    )


LIST_TOPICS: Ask[str, list[TopicListing]] = Ask(
    ApiKey.METADATA,
    target=lambda key: AnyBroker(),
    build=lambda keys, version: MetadataRequest(topics=None, allow_auto_topic_creation=False),
    read=lambda response, keys, version: [
        (
            keys[0],
            [
                TopicListing(topic.name, topic.topic_id, len(topic.partitions), topic.is_internal)
                for topic in response.topics
            ],
        )
    ],
    version_min=1,
)

DESCRIBE_TOPIC: Ask[str, TopicDescription] = Ask(
    ApiKey.METADATA,
    target=lambda name: AnyBroker(),
    build=lambda names, version: MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
    ),
    read=lambda response, names, version: [
        (topic.name, outcome(_described(topic), topic.error_code)) for topic in response.topics
    ],
    name=_topic,
    version_min=4,  # In older versions, a request could create the topic.
)


def _described(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return TopicDescription(
        topic.name or "",
        topic.topic_id,
        topic.is_internal,
        tuple(
            PartitionDescription(
                partition.partition_index,
                partition.leader_id,
                partition.leader_epoch,
                tuple(partition.replica_nodes),
                tuple(partition.isr_nodes),
                tuple(partition.offline_replicas),
            )
            for partition in partitions
        ),
    )
