"""Applies the cluster's image to this broker: which logs it has, with which settings, and which partitions it leads.

The logs follow the metadata: a topic exists once the metadata store has it. A log that is missing is made, and one that
belongs to no topic is removed, now or at the next start. If a log cannot be made, its partition is unavailable
(KAFKA_STORAGE_ERROR), and no other partition is affected.

This broker leads a partition while the image names it as the leader and it is a member of the cluster
(``Node.is_member``). A new leader epoch is a new term. While the image names another leader, this broker follows that
one (``broker/replication``).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from semel.broker.config.broker_config import BrokerConfig, FlushPolicy
from semel.broker.config.ignored_settings import note_ignored
from semel.broker.node import Node
from semel.errors import StorageError
from semel.log.config import LogConfig
from semel.log.directory import LogDirectory
from semel.log.disk import NO_ROOM
from semel.log.partition_folders import FolderOutcome
from semel.log.partition_log import PartitionLog
from semel.log.topic_logs import TopicLogs
from semel.metadata.image import (
    BrokerConfigsAltered,
    Change,
    ClusterImage,
    PartitionState,
    Topic,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
)
from semel.types import INTERNAL_TOPICS, TopicPartition

logger = logging.getLogger("semel.broker")

LOGS_MS_PER_TURN: Final = 5.0
LOGS_PER_TURN: Final = 100
"""How many logs at most are made or deleted as one job of the worker."""

# A queue entry with this in place of a partition follows those of all partitions of a deleted topic.
_ALL_ARE_DELETED: Final = -1


def topic_logs(topic: Topic, config: BrokerConfig) -> TopicLogs:
    """Return the description of a topic's logs on this broker: their settings, and which partitions have one here."""
    return TopicLogs(
        topic_id=topic.id,
        config=LogConfig.from_settings(topic.configs, config.log),
        synced=config.flush is FlushPolicy.COMMIT or topic.is_internal,
        partitions=tuple(index for index, state in enumerate(topic.partitions) if config.node_id in state.replicas),
        replicated=frozenset(index for index, state in enumerate(topic.partitions) if len(state.replicas) > 1),
        in_sync_elsewhere=frozenset(
            index
            for index, state in enumerate(topic.partitions)
            if any(replica != config.node_id for replica in state.isr)
        ),
    )


def lost_replicas(image: ClusterImage, logs: LogDirectory, config: BrokerConfig) -> frozenset[TopicPartition]:
    """Return the partitions whose log here may lack records that this broker has acknowledged, and others may have.

    Their logs were lost with a disk, or are damaged, or were not synced when the machine died. A log that is missing in
    a sound directory was not made yet, so this broker has acknowledged nothing in it. Called once the logs are loaded.
    """

    def may_lack(topic_partition: TopicPartition) -> bool:
        log = logs.get(topic_partition)
        if log is None:
            return topic_partition in logs.unavailable
        was_unsynced = logs.was_unsynced and topic_partition.topic not in INTERNAL_TOPICS
        return log.has_lost_acknowledged_records or (logs.machine_died and (was_unsynced or not log.is_synced))

    return frozenset(
        topic_partition
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if config.node_id in state.replicas
        and len(state.replicas) > 1
        and may_lack(topic_partition := TopicPartition(topic.name, index))
    )


