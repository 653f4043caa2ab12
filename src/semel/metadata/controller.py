"""Pure decisions about topics: CreateTopics, DeleteTopics and CreatePartitions.

Every function takes the image and the request, changes nothing, and returns the changes that carry it out, with one
result per item, in the order of the request. A wrong item does not affect the others. Error codes and messages are
Apache Kafka's, where Kafka has them. Topic ids are arguments: this code is deterministic and draws no random numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Generic, TypeVar
from uuid import UUID

from semel.errors import ErrorCode, KafkaError
from semel.log.config import DEFAULTS, LogConfig
from semel.metadata.image import Change, ClusterImage, PartitionState, Topic, TopicAltered, TopicCreated, TopicDeleted
from semel.metadata.placement import assign, place
from semel.metadata.topic_names import check_topic_name
from semel.settings import SettingError
from semel.types import CLUSTER_METADATA_TOPIC

# Kafka's limit: one request is one atomic change, and a change has to stay small enough to be written at once.
PARTITIONS_PER_REQUEST_MAX: Final = 10_000

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TopicPolicy:
    """The present values of the broker's settings for topics."""

    num_partitions: int = 1
    default_replication_factor: int = 1
    partitions_max: int = 100_000
    partitions_rule: str = "max.partitions"  # what sets that limit
    delete_topic_enable: bool = True
    log_defaults: LogConfig = DEFAULTS


@dataclass(frozen=True, slots=True)
class Refusal:
    code: ErrorCode
    message: str


@dataclass(frozen=True, slots=True)
class MetadataDecision(Generic[Result]):
    """The changes to commit, all at once, and the results to return once they are committed."""

    changes: tuple[Change, ...]
    results: tuple[Result, ...]
    brokers: tuple[int, ...] = ()
    """The brokers whose registrations it depends on: it is decided again if one of them has registered since."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created. ``None`` means the default; ``assignments`` are (partition, replicas) pairs."""

    id: ClassVar[None] = None
    name: str
    num_partitions: int | None = None
    replication_factor: int | None = None
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicToDelete:
    """A topic to be deleted, by its name or its id."""

    name: str | None = None
    id: UUID | None = None


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """How many partitions a topic is to have, and the replicas of the new ones (``None``: placed automatically)."""

    id: ClassVar[None] = None
    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicResult:
    """The result of one item: the topic as it now is (or was, if deleted), or the refusal."""

    name: str | None
    topic: Topic | None = None
    refusal: Refusal | None = None
    id: UUID | None = None


