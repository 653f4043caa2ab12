"""The two coordinators of a broker, of transactions and of groups: creates, starts and stops them.

At start every shard whose partition is led here is loaded. Then decided transactions are finished (their markers are
delivered again), undecided ones are still open, and markers that a power cut took from data partitions are replaced
(``reconciliation``). From then on a shard is loaded and unloaded when a term of leadership of its partition begins and
ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.config.features import TRANSACTION_VERSION
from semel.broker.config.group_overrides import consumer_settings
from semel.broker.coordinators.coordinator import Coordinator
from semel.broker.coordinators.expiry import CoordinatorExpiry
from semel.broker.coordinators.markers import DeliveryQueue, MarkerDelivery
from semel.broker.coordinators.reconciliation import Reconciliation
from semel.broker.coordinators.remote_admission import RemoteAdmission
from semel.broker.coordinators.remote_markers import RemoteMarkers
from semel.broker.coordinators.shard_runtime import ShardRuntime
from semel.broker.coordinators.topics_view import ImageTopics
from semel.broker.metrics.group_metrics import GroupMetrics
from semel.broker.metrics.transaction_metrics import TransactionMetrics
from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.coordinator.group.settings import (
    ClassicSettings,
    ConsumerSettings,
    GroupSettings,
    OffsetSettings,
)
from semel.coordinator.group.shard import GroupShard
from semel.coordinator.transaction.results import WriteMarkers
from semel.coordinator.transaction.settings import TransactionSettings
from semel.coordinator.transaction.shard import TransactionShard
from semel.metadata.image import Change, ClusterImage, TopicDeleted
from semel.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

TransactionRuntime: TypeAlias = ShardRuntime[TransactionShard]

# The pause before a COMPLETE record that could not be written is tried again. The disk may be full, for instance.
COMPLETE_RETRY_MS: Final = 1000


class Coordinators:
    """The transaction coordinator and the group coordinator of one broker, with their periodic tasks."""

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        config = node.config
        transaction_settings = TransactionSettings(
            max_timeout_ms=config.transaction_max_timeout_ms,
            transactional_id_expiration_ms=config.transactional_id_expiration_ms,
            transaction_version=node.features.finalized.get(TRANSACTION_VERSION, 0),
        )
        group_settings = _group_settings(config)
        self._consumer_settings = group_settings.consumer
        self.transactions: Coordinator[TransactionShard] = Coordinator(
            TRANSACTION_STATE_TOPIC,
            node,
            loop,
            make_shard=lambda partition: TransactionShard(
                partition=partition.topic_partition.partition,
                coordinator_epoch=partition.leader_epoch,
                settings=transaction_settings,
                next_producer_id=node.producer_ids.next,
            ),
            carry_out=self._write_markers,
            loaded=self._transactions_loaded,
        )
        self.groups: Coordinator[GroupShard] = Coordinator(
            CONSUMER_OFFSETS_TOPIC,
            node,
            loop,
            make_shard=lambda partition: GroupShard(
                partition=partition.topic_partition.partition,
                settings=group_settings,
                consumer_settings=self.consumer_settings,
                topics=lambda: ImageTopics(node.image),
            ),
        )
        self._by_topic: dict[str, Coordinator[Any]] = {
            CONSUMER_OFFSETS_TOPIC: self.groups,
            TRANSACTION_STATE_TOPIC: self.transactions,
        }
        self.transaction_metrics = TransactionMetrics(node, self.transactions)
        self.group_metrics = GroupMetrics(self.groups)
        self.remote_admission = None if node.peers is None else RemoteAdmission(node.peers, loop)
        self._remote_markers = None if node.peers is None else RemoteMarkers(node.peers, loop)
        self._deliveries = DeliveryQueue(node.turns)
        self._expiry = CoordinatorExpiry(node, loop, self.transactions, self.groups)
        self._reconciliation = Reconciliation(node, self.transactions, loop)

    def start(self) -> None:
        """Load the shards that are led here, and begin to expire ids and to reconcile open transactions.

        Called once the logs are open, and before a request needs a coordinator.
        """
        node = self._node
        # The shards of offsets first: decided transactions have markers for them.
        for topic, coordinator in self._by_topic.items():
            for partition in node.partitions:
                if partition.topic_partition.topic == topic:
                    coordinator.load(partition)
        node.partitions.on_add.append(self._added)
        node.partitions.on_remove.append(self._removed)
        node.cluster.watch(self._changed)
        self._reconciliation.look_at(node.partitions)
        self._expiry.start()

    def consumer_settings(self, group_id: str) -> ConsumerSettings:
        """Return the settings of a group of the consumer protocol: the broker's, overridden by the group's own."""
        overrides = self._node.image.group_configs.get(group_id)
        return self._consumer_settings if overrides is None else consumer_settings(self._node.config, overrides)

    def release_members(self) -> None:
        """Refuse the requests of group members that wait for each other, because the broker is about to stop."""
        for runtime in self.groups:
            runtime.retire()

    def stop(self) -> None:
        """Unload all shards. Requests that still wait are answered with NOT_COORDINATOR."""
        self._let_go()
        self.transactions.unload_all()
        self.groups.unload_all()

    def kill(self) -> None:
        """Drop all shards without an answer to any request."""
        self._let_go()
        for coordinator in self._by_topic.values():
            for runtime in coordinator:
                runtime.drop()

    def _let_go(self) -> None:
        self._expiry.stop()
        self._reconciliation.stop()
        for watchers, watcher in (
            (self._node.partitions.on_add, self._added),
            (self._node.partitions.on_remove, self._removed),
        ):
            if watcher in watchers:
                watchers.remove(watcher)

    def _added(self, partition: Partition) -> None:
        coordinator = self._by_topic.get(partition.topic_partition.topic)
        if coordinator is not None:
            coordinator.load(partition)
        self._reconciliation.look_at([partition])

    def _removed(self, partition: Partition) -> None:
        topic, index = partition.topic_partition
        if topic in self._by_topic:
            self._by_topic[topic].unload(index)
            if self._node.peers is not None:
                # It may have waited for this shard. Another broker leads the shard now, and is asked about it.
                self._reconciliation.go_on_if_all_loaded()

    def _changed(self, before: ClusterImage, after: ClusterImage, changes: Sequence[Change]) -> None:
        for change in changes:
            if isinstance(change, TopicDeleted) and not change.topic.is_internal:
                self._expiry.forget_topic(change.topic)

    # Transactions

    def _transactions_loaded(self, runtime: TransactionRuntime) -> None:
        self._reconciliation.go_on_if_all_loaded()

    def _write_markers(self, runtime: TransactionRuntime, effect: WriteMarkers) -> None:
        self._deliveries.begin(partial(self._deliver, runtime, effect), markers=len(effect.partitions))

    def _deliver(self, runtime: TransactionRuntime, effect: WriteMarkers) -> None:
        if runtime.refusal is not None:
            return  # The shard was unloaded while this waited. The coordinator of the next term delivers the markers.
        completion = _Completion(self._node, runtime, effect)
        MarkerDelivery(
            self._node,
            effect,
            remote=self._remote_markers,
            wanted=lambda: runtime.refusal is None,
            finished=completion.finished,
        ).begin()


class _Completion:
    """Writes the COMPLETE record of a transaction whose markers are all committed; tries again until it is written."""

    __slots__ = ("_effect", "_node", "_runtime")

    def __init__(self, node: Node, runtime: TransactionRuntime, effect: WriteMarkers) -> None:
        self._node = node
        self._runtime = runtime
        self._effect = effect

    def expired(self) -> None:
        self.finished()

    def finished(self) -> None:
        effect, now_ms = self._effect, self._node.clock.now_ms()
        decision = self._runtime.shard.markers_written(
            effect.transactional_id, effect.producer_id, effect.producer_epoch, now_ms=now_ms
        )
        if self._runtime.refusal is None and not self._runtime.apply(decision):
            self._node.deadlines.add(self, COMPLETE_RETRY_MS)


def _group_settings(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        offsets=OffsetSettings(
            retention_ms=config.offsets_retention_minutes * 60_000, metadata_size_max=config.offset_metadata_max_bytes
        ),
        classic=ClassicSettings(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            session_timeout_ms_min=config.group_min_session_timeout_ms,
            session_timeout_ms_max=config.group_max_session_timeout_ms,
            size_max=config.group_max_size,
        ),
        consumer=consumer_settings(config, {}),
    )
