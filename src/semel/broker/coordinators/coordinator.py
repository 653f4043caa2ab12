"""A coordinator: all shards of one internal topic, which of them serves an id, and the topic itself.

The hash of an id determines its partition, and the broker that leads this partition serves the id. The law: a request
is only served by the shard that is, at this moment, the one for its id. A client that asks the wrong broker, or before
the shard is loaded, gets the error code to which Kafka's clients react correctly (NOT_COORDINATOR: find the coordinator
again; COORDINATOR_LOAD_IN_PROGRESS: send the request again).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, Generic

from semel.broker.coordinators.internal_topics import brokers_needed, internal_topic, partition_count
from semel.broker.coordinators.shard_loading import LoadingQueue, ShardLoading
from semel.broker.coordinators.shard_runtime import AnyShard, Decide, DelayedRequest, Response, ShardRuntime
from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.coordinator.decision import Waiter
from semel.coordinator.partitioning import partition_for
from semel.errors import ErrorCode
from semel.metadata.controller import MetadataDecision, TopicResult, create_topics
from semel.metadata.image import Broker, ClusterImage, TopicAltered
from semel.types import ProducerIdentity

logger = logging.getLogger("semel.broker")

# How long a request waits at most for the internal topic that is created for it.
CREATION_SECONDS_MAX: Final = 5.0


def _no_effects(runtime: ShardRuntime[Any], effect: object) -> None:
    raise AssertionError(f"{effect!r} of a shard that has no effects")


def _nothing_more(runtime: ShardRuntime[Any]) -> None:
    """The ``loaded`` of a coordinator for which nothing has to be done when a shard is loaded."""


class Coordinator(Generic[AnyShard]):
    """The shards of one internal topic that this broker leads.

    ``carry_out`` does an effect of a decision, once its records are committed. ``loaded`` is called with the runtime of
    each shard that was loaded.
    """

    def __init__(
        self,
        topic: str,
        node: Node,
        loop: asyncio.AbstractEventLoop,
        *,
        make_shard: Callable[[Partition], AnyShard],
        carry_out: Callable[[ShardRuntime[AnyShard], Any], None] = _no_effects,
        loaded: Callable[[ShardRuntime[AnyShard]], None] = _nothing_more,
    ) -> None:
        self.topic = topic
        self._node = node
        self._loop = loop
        self._make_shard = make_shard
        self._carry_out = carry_out
        self._loaded = loaded
        self._runtimes: dict[int, ShardRuntime[AnyShard]] = {}
        self._loading = LoadingQueue(loop)
        self._moved_partitions: set[int] = set()

    def __iter__(self) -> Iterator[ShardRuntime[AnyShard]]:
        """Iterate over the runtimes of the shards that this broker leads, loaded or not."""
        return iter(list(self._runtimes.values()))

    # The broker and the shard that serve an id.

    def partition_for(self, key: str) -> int:
        topic = self._node.image.topics.get(self.topic)
        count = partition_count(self.topic, self._node.config) if topic is None else len(topic.partitions)
        return partition_for(key, count)

    def broker_for(self, key: str) -> Broker | None:
        """Return the broker that serves the id; ``None`` if no registered broker does."""
        image = self._node.image
        state = image.partition(self.topic, self.partition_for(key))
        return None if state is None or state.leader is None else image.brokers.get(state.leader)

    def elsewhere(self, key: str) -> int | None:
        """Return the id of the other broker that leads the id's partition; ``None`` if this one does, or none."""
        state = self._node.image.partition(self.topic, self.partition_for(key))
        leader = None if state is None else state.leader
        return None if leader == self._node.config.node_id else leader

    def why_broken(self, key: str) -> str | None:
        """Return why the id cannot be served until its partition is repaired; ``None`` if the partition is sound, or if
        another broker leads it."""
        topic_partition = (self.topic, self.partition_for(key))
        if self.elsewhere(key) is not None:
            return None
        reason = self._node.partitions.unavailable.get(topic_partition)
        if reason is None and (led := self._node.partitions.get(*topic_partition)) is not None:
            if led.log.offline is not None and led.others_are_in_sync:
                return None  # This broker resigns, and one of the others is about to lead the partition.
            reason = led.log.offline
        if reason is None and (runtime := self._runtimes.get(topic_partition[1])) is not None:
            reason = runtime.failure
        return None if reason is None else f"{self.topic}-{topic_partition[1]} is offline: {reason}"

    @property
    def has_broken_shards(self) -> bool:
        """Whether some of the topic's partitions could not be opened, so that the loaded shards lack some ids."""
        return any(topic == self.topic for topic, _ in self._node.partitions.unavailable)

    @property
    def all_led_shards_loaded(self) -> bool:
        """Whether every shard that this broker leads by the image is loaded, under the image's leader epoch."""
        topic = self._node.image.topics.get(self.topic)
        for index, state in enumerate(() if topic is None else topic.partitions):
            if state.leader == self._node.config.node_id:
                runtime = self._runtimes.get(index)
                if runtime is None or runtime.refusal is not None or runtime.epoch != state.leader_epoch:
                    return False
        return True

    def runtime(self, partition: int) -> ShardRuntime[AnyShard] | None:
        return self._runtimes.get(partition)

    def run(
        self,
        key: str,
        decide: Decide[AnyShard, Response],
        waiter: Waiter[Response],
        *,
        producer: ProducerIdentity | None = None,
        is_confirmed: bool = True,
    ) -> DelayedRequest | None:
        """Run a request in the shard of this id; see ``ShardRuntime.run``."""
        partition = self.partition_for(key)
        runtime = self._runtimes.get(partition)
        if runtime is None:
            waiter.refuse(self._why_absent(partition))
            return None
        return runtime.run(decide, waiter, producer=producer, is_confirmed=is_confirmed)

    def _why_absent(self, partition: int) -> ErrorCode:
        node = self._node
        state = node.image.partition(self.topic, partition)
        if partition in self._moved_partitions or state is None or state.leader != node.config.node_id:
            return ErrorCode.NOT_COORDINATOR
        if (self.topic, partition) in node.partitions.unavailable:
            return ErrorCode.NOT_COORDINATOR  # FindCoordinator then gives the final answer.
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    # The topic.

    async def create_topic(self) -> bool:
        """Create the internal topic if it does not exist. Returns whether it exists now.

        Returns False if the cluster has too few brokers, or if it took longer than ``CREATION_SECONDS_MAX``.
        """
        node = self._node
        if self.topic in node.image.topics:
            return True
        needed = brokers_needed(self.topic, node.config)
        if node.peers is not None and len(node.image.brokers) < needed:
            logger.warning(
                "%s is not made before %d brokers are here; there are %d", self.topic, needed, len(node.image.brokers)
            )
            return False
        try:
            return await asyncio.wait_for(self._create_topic(), CREATION_SECONDS_MAX)
        except TimeoutError:
            return False

    async def _create_topic(self) -> bool:
        node = self._node

        def decide(image: ClusterImage) -> MetadataDecision[TopicResult]:
            if self.topic in image.topics:
                return MetadataDecision((), ())  # Created meanwhile, for another client.
            wanted = internal_topic(self.topic, node.config)
            return create_topics(image, [wanted], policy=node.topic_policy(), new_id=node.new_topic_id)

        results = await node.change(decide, unstored=lambda refusal: [TopicResult(self.topic, refusal=refusal)])
        for result in results:
            if result.refusal is not None:
                logger.error("%s could not be made: %s", self.topic, result.refusal.message)
        return self.topic in node.image.topics

    # Terms of leadership.

    def load(self, partition: Partition) -> None:
        """Create the shard of a partition that this broker leads now, and load it. Its epoch is the leader epoch."""
        index = partition.topic_partition.partition
        self.unload(index)
        if index in self._moved_partitions:
            return
        runtime = self._runtimes[index] = ShardRuntime(
            partition,
            self._make_shard(partition),
            clock=self._node.clock,
            deadlines=self._node.deadlines,
            carry_out=self._carry_out,
        )
        ShardLoading(
            runtime,
            loop=self._loop,
            clock=self._node.clock,
            loaded=self._loaded,
            report_damage=self._node.logs.report_damage,
            queue=self._loading,
        ).begin()

    def unload(self, partition: int) -> None:
        """Unload the shard of a partition that this broker no longer leads or serves; its requests are refused."""
        runtime = self._runtimes.pop(partition, None)
        if runtime is not None:
            runtime.unload()

    def unload_all(self) -> None:
        for partition in list(self._runtimes):
            self.unload(partition)

    async def move(self, partition: int, *, away_ms: float = 0) -> None:
        """Imitate a failover of the partition to another broker and back, as its clients see it.

        The shard is unloaded, and its requests are answered with NOT_COORDINATOR for ``away_ms``. Then it is loaded
        again under a higher leader epoch.
        """
        node = self._node
        self._moved_partitions.add(partition)
        try:
            self.unload(partition)
            await node.cluster.change(lambda image: _with_higher_epoch(image, self.topic, partition))
            await asyncio.sleep(away_ms / 1000)
        finally:
            self._moved_partitions.discard(partition)
        led = node.partitions.get(self.topic, partition)
        if led is not None:
            self.load(led)


def _with_higher_epoch(image: ClusterImage, topic_name: str, partition: int) -> MetadataDecision[None]:
    topic = image.topics[topic_name]
    states = list(topic.partitions)
    states[partition] = replace(states[partition], leader_epoch=states[partition].leader_epoch + 1)
    return MetadataDecision((TopicAltered(replace(topic, partitions=tuple(states))),), ())