def create_topics(
    image: ClusterImage, topics: Sequence[NewTopic], *, policy: TopicPolicy, new_id: Callable[[], UUID]
) -> MetadataDecision[TopicResult]:
    """Create topics. A name that is in the request twice is refused, with one result."""
    asked = Counter(topic.name for topic in topics)
    decision = _Draft(image)
    if sum(_partitions_asked(topic, policy) for topic in topics) > PARTITIONS_PER_REQUEST_MAX:
        too_many = Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        return MetadataDecision((), tuple(TopicResult(name, refusal=too_many) for name in asked))
    for name, times in asked.items():
        if times > 1:
            decision.refuse(name, KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
    for wanted in topics:
        if asked[wanted.name] > 1:
            continue
        try:
            topic = _new_topic(decision, wanted, policy, new_id)
        except KafkaError as error:
            decision.refuse(wanted.name, error)
        else:
            decision.accept(TopicCreated(topic), topic, added=len(topic.partitions))
    return decision.decided(order=asked)


def delete_topics(
    image: ClusterImage, topics: Sequence[TopicToDelete], *, policy: TopicPolicy
) -> MetadataDecision[TopicResult]:
    """Delete topics by name or id. A topic that is in the request twice, by name or by id, is refused each time."""
    found = [_find(image, wanted) for wanted in topics]
    times = Counter(topic.name for topic in found if isinstance(topic, Topic))
    changes: list[Change] = []
    results = []
    for wanted, topic in zip(topics, found, strict=True):
        refusal = topic if isinstance(topic, Refusal) else None
        if isinstance(topic, Topic):
            if not policy.delete_topic_enable:
                refusal = Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            elif times[topic.name] > 1:
                refusal = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name or id.")
            else:
                changes.append(TopicDeleted(topic))
                results.append(TopicResult(topic.name, topic=topic, id=topic.id))
                continue
        results.append(TopicResult(wanted.name, refusal=refusal, id=wanted.id))
    return MetadataDecision(tuple(changes), tuple(results))


def create_partitions(
    image: ClusterImage, topics: Sequence[NewPartitions], *, policy: TopicPolicy
) -> MetadataDecision[TopicResult]:
    """Add partitions to topics. Existing partitions are not changed."""
    asked = Counter(topic.name for topic in topics)
    decision = _Draft(image)
    for wanted in topics:
        try:
            if asked[wanted.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = image.topics.get(wanted.name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.name}' does not exist.")
            if topic.is_internal:
                # The number of partitions decides which one holds an id: with more, all ids would be lost.
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"The number of partitions of the internal topic {topic.name} is fixed."
                )
            added = _added_partitions(decision, topic, wanted, policy)
            grown = replace(topic, partitions=topic.partitions + added)
        except KafkaError as error:
            decision.refuse(wanted.name, error)
        else:
            decision.accept(TopicAltered(grown), grown, added=len(added))
    return decision.decided(order=asked)


class _Draft:
    """The draft of a decision: later items are checked against the image and the items accepted before them."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self._partition_count = image.partition_count
        self._names_by_metric: dict[str, str] = {}
        self._changes: list[Change] = []
        self._results: dict[str, TopicResult] = {}
        # The brokers of new partitions. The controller gives a broker's partitions to others when it goes, and would
        # not see those that are created a moment later.
        self._brokers: dict[int, None] = {}

    def accept(self, change: Change, topic: Topic, *, added: int) -> None:
        self._partition_count += added
        self._names_by_metric[topic.name.replace(".", "_")] = topic.name
        self._changes.append(change)
        self._results[topic.name] = TopicResult(topic.name, topic=topic, id=topic.id)
        for state in topic.partitions[-added:]:
            self._brokers.update(dict.fromkeys(state.replicas))

    def refuse(self, name: str, error: KafkaError) -> None:
        self._results[name] = TopicResult(name, refusal=Refusal(error.code, error.message))

    def decided(self, order: Mapping[str, int]) -> MetadataDecision[TopicResult]:
        results = tuple(self._results[name] for name in order)
        return MetadataDecision(tuple(self._changes), results, brokers=tuple(self._brokers))

    def colliding_topic(self, name: str) -> str | None:
        return self.image.colliding_topic(name) or self._names_by_metric.get(name.replace(".", "_"))

    def check_total(self, added: int, policy: TopicPolicy) -> None:
        if self._partition_count + added > policy.partitions_max:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Too many partitions: with {self._partition_count} in the cluster, {added} more would exceed "
                f"{policy.partitions_rule} ({policy.partitions_max}).",
            )


def _partitions_asked(wanted: NewTopic, policy: TopicPolicy) -> int:
    if wanted.assignments:
        return len(wanted.assignments)
    return policy.num_partitions if wanted.num_partitions is None else max(0, wanted.num_partitions)


def _new_topic(decision: _Draft, wanted: NewTopic, policy: TopicPolicy, new_id: Callable[[], UUID]) -> Topic:
    image = decision.image
    check_topic_name(wanted.name)
    if wanted.name == CLUSTER_METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {wanted.name} is prohibited.")
    if wanted.name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists.")
    if (other := decision.colliding_topic(wanted.name)) is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{wanted.name}' collides with existing topic: {other}"
        )
    configs = checked_topic_configs(wanted.configs, policy)
    topic_id = new_id()
    partitions = _manual(image, wanted) if wanted.assignments else _placed(image, wanted, topic_id, policy)
    decision.check_total(len(partitions), policy)
    return Topic(wanted.name, topic_id, partitions, configs)


def checked_topic_configs(configs: Mapping[str, str | None], policy: TopicPolicy) -> dict[str, str]:
    """Return the configs as they will be stored, or raise INVALID_CONFIG."""
    absent = [name for name, text in configs.items() if text is None]
    if absent:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {', '.join(absent)}")
    texts = {name: text for name, text in configs.items() if text is not None}
    try:
        LogConfig.from_settings(texts, policy.log_defaults).check()
    except SettingError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return texts


def _manual(image: ClusterImage, wanted: NewTopic) -> tuple[PartitionState, ...]:
    for given, called in ((wanted.replication_factor, "replication factor"), (wanted.num_partitions, "numPartitions")):
        if given is not None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {called} was not set to -1.",
            )
    by_partition = dict(wanted.assignments)
    if len(by_partition) != len(wanted.assignments):
        twice = next(n for n, times in Counter(n for n, _ in wanted.assignments).items() if times > 1)
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Found multiple manual partition assignments for partition {twice}"
        )
    if sorted(by_partition) != list(range(len(by_partition))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return assign(image.brokers, [by_partition[n] for n in range(len(by_partition))], replication_factor=None)


def _placed(image: ClusterImage, wanted: NewTopic, topic_id: UUID, policy: TopicPolicy) -> tuple[PartitionState, ...]:
    factor = policy.default_replication_factor if wanted.replication_factor is None else wanted.replication_factor
    count = policy.num_partitions if wanted.num_partitions is None else wanted.num_partitions
    if factor <= 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count <= 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    return place(image.brokers, topic_id, range(count), replication_factor=factor)


def _find(image: ClusterImage, wanted: TopicToDelete) -> Topic | Refusal:
    if wanted.name is not None and wanted.id is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if wanted.name is not None:
        unknown = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.name}' does not exist.")
        return image.topics.get(wanted.name) or unknown
    if wanted.id is not None:
        return image.topics_by_id.get(wanted.id) or Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"No topic has id {wanted.id}.")
    return Refusal(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")


def _added_partitions(
    decision: _Draft, topic: Topic, wanted: NewPartitions, policy: TopicPolicy
) -> tuple[PartitionState, ...]:
    count = len(topic.partitions)
    if wanted.count == count:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if wanted.count < count:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {count} partition(s); {wanted.count} would not be an increase.",
        )
    added = wanted.count - count
    if added > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    decision.check_total(added, policy)
    factor = topic.replication_factor
    if wanted.assignments is None:
        return place(decision.image.brokers, topic.id, range(count, wanted.count), replication_factor=factor)
    if len(wanted.assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} assignment(s) were "
            "specified.",
        )
    return assign(decision.image.brokers, wanted.assignments, replication_factor=factor)
