"""What a request handler may reach: the parts of one running broker, under one name."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.fetch.fetch_sessions import FetchSessions
from semel.broker.metrics.metrics import Metrics
from semel.broker.network.answer_cache import AnswerCache
from semel.broker.network.descriptors import Descriptors
from semel.broker.partitions.partitions import Partition, Partitions
from semel.broker.produce.record_checks import RecordChecks
from semel.broker.requests.features import Features
from semel.broker.turns import Turns
from semel.broker.waiting.deadlines import Deadlines
from semel.clock import Clock
from semel.coordinator.producer_ids import ProducerIds
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.log.directory import LogDirectory
from semel.metadata.cluster import ClusterMetadata
from semel.metadata.controller import Decision, Refusal, TopicPolicy
from semel.metadata.image import ClusterImage, TopicCreated

if TYPE_CHECKING:
    from semel.broker.coordinators.coordinators import Coordinators
    from semel.log.compaction.cleaner import LogCleaner

logger = logging.getLogger("semel.broker")

Result = TypeVar("Result")


class _StillThere(Exception):
    """The logs of a topic that was deleted are still there, and one of its name is to be made."""


async def _at_once() -> None:
    """Until partitions are hosted, there is nothing to wait for."""


def _nothing_is_unavailable() -> None:
    """Until logs are hosted."""


def _without_coordinators() -> Coordinators:
    raise AssertionError("a node without coordinators")


@dataclass(slots=True, eq=False)
class Node:
    config: BrokerConfig
    clock: Clock
    random: Random
    metrics: Metrics
    answers: AnswerCache
    features: Features
    cluster: ClusterMetadata
    logs: LogDirectory
    partitions: Partitions
    deadlines: Deadlines
    sessions: FetchSessions
    producer_ids: ProducerIds
    record_checks: RecordChecks
    turns: Turns
    descriptors: Descriptors = field(default_factory=Descriptors)
    make_coordinators: Callable[[], Coordinators] = field(default=_without_coordinators)
    active_coordinators: Coordinators | None = None
    """Those of transactions and groups, once a request has needed them."""
    cleaner: LogCleaner | None = None
    """Compaction, once it has been looked for."""
    settled: Callable[[], Awaitable[None]] = field(default=_at_once)
    """Waits until the logs have caught up with the image."""
    deleting: Counter[str] = field(default_factory=Counter)
    """Names of topics that were deleted and whose logs are still there."""
    open_unavailable: Callable[[], None] = field(default=_nothing_is_unavailable)
    """Tries again to make the logs that could not be made."""

    @property
    def coordinators(self) -> Coordinators:
        return self.active_coordinators or self.coordinate()

    def coordinate(self) -> Coordinators:
        """Take up the coordinators: their shards are loaded from now on."""
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

    def led_partition(self, topic: str, index: int) -> Partition:
        """The partition, if this broker leads it. Raises KafkaError with Kafka's code for why not."""
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
        decide: Callable[[ClusterImage], Decision[Result]],
        *,
        validate_only: bool = False,
        unstored: Callable[[Refusal], Sequence[Result]],
    ) -> Sequence[Result]:
        """Decide and commit, or only decide. The results are true once this returns.

        ``unstored`` makes the results for the case that the metadata store cannot take changes any more.
        """
        if validate_only:
            return decide(self.image).results
        while True:
            try:
                decision = await self.cluster.change(partial(self._decide, decide))
            except _StillThere:
                await self.settled()
                continue
            except StorageError as error:
                logger.error("the cluster could not be changed: %s", error)
                return unstored(Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
            await self.settled()
            return decision.results

    def _decide(self, decide: Callable[[ClusterImage], Decision[Result]], image: ClusterImage) -> Decision[Result]:
        """Not before the logs of a former topic have other names does the metadata say that there is a new one."""
        decision = decide(image)
        if self.deleting:
            for change in decision.changes:
                if isinstance(change, TopicCreated) and change.topic.name in self.deleting:
                    raise _StillThere
        return decision

    def new_topic_id(self) -> UUID:
        return UUID(int=self.random.getrandbits(128), version=4)

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
            default_replication_factor=config.default_replication_factor,
            partitions_max=partitions_max,
            partitions_rule=rule,
            delete_topic_enable=config.delete_topic_enable,
            log_defaults=config.log,
        )