class PartitionLifecycle:
    """Makes, opens and deletes logs, and begins and ends terms, as the image changes. Watches ``ClusterMetadata``.

    To make or delete a log is to wait for the disk, so a worker does that, for a limited number of logs at a time
    (``LogDirectory.change``). When the worker has made a log, this broker leads it if the image then says so.
    ``settled`` waits until all logs are made or deleted. All this work waits in one queue, and no topic is created
    while a deleted one of the same name is in the queue (``Node.change``).
    """

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._to_do: deque[tuple[Topic, int]] = deque()
        self._scheduled: asyncio.Handle | None = None
        self._is_changing = False  # Whether the worker is making or deleting logs.
        self._is_closed = False
        self._deleting: set[UUID] = set()
        self._waiting: list[asyncio.Future[None]] = []
        node.settled = self.settled
        if node.replicas is not None:
            node.replicas.on_changed = self._has_changed
        node.open_unavailable = self.open_unavailable

    def open_all(self) -> None:
        """Make the logs that are missing, and lead or follow all partitions. Called after the logs were loaded."""
        node = self._node
        for topic in node.image.topics.values():
            for index, state in enumerate(topic.partitions):
                if self._needs_log(topic, index):
                    topic_partition = TopicPartition(topic.name, index)
                    try:
                        log = node.logs.create(topic_partition, topic_logs(topic, node.config))
                    except (OSError, StorageError) as error:
                        self._not_made(topic_partition, error)
                    else:
                        self._lead_or_follow(log, state)

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
                case _:
                    pass  # Brokers, the controller, security: no change of logs.
        self._begin()

    def lead_all(self) -> None:
        """Begin the terms that the image gives to this broker, a few in each turn of the event loop. Called when the
        broker has become a member."""
        for topic in self._node.image.topics.values():
            self._open_soon(topic)
        self._begin()

    def resign_all(self) -> None:
        """Stop leading and following all partitions. Called when this broker is no longer a member."""
        for partition in self._node.partitions:
            self._node.partitions.resign(partition.topic_partition)
        if self._node.replicas is not None:
            self._node.replicas.unfollow_all()

    def open_unavailable(self) -> None:
        """Try again to make the logs that could not be made: the disk may have room again. Called periodically."""
        if self._to_do or self._is_changing:
            return
        for name, index in list(self._node.partitions.unavailable):
            topic = self._node.image.topics.get(name)
            if topic is None or index >= len(topic.partitions):
                del self._node.partitions.unavailable[name, index]
            else:
                self._to_do.append((topic, index))
        self._begin()

    async def settled(self) -> None:
        if self._to_do or self._is_changing:
            waiting: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(waiting)
            await waiting

    def close(self) -> None:
        self._is_closed = True
        if self._scheduled is not None:
            self._scheduled.cancel()

    def _open_soon(self, topic: Topic) -> None:
        self._to_do += (
            (topic, index) for index in range(len(topic.partitions)) if not self._is_led_or_followed(topic.name, index)
        )

    def _begin(self) -> None:
        if self._to_do and self._scheduled is None and not self._is_changing:
            self._do_some()

    def _do_some(self) -> None:
        """Do some of the queued work: open logs that exist, and let the worker make and delete the others."""
        self._scheduled = None
        clock = self._node.clock
        until_ms = clock.monotonic_ms() + LOGS_MS_PER_TURN
        deleted: list[TopicPartition] = []
        all_deleted: list[Topic] = []
        wanted: dict[TopicPartition, TopicLogs] = {}
        described: dict[UUID, TopicLogs] = {}
        done = 0
        while self._to_do and done < LOGS_PER_TURN and clock.monotonic_ms() < until_ms:
            topic, index = self._to_do.popleft()
            done += 1
            if topic.id not in self._deleting:
                known = self._node.image.topics_by_id.get(topic.id)
                if known is not None and self._needs_log(known, index):  # Not deleted while it waited.
                    if known.id not in described:
                        described[known.id] = topic_logs(known, self._node.config)
                    wanted[TopicPartition(topic.name, index)] = described[known.id]
            elif index == _ALL_ARE_DELETED:
                all_deleted.append(topic)
            else:
                deleted.append(TopicPartition(topic.name, index))
        self._node.turns.worked(done)
        if deleted or all_deleted or wanted:
            self._stop_cleaning(deleted)
            self._is_changing = True
            self._node.logs.change(
                partial(self._have_changed, all_deleted), deleted=deleted, settled=bool(all_deleted), wanted=wanted
            )
        else:
            self._go_on()

    def _go_on(self) -> None:
        if self._to_do:
            self._scheduled = self._loop.call_soon(self._do_some)
            return
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _have_changed(self, all_deleted: Sequence[Topic], outcome: FolderOutcome) -> None:
        if self._is_closed:
            return
        self._is_changing = False
        try:
            self._lead_made(outcome.made.values())
            for topic_partition, error in outcome.failed.items():
                self._not_made(topic_partition, error)
            for topic in all_deleted:
                self._all_are_deleted(topic, outcome.unsettled)
        finally:
            self._go_on()

    def _needs_log(self, topic: Topic, index: int) -> bool:
        """Lead or follow the partition if its log exists. Returns whether the log has to be made first."""
        node = self._node
        state = topic.partitions[index]
        if node.config.node_id not in state.replicas or self._is_led_or_followed(topic.name, index):
            return False
        topic_partition = TopicPartition(topic.name, index)
        unavailable, log = node.logs.unavailable.get(topic_partition), node.logs.get(topic_partition)
        # An existing log may belong to a deleted topic of the same name. It is removed by the change that makes the new
        # log.
        if unavailable is not None and unavailable.topic_id == topic.id:
            node.partitions.unavailable[topic_partition] = unavailable.reason
            return False
        if log is not None and log.topic_id == topic.id:
            self._lead_or_follow(log, state)
            return False
        return True

    def _lead_made(self, logs: Iterable[PartitionLog]) -> None:
        """Lead or follow the partitions of logs that were made, according to the image as it is now."""
        node = self._node
        configs: dict[UUID, LogConfig] = {}
        for log in logs:
            node.partitions.unavailable.pop(log.topic_partition, None)
            topic = node.image.topics_by_id.get(log.topic_id)
            if topic is None:
                continue  # The deletion of this log is in the queue.
            if topic.id not in configs:
                configs[topic.id] = topic_logs(topic, node.config).config
            log.config = configs[topic.id]
            self._lead_or_follow(log, topic.partitions[log.partition])

    def _not_made(self, topic_partition: TopicPartition, error: Exception) -> None:
        node = self._node
        if node.image.partition(*topic_partition) is None:
            return
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            node.logs.refusals.refused(topic_partition, error)
        elif topic_partition not in node.partitions.unavailable:
            logger.error("the log of %s could not be made, and is tried again: %s", topic_partition, error)
        node.partitions.unavailable[topic_partition] = f"its log could not be made: {error}"
        if node.replicas is not None:
            node.replicas.in_sync.give_up(topic_partition)  # Others may have a log to lead with.

    def _is_led_or_followed(self, topic: str, index: int) -> bool:
        """Whether the partition is led or followed here."""
        replicas = self._node.replicas
        return self._node.partitions.get(topic, index) is not None or (
            replicas is not None and replicas.follows(TopicPartition(topic, index))
        )

    def _lead_or_follow(self, log: PartitionLog, state: PartitionState) -> None:
        """Lead the partition under its leader epoch, or follow its leader, as ``state`` says."""
        node, replicas = self._node, self._node.replicas
        if replicas is not None and replicas.is_changing(log.topic_partition):
            # Its log is being truncated. ``_has_changed`` leads or follows the partition after that.
            replicas.unfollow(log.topic_partition)
            return
        if self._leads(state):
            replica_set = None
            if replicas is not None:
                replicas.unfollow(log.topic_partition)
                replica_set = replicas.replica_set(log, state)
            log.set_leader_epoch(state.leader_epoch)
            node.partitions.add(log, leader_epoch=state.leader_epoch, replicas=replica_set)
        elif replicas is not None and node.is_member:
            replicas.follow(log, state)

    def _has_changed(self, topic_partition: TopicPartition) -> None:
        """Lead or follow, by the current image, a partition whose log was being truncated when its leader changed."""
        log, state = self._node.logs.get(topic_partition), self._node.image.partition(*topic_partition)
        topic = self._node.image.topics.get(topic_partition.topic)
        if log is None or state is None or topic is None or topic.id != log.topic_id:
            return
        if not self._is_led_or_followed(*topic_partition):
            self._lead_or_follow(log, state)

    def _leads(self, state: PartitionState) -> bool:
        return self._node.is_member and state.leader == self._node.config.node_id

    def _reconfigure(self, topic: Topic) -> None:
        config = topic_logs(topic, self._node.config).config
        for index in range(len(topic.partitions)):
            log = self._node.logs.get(TopicPartition(topic.name, index))
            if log is not None:
                log.config = config
            partition = self._node.partitions.get(topic.name, index)
            if partition is not None and partition.replicas is not None:
                partition.require_in_sync(config.min_insync_replicas)

    def _lead(self, topic: Topic) -> None:
        """End the terms of a topic that the image has ended, and begin the new ones, as leader or follower."""
        node = self._node
        for index, state in enumerate(topic.partitions):
            partition = node.partitions.get(topic.name, index)
            if partition is None:
                if node.replicas is not None:
                    self._follow(TopicPartition(topic.name, index), state)
            elif partition.leader_epoch != state.leader_epoch or not self._leads(state):
                node.partitions.resign(partition.topic_partition)
                self._lead_or_follow(partition.log, state)
            elif partition.replicas is not None:
                partition.isr_changed(state.isr)

    def _follow(self, topic_partition: TopicPartition, state: PartitionState) -> None:
        """Follow another leader or term, or begin to lead, if the partition was followed here until now."""
        replicas = self._node.replicas
        if replicas is not None and replicas.follows(topic_partition):
            log = self._node.logs.get(topic_partition)
            assert log is not None
            self._lead_or_follow(log, state)

    def _remove(self, topic: Topic) -> None:
        node = self._node
        for index in range(len(topic.partitions)):
            node.partitions.remove(TopicPartition(topic.name, index))
            if node.replicas is not None:
                node.replicas.unfollow(TopicPartition(topic.name, index))
        self._deleting.add(topic.id)
        node.deleting[topic.name] += 1
        self._to_do += ((topic, index) for index in range(len(topic.partitions)))
        self._to_do.append((topic, _ALL_ARE_DELETED))

    def _stop_cleaning(self, deleted: Sequence[TopicPartition]) -> None:
        cleaner = self._node.cleaner
        if cleaner is not None:
            for topic_partition in deleted:
                if (log := self._node.logs.get(topic_partition)) is not None:
                    cleaner.abort(log)

    def _all_are_deleted(self, topic: Topic, error: OSError | None) -> None:
        node = self._node
        if error is not None:
            if error.errno in NO_ROOM:
                node.logs.refusals.refused("the checkpoint files", error)
            else:
                logger.error("a power cut may bring back the files of %s: %s", topic.name, error)
        self._deleting.discard(topic.id)
        node.deleting -= Counter([topic.name])

    def _reconfigure_broker(self, image: ClusterImage) -> None:
        node = self._node
        before = node.config.sources.effective()
        node.config = node.config.with_dynamic_configs(image.broker_configs)
        note_ignored(node.config.sources.effective(), before)
        for topic in image.topics.values():
            self._reconfigure(topic)
