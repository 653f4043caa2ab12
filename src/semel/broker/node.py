"""The node: the parts of one running broker that request handlers and the parts themselves use."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.config.features import BrokerFeatures
from semel.broker.fetch.fetch_sessions import FetchSessions
from semel.broker.metrics.metrics import Metrics
from semel.broker.network.answer_cache import AnswerCache
from semel.broker.network.descriptors import Descriptors
from semel.broker.partitions.partitions import LedPartitions, Partition
from semel.broker.produce.record_checks import RecordChecks
from semel.broker.turns import Turns
from semel.broker.waiting.deadlines import Deadlines
from semel.clock import Clock
from semel.coordinator.producer_ids import ProducerIds
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.log.directory import LogDirectory
from semel.metadata.cluster import ClusterMetadata
from semel.metadata.controller import (
    MetadataDecision,
    NewPartitions,
    NewTopic,
    Refusal,
    TopicPolicy,
    TopicResult,
    TopicToDelete,
)
from semel.metadata.image import ClusterImage, TopicAltered, TopicCreated
from semel.types import random_uuid

if TYPE_CHECKING:
    from semel.broker.cluster.peers import Peers
    from semel.broker.coordinators.coordinators import Coordinators
    from semel.broker.network.request import Request
    from semel.broker.quotas.client_quotas import ClientQuotas
    from semel.broker.replication.replicas import Replicas
    from semel.broker.security.audit import Audit
    from semel.log.compaction.cleaner import LogCleaner
    from semel.security.authorizer import Authorizer
    from semel.security.rights import Rights

logger = logging.getLogger("semel.broker")

Result = TypeVar("Result")
Wanted = TypeVar("Wanted", NewTopic, NewPartitions, TopicToDelete)

# The replication factor of new topics where ``default.replication.factor`` is not set, in a cluster with at least so
# many brokers.
REPLICAS_BY_DEFAULT: Final = 3


class _StillThere(Exception):
    """A topic is to be created, and the logs of a deleted topic of the same name are still there."""


class _TooLarge(Exception):
    """A topic would become so large that the metadata store could not take later changes of it."""


async def _at_once() -> None:
    """The ``settled`` of a node whose partitions are not opened yet: there is nothing to wait for."""


def _nothing_is_unavailable() -> None:
    """The ``open_unavailable`` of a node whose partitions are not opened yet."""


def _without_coordinators() -> Coordinators:
    raise AssertionError("a node without coordinators")


@dataclass(slots=True, eq=False)
class Node:
    config: BrokerConfig
    clock: Clock
    random: Random
    metrics: Metrics
    answers: AnswerCache
    features: BrokerFeatures
    cluster: ClusterMetadata
    logs: LogDirectory
    partitions: LedPartitions
    deadlines: Deadlines
    sessions: FetchSessions
    producer_ids: ProducerIds
    record_checks: RecordChecks
    turns: Turns
    descriptors: Descriptors = field(default_factory=Descriptors)
    is_member: bool = True
    """Whether this broker is registered, and may lead. A cluster of one has no other member."""
    peers: Peers | None = None
    """The other brokers; None in a cluster of one."""
    replicas: Replicas | None = None
    """The replicas of partitions with other brokers; None in a cluster of one."""
    authorizer: Authorizer | None = None
    """Checks requests against the ACLs; None if everything is allowed."""
    audit: Audit | None = None
    """The audit log of refused logins, refused requests and changes; None without ``audit.log.path``."""
    quotas: ClientQuotas | None = None
    """The use of quotas by clients; None as long as there are no quotas."""
    logger_levels_before: dict[str, int] = field(default_factory=dict)
    """The original levels of the loggers whose levels clients have altered, by logger name."""
    make_coordinators: Callable[[], Coordinators] = field(default=_without_coordinators)
    active_coordinators: Coordinators | None = None
    """The coordinators of transactions and groups; None until the first request or partition that needs them."""
    cleaner: LogCleaner | None = None
    """The log cleaner; None until compaction first looks for a log to clean."""
    settled: Callable[[], Awaitable[None]] = field(default=_at_once)
    """Waits until the logs of the image's topics are made, and those of deleted topics are gone."""
    deleting: Counter[str] = field(default_factory=Counter)
    """The names of deleted topics whose logs are still there, and how many such topics have the name."""
    long_lookups: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the ListOffsets request whose search for a timestamp takes more than one turn."""
    open_unavailable: Callable[[], None] = field(default=_nothing_is_unavailable)
    """Tries again to make the logs that could not be made."""

    @property
    def coordinators(self) -> Coordinators:
        return self.active_coordinators or self.coordinate()

    def coordinate(self) -> Coordinators:
        """Create the coordinators and begin to load their shards."""
        assert self.active_coordinators is None, "they are taken up once"
        self.active_coordinators = self.make_coordinators()
        self.active_coordinators.start()
        return self.active_coordinators

    @property
    def image(self) -> ClusterImage:
        return self.cluster.image

    @property
    def controller_id(self) -> int:
        controller_id = self.image.controller_id
        return self.config.node_id if controller_id is None else controller_id

    def rights(self, request: Request) -> Rights | None:
        """Return the rights of a request's client; None if everything is allowed."""
        authorizer, audit = self.authorizer, self.audit
        if authorizer is None:
            return None
        principal, host = request.principal, request.peer_host
        refused = None if audit is None else partial(audit.request_refused, principal, host, request.api.name)
        return authorizer.rights(principal, host, refused)

    def led_partition(self, topic: str, index: int) -> Partition:
        """Return the partition if this broker leads it. Raises KafkaError with Kafka's error code otherwise."""
        partition = self.partitions.get(topic, index)
        if partition is not None:
            return partition
        state = self.image.partition(topic, index)
        if state is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{index} does not exist")
        if state.leader != self.config.node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} is led by broker {state.leader}")
        reason = self.partitions.unavailable.get((topic, index))
        if reason is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} is not available: {reason}")
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} is just being opened")

    async def change(
        self,
        decide: Callable[[ClusterImage], MetadataDecision[Result]],
        *,
        validate_only: bool = False,
        unstored: Callable[[Refusal], Sequence[Result]],
    ) -> Sequence[Result]:
        """Decide a change of the metadata and commit it, or with ``validate_only`` only decide. Returns the results.

        When this returns, a commit has taken effect: the logs are made or gone. ``unstored`` makes the results if the
        metadata store cannot commit.
        """
        if validate_only:
            return decide(self.image).results
        while True:
            try:
                decision = await self.cluster.change(partial(self._decide, decide))
            except _StillThere:
                await self.settled()
                continue
            except _TooLarge as error:
                return unstored(Refusal(ErrorCode.POLICY_VIOLATION, str(error)))
            except StorageError as error:
                logger.error("the cluster could not be changed: %s", error)
                return unstored(Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
            await self.settled()
            return decision.results

    async def change_topics(
        self,
        wanted: Sequence[Wanted],
        decide: Callable[[ClusterImage, Sequence[Wanted]], MetadataDecision[TopicResult]],
        *,
        validate_only: bool = False,
    ) -> Sequence[TopicResult]:
        """Like ``change``, for topics that succeed or fail independently: in one commit, or in several if the store
        cannot take all of them in one."""

        async def commit(some: Sequence[Wanted]) -> Sequence[TopicResult]:
            return await self.change(
                lambda image: decide(image, some),
                validate_only=validate_only,
                unstored=lambda refusal: [TopicResult(one.name, refusal=refusal, id=one.id) for one in some],
            )

        if validate_only or self.cluster.takes_any_commit:
            return await commit(wanted)
        decision = decide(self.image, wanted)
        if self.cluster.fits_one_commit(decision.changes):
            return await commit(wanted)
        refused = {(result.name, result.id) for result in decision.results if result.refusal is not None}
        accepted = [one for one in wanted if (one.name, one.id) not in refused]
        results: dict[str | None, TopicResult] = {}
        parts = [accepted] if accepted else []
        while parts:
            some = parts.pop(0)
            if len(some) > 1 and not self.cluster.fits_one_commit(decide(self.image, some).changes):
                half = len(some) // 2
                parts[:0] = some[:half], some[half:]
            else:
                results |= {result.name: result for result in await commit(some)}
        return [
            result if result.refusal is not None else results.get(result.name, result) for result in decision.results
        ]

    def _decide(
        self, decide: Callable[[ClusterImage], MetadataDecision[Result]], image: ClusterImage
    ) -> MetadataDecision[Result]:
        """Decide, but raise _StillThere if a topic would be created while the logs of a former one have its name, and
        _TooLarge if a topic would outgrow the metadata store."""
        decision = decide(image)
        for change in decision.changes:
            if isinstance(change, TopicCreated | TopicAltered) and self.cluster.outgrows_commits(change):
                raise _TooLarge(
                    f"Topic '{change.topic.name}' would be too large for the metadata store: with "
                    f"{len(change.topic.partitions)} partitions and {len(change.topic.configs)} configs"
                )
        if self.deleting:
            for change in decision.changes:
                if isinstance(change, TopicCreated) and change.topic.name in self.deleting:
                    raise _StillThere
        return decision

    def load_quotas(self) -> None:
        """Apply the quotas of the image: from now on clients are limited by them."""
        quotas = {} if self.image.security is None else self.image.security.quotas
        if not quotas:
            self.quotas = None
            return
        if self.quotas is None:
            from semel.broker.quotas.client_quotas import ClientQuotas
            from semel.security.quotas import Windows

            config = self.config
            windows = Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)
            mutations = Windows(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000)
            self.quotas = ClientQuotas(self.clock, self.metrics.throttled, windows, mutations)
        self.quotas.load(quotas)

    def new_topic_id(self) -> UUID:
        return random_uuid(self.random)

    def _default_replication_factor(self) -> int:
        if self.config.default_replication_factor is not None:
            return self.config.default_replication_factor
        return REPLICAS_BY_DEFAULT if self._has_brokers(REPLICAS_BY_DEFAULT) else 1

    def _has_brokers(self, count: int) -> bool:
        """Whether the cluster has at least ``count`` brokers.

        Brokers count if they are registered, or if they have replicas of a partition and are not registered now. So a
        topic that is created while brokers are down is refused. It would otherwise have fewer replicas than the others
        for ever.
        """
        known = set(self.image.brokers)
        if len(known) >= count or self.peers is None:
            return len(known) >= count
        for topic in self.image.topics.values():
            for state in topic.partitions:
                known.update(state.replicas)
            if len(known) >= count:
                return True
        return False

    def topic_policy(self) -> TopicPolicy:
        config = self.config
        partitions_max, rule = config.max_partitions, "max.partitions"
        by_files = self.descriptors.partitions_max()
        if by_files is not None and by_files < partitions_max:
            partitions_max = by_files
            rule = (
                f"what the limit of open files (ulimit -n, LimitNOFILE), {self.descriptors.limit}, leaves to partitions"
            )
        return TopicPolicy(
            num_partitions=config.num_partitions,
            default_replication_factor=self._default_replication_factor(),
            partitions_max=partitions_max,
            partitions_rule=rule,
            delete_topic_enable=config.delete_topic_enable,
            log_defaults=config.log,
        )
