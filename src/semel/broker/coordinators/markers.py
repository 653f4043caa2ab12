"""Markers: delivers the end of a transaction to its partitions.

The law: a marker is delivered again until it is acknowledged, which means that the high watermark has passed it. After
a failure that may pass (a full disk, a shard that is loading, a broker that is away) it is tried again, with growing
pauses. Markers for partitions that other brokers lead are sent by ``remote_markers``. Delivering a marker twice is
harmless: where the producer has no open transaction, a marker changes nothing.

A partition that no longer exists needs no marker. But a partition that is missing in this broker's image may be newer
than the image: it was part of the transaction, so the metadata are read again, and then have it, or its deletion.

If a partition refuses the marker because it knows a newer coordinator, this coordinator is a zombie and stops the
delivery. If a partition knows a newer epoch of the producer, it has no open transaction of the older epoch, and its
marker counts as delivered.

A coordinator's epoch is the leader epoch of its partition of ``__transaction_state``, so none is higher than the
highest of those (``highest_coordinator_epoch``). A client's marker with a higher epoch is refused: with it the
partition would refuse every marker of the true coordinator. Where such a marker was accepted before this rule existed,
the coordinator's own marker is written with the epoch that the partition knows, and so is accepted.

Very many transactions may be decided in one turn of the event loop: after a shard was loaded, or when they time out
together. Their deliveries wait in a queue (``DeliveryQueue``).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.broker.turns import Turns
from semel.coordinator.transaction.results import WriteMarkers
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, ProducerIdentity, TopicPartition
from semel.wire.control import EndTransactionMarker

if TYPE_CHECKING:
    from semel.broker.coordinators.remote_markers import RemoteMarkers

logger = logging.getLogger("semel.broker")

RETRY_MS_MIN: Final = 10
RETRY_MS_MAX: Final = 5000

MARKERS_PER_TURN: Final = 200
"""How many markers are appended in one turn of the event loop, of one transaction, or of those whose delivery begins in
this turn: this takes some ten milliseconds."""


def append_marker(
    node: Node,
    topic_partition: TopicPartition,
    producer: ProducerIdentity,
    marker: EndTransactionMarker,
    *,
    transaction_version: int,
) -> tuple[Partition, int]:
    """Append a marker to a partition that is led here. Returns the partition and the offset that must be committed.

    In ``__consumer_offsets`` the shard replays the marker: pending offsets are committed, or dropped, from then on.
    Raises KafkaError or StorageError.
    """
    topic, index = topic_partition
    partition = node.led_partition(topic, index)
    if topic == TRANSACTION_STATE_TOPIC:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is not written in transactions")
    if topic == CONSUMER_OFFSETS_TOPIC:
        runtime = node.coordinators.groups.runtime(index)
        if runtime is None or runtime.refusal is not None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the coordinator of {topic_partition} is not ready")
        appended = runtime.append_marker(producer, marker, transaction_version=transaction_version)
    else:
        appended = partition.append_marker(
            producer, marker, now_ms=node.clock.now_ms(), transaction_version=transaction_version
        )
    return partition, appended.last_offset


def highest_coordinator_epoch(node: Node) -> int:
    """Return the highest epoch that a transaction coordinator of this cluster can have now."""
    topic = node.image.topics.get(TRANSACTION_STATE_TOPIC)
    return 0 if topic is None else max(state.leader_epoch for state in topic.partitions)


class MarkerDelivery:
    """The delivery of one transaction's markers.

    ``wanted`` returns whether the coordinator still serves the transaction; else the delivery stops. ``finished`` is
    called when all markers are acknowledged.
    """

    __slots__ = (
        "_delay_ms",
        "_finished",
        "_is_waiting",
        "_marker",
        "_node",
        "_owed",
        "_refused",
        "_remote",
        "_wanted",
        "effect",
    )

    def __init__(
        self,
        node: Node,
        effect: WriteMarkers,
        *,
        remote: RemoteMarkers | None = None,
        wanted: Callable[[], bool],
        finished: Callable[[], None],
    ) -> None:
        self._node = node
        self._remote = remote
        self.effect = effect
        self._marker = EndTransactionMarker(effect.committed, effect.coordinator_epoch)
        self._wanted = wanted
        self._finished = finished
        # Sorted, so that a simulation with the same seed writes the same logs.
        self._owed: dict[TopicPartition, None] = dict.fromkeys(sorted(effect.partitions))
        self._refused: list[TopicPartition] = []
        self._is_waiting = False  # Whether a deadline is set to try the refused markers again.
        self._delay_ms = RETRY_MS_MIN

    def begin(self) -> None:
        """Append or send all markers that can be delivered now; those of very many partitions in several turns."""
        if not self._owed:
            self._finished()
            return
        self._write(iter(list(self._owed)))

    def committed(self, token: object) -> None:
        assert isinstance(token, TopicPartition)
        self._acknowledged(token)

    def failed(self, token: object, code: ErrorCode) -> None:
        assert isinstance(token, TopicPartition)
        self._failed(token, KafkaError(code))
        self._try_again_later()

    def expired(self) -> None:
        self._is_waiting = False
        refused, self._refused = self._refused, []
        if self._wanted():
            self._write(iter(refused))

    # Called with another broker's response (``MarkerSender``).

    def acknowledged(self, topic_partition: TopicPartition) -> None:
        self._acknowledged(topic_partition)

    def refused(self, topic_partition: TopicPartition, code: ErrorCode) -> None:
        self._failed(topic_partition, KafkaError(code))
        self._try_again_later()

    def _elsewhere(self, topic_partition: TopicPartition) -> int | None:
        """Return the id of the other broker that leads the partition; ``None`` if this one does, or none."""
        if self._remote is None:
            return None
        state = self._node.image.partition(*topic_partition)
        leader = None if state is None else state.leader
        return None if leader == self._node.config.node_id else leader

    def _go_on(self, remaining: Iterator[TopicPartition]) -> None:
        if self._wanted():
            self._write(remaining)

    def _write(self, remaining: Iterator[TopicPartition]) -> None:
        """Append or send the next ``MARKERS_PER_TURN`` markers now, and the others in the next turns."""
        topic_partitions = list(islice(remaining, MARKERS_PER_TURN))
        effect = self.effect
        producer = ProducerIdentity(effect.producer_id, effect.producer_epoch)
        for topic_partition in topic_partitions:
            elsewhere = self._elsewhere(topic_partition)
            if elsewhere is not None:
                assert self._remote is not None
                self._remote.send(elsewhere, self, topic_partition)
                continue
            try:
                partition, last_offset = append_marker(
                    self._node,
                    topic_partition,
                    producer,
                    self._marker_for(topic_partition),
                    transaction_version=effect.transaction_version,
                )
            except (KafkaError, StorageError) as error:
                self._failed(topic_partition, error)
                continue
            if partition.log.high_watermark > last_offset:
                self._acknowledged(topic_partition)
            else:
                partition.when_committed(last_offset, self, topic_partition)
        self._try_again_later()
        if len(topic_partitions) == MARKERS_PER_TURN:
            self._node.turns.soon(partial(self._go_on, remaining))

    def _marker_for(self, topic_partition: TopicPartition) -> EndTransactionMarker:
        """Return the marker for this partition. If the partition knows a forged, too high epoch, the marker has it."""
        marker, partition = self._marker, self._node.partitions.get(*topic_partition)
        known = None if partition is None else partition.log.producers.coordinator_epoch(self.effect.producer_id)
        if known is None or known <= marker.coordinator_epoch or known <= highest_coordinator_epoch(self._node):
            return marker
        return EndTransactionMarker(marker.committed, known)

    def _acknowledged(self, topic_partition: TopicPartition) -> None:
        if topic_partition in self._owed:
            del self._owed[topic_partition]
            if not self._owed and self._wanted():
                self._finished()

    def _failed(self, topic_partition: TopicPartition, error: KafkaError | StorageError) -> None:
        effect = self.effect
        code = error.code if isinstance(error, KafkaError) else ErrorCode.KAFKA_STORAGE_ERROR
        if code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            logger.warning("markers of %s are left to its newer coordinator: %s", effect.transactional_id, error)
            self._wanted = _never
        elif code is ErrorCode.INVALID_PRODUCER_EPOCH:
            logger.warning("a marker of %s came too late: %s", effect.transactional_id, error)
            self._acknowledged(topic_partition)
        elif self._node.image.partition(*topic_partition) is None:
            self._node.cluster.after_refresh(partial(self._look_again, topic_partition))
        else:
            self._refused.append(topic_partition)

    def _look_again(self, topic_partition: TopicPartition, is_fresh: bool) -> None:
        """Called when the image, in which the partition was missing, was read again; ``is_fresh`` if that succeeded."""
        if is_fresh and self._node.image.partition(*topic_partition) is None:
            logger.info("%s is gone and owes no marker of %s", topic_partition, self.effect.transactional_id)
            self._acknowledged(topic_partition)
        else:
            self._refused.append(topic_partition)
            self._try_again_later()

    def _try_again_later(self) -> None:
        if self._refused and not self._is_waiting and self._wanted():
            self._is_waiting = True
            self._node.deadlines.add(self, self._delay_ms)
            self._delay_ms = min(self._delay_ms * 2, RETRY_MS_MAX)


class DeliveryQueue:
    """The queue of the deliveries that have not begun.

    A delivery begins at once, unless those that began before it in this turn have ``MARKERS_PER_TURN`` markers.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._waiting: deque[tuple[Callable[[], None], int]] = deque()
        self._markers = 0
        """How many markers the deliveries have that began in this turn."""
        self._is_scheduled = False

    def begin(self, deliver: Callable[[], None], *, markers: int) -> None:
        """Call ``deliver``, which begins the delivery of so many markers, in this turn or in one of the next."""
        self._waiting.append((deliver, markers))
        self._begin_some()

    def _begin_some(self) -> None:
        try:
            while self._waiting and self._markers < MARKERS_PER_TURN:
                deliver, markers = self._waiting.popleft()
                self._markers += max(1, markers)
                deliver()
        finally:
            if self._markers and not self._is_scheduled:
                self._is_scheduled = True
                self._turns.soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_scheduled = False
        self._markers = 0
        self._begin_some()


def _never() -> bool:
    return False
