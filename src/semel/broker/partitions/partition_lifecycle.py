"""What the cluster's image means for this broker: which logs it keeps, with which settings.

The metadata is the truth and the logs follow it: a topic exists once the metadata store has it, and a log that is
missing is made, one that belongs to no topic is removed, now or at the next start. A log that cannot be made leaves its
partition unavailable (KAFKA_STORAGE_ERROR) and everything else as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final, assert_never
from uuid import UUID

from semel.broker.config.broker_config import BrokerConfig, Flush
from semel.broker.node import Node
from semel.errors import StorageError
from semel.log.config import LogConfig
from semel.log.disk import NO_ROOM
from semel.log.topic_logs import TopicLogs
from semel.metadata.image import (
    BrokerConfigsAltered,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ClusterImage,
    Topic,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
)
from semel.types import TopicPartition

logger = logging.getLogger("semel.broker")

LOGS_MS_PER_TURN: Final = 5.0
LOGS_PER_TURN: Final = 100

# In place of a partition, after all those of a topic that was deleted.
_ALL_ARE_DELETED: Final = -1


def topic_logs(topic: Topic, config: BrokerConfig) -> TopicLogs:
    """How the logs of a topic are kept here."""
    return TopicLogs(
        topic_id=topic.id,
        config=LogConfig.from_settings(topic.configs, config.log),
        synced=config.flush is Flush.COMMIT or topic.is_internal,
        partitions=tuple(index for index, state in enumerate(topic.partitions) if config.node_id in state.replicas),
    )


class PartitionLifecycle:
    """Keeps logs and partitions equal to the image. Watches ``ClusterMetadata``.

    Making or deleting a log means waiting for the disk, so that is done to a few per turn of the loop: a topic of a
    thousand partitions keeps no other request waiting. ``settled`` waits until all are there, or gone. All that is to
    be done stands in one line, and no topic is made while a former one of its name stands there (``Node.change``).
    """

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._to_do: deque[tuple[Topic, int]] = deque()
        self._scheduled: asyncio.Handle | None = None
        self._deleting: set[UUID] = set()
        self._waiting: list[asyncio.Future[None]] = []
        node.settled = self.settled
        node.open_unavailable = self.open_unavailable

    def open_all(self) -> None:
        """After the logs were loaded: make those that are missing, and serve them all."""
        for topic in self._node.image.topics.values():
            for index in range(len(topic.partitions)):
                self._open(topic, index)

    def changed(self, before: ClusterImage, after: ClusterImage, changes: Sequence[Change]) -> None:
        self._node.answers.clear()
        for change in changes:
            match change:
                case TopicCreated(topic):
                    self._open_soon(topic)
                case TopicAltered(topic):
                    self._reconfigure(topic)
                    self._lead(topic)
                    self._open_soon(topic)
                case TopicDeleted(topic):
                    self._remove(topic)
                case BrokerConfigsAltered():
                    self._reconfigure_broker(after)
                case BrokerRegistered() | BrokerUnregistered():
                    pass
                case _:
                    assert_never(change)

    def open_unavailable(self) -> None:
        """Called now and then: the disk may have room again for the logs that could not be made."""
        for name, index in list(self._node.partitions.unavailable):
            topic = self._node.image.topics.get(name)
            if topic is None or index >= len(topic.partitions):
                del self._node.partitions.unavailable[name, index]
            else:
                self._open(topic, index)

    async def settled(self) -> None:
        if self._to_do:
            waiting: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(waiting)
            await waiting

    def close(self) -> None:
        if self._scheduled is not None:
            self._scheduled.cancel()

    def _open_soon(self, topic: Topic) -> None:
        known = self._node.partitions
        self._to_do += (
            (topic, index) for index in range(len(topic.partitions)) if known.get(topic.name, index) is None
        )
        self._begin()

    def _begin(self) -> None:
        if self._to_do and self._scheduled is None:
            self._do_some()

    def _do_some(self) -> None:
        self._scheduled = None
        clock = self._node.clock
        until_ms = clock.monotonic_ms() + LOGS_MS_PER_TURN
        done = 0
        while self._to_do and done < LOGS_PER_TURN and clock.monotonic_ms() < until_ms:
            topic, index = self._to_do.popleft()
            done += 1
            if topic.id in self._deleting:
                self._delete(topic, index)
            elif topic.id in self._node.image.topics_by_id:  # It may have been deleted while it waited.
                self._open(topic, index)
        self._node.turns.worked(done)
        if self._to_do:
            self._scheduled = self._loop.call_soon(self._do_some)
            return
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _open(self, topic: Topic, index: int) -> None:
        node = self._node
        state = topic.partitions[index]
        if node.config.node_id not in state.replicas or node.partitions.get(topic.name, index) is not None:
            return
        topic_partition = TopicPartition(topic.name, index)
        if (unavailable := node.logs.unavailable.get(topic_partition)) is not None:
            node.partitions.unavailable[topic_partition] = unavailable.reason
            return
        try:
            log = node.logs.get(topic_partition) or node.logs.create(topic_partition, topic_logs(topic, node.config))
        except (OSError, StorageError) as error:
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                node.logs.refusals.refused(topic_partition, error)
            elif topic_partition not in node.partitions.unavailable:
                logger.error("the log of %s could not be made, and is tried again: %s", topic_partition, error)
            node.partitions.unavailable[topic_partition] = f"its log could not be made: {error}"
            return
        log.set_leader_epoch(state.leader_epoch)
        node.partitions.add(log, leader_epoch=state.leader_epoch)

    def _reconfigure(self, topic: Topic) -> None:
        config = topic_logs(topic, self._node.config).config
        for index in range(len(topic.partitions)):
            partition = self._node.partitions.get(topic.name, index)
            if partition is not None:
                partition.log.config = config

    def _lead(self, topic: Topic) -> None:
        """A new term of leadership: what is appended from now on carries its epoch."""
        for index, state in enumerate(topic.partitions):
            partition = self._node.partitions.get(topic.name, index)
            if partition is not None and partition.leader_epoch != state.leader_epoch:
                partition.leader_epoch = state.leader_epoch
                partition.log.set_leader_epoch(state.leader_epoch)

    def _remove(self, topic: Topic) -> None:
        node = self._node
        for index in range(len(topic.partitions)):
            node.partitions.remove(TopicPartition(topic.name, index))
        self._deleting.add(topic.id)
        node.deleting[topic.name] += 1
        self._to_do += ((topic, index) for index in range(len(topic.partitions)))
        self._to_do.append((topic, _ALL_ARE_DELETED))
        self._begin()

    def _delete(self, topic: Topic, index: int) -> None:
        node = self._node
        if index == _ALL_ARE_DELETED:
            try:
                node.logs.names_settled()
            except OSError as error:
                if error.errno in NO_ROOM:
                    node.logs.refusals.refused("the checkpoint files", error)
                else:
                    logger.error("a power cut may bring back the files of %s: %s", topic.name, error)
            self._deleting.discard(topic.id)
            node.deleting -= Counter([topic.name])
            return
        topic_partition = TopicPartition(topic.name, index)
        log = node.logs.get(topic_partition)
        if log is not None and node.cleaner is not None:
            node.cleaner.abort(log)
        try:
            node.logs.delete(topic_partition)
        except OSError as error:
            logger.error("the files of %s stay until the next start: %s", topic_partition, error)

    def _reconfigure_broker(self, image: ClusterImage) -> None:
        node = self._node
        node.config = node.config.altered(
            dynamic_default=image.broker_configs.get(None, {}),
            dynamic=image.broker_configs.get(node.config.node_id, {}),
        )
        for topic in image.topics.values():
            self._reconfigure(topic)
