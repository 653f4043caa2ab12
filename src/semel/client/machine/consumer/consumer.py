"""A consumer's decisions, put together: where to start, what to fetch, which records to return.

The partitions to read come from the application (``assign``) or from the group, whose changes ``_follow_group`` applies
as they come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import assert_never

from semel.client.assignors import Assignor
from semel.client.config.consumer import ConsumerConfig, IsolationLevel
from semel.client.machine.connection.actions import Action
from semel.client.machine.connection.cluster_view import TopicView
from semel.client.machine.connection.connected import ConnectedMachine
from semel.client.machine.connection.connections import COORDINATION, Connections
from semel.client.machine.connection.metadata import Metadata
from semel.client.machine.connection.promise import Promise
from semel.client.machine.consumer.fetched import DecodeRows, Rows
from semel.client.machine.consumer.fetcher import Fetcher
from semel.client.machine.consumer.list_offsets import OffsetLookup
from semel.client.machine.consumer.positions import Positions
from semel.client.machine.consumer.start_offsets import StartOffsets
from semel.client.machine.consumer.topics import ConsumerTopics
from semel.client.machine.group.commits import Committed
from semel.client.machine.group.group import Group
from semel.client.machine.group.reassignment import Announced, Assigned, Callback, Withdrawn
from semel.client.machine.group.subscription import TopicSubscription
from semel.client.values import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp
from semel.clock import NEVER
from semel.errors import (
    AbortableError,
    AuthorizationFailed,
    ErrorCode,
    KafkaError,
    StateError,
    UnsupportedVersion,
)
from semel.types import Buffer, TopicPartition


class ConsumerMachine(ConnectedMachine):
    def __init__(
        self,
        config: ConsumerConfig,
        random: Random,
        *,
        assignors: Sequence[Assignor] = (),
        software_version: str = "0",
    ) -> None:
        super().__init__(Connections(config.client, random, software_version=software_version))
        self._config = config
        self._metadata = Metadata(
            config.client,
            self._connections,
            random,
            lane=COORDINATION,
            may_create_topics=config.allow_auto_create_topics,
        )
        self._positions = Positions()
        self._lookup = OffsetLookup(config.client, config.isolation_level, self._connections, self._metadata, random)
        self._fetcher = Fetcher(config, self._positions, self._connections, self._metadata, random)
        self.group = (
            Group(config, assignors, self._positions.reached, self._connections, self._metadata, random)
            if config.group_id is not None
            else None
        )
        self._start_offsets = StartOffsets(
            config, self._positions, self._lookup, self._fetcher.errors, self.group, random
        )
        self._topics = ConsumerTopics(self._metadata, self._positions, self._lookup, self.group, self._fetcher.errors)
        self._ownership_version_before: object | None = None
        """The group's ``ownership_version`` when the first record was returned that is not committed or rewound."""
        self._readable: list[Promise[None]] = []
        self._leaving: Promise[None] | None = None
        self._records_consumed = 0
        self.error: KafkaError | None = None

    # What the application calls

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._positions.partitions

    def assign(self, partitions: Iterable[TopicPartition], now_ms: float) -> None:
        if self.is_subscribed:
            raise StateError("assign: this consumer has subscribed, so its group assigns; unsubscribe first")
        if self.group is not None:
            self.group.assigned_by_hand()
        self._assign(partitions, now_ms)

    @property
    def is_subscribed(self) -> bool:
        return self.group is not None and self.group.is_subscribed

    def subscribe(self, subscription: TopicSubscription, now_ms: float) -> None:
        group = self.the_group("subscribe")
        if self._positions.partitions and not group.is_subscribed:
            raise StateError("subscribe: partitions were assigned by hand; unsubscribe first")
        group.subscribe(subscription)
        self._topics.refresh(now_ms)

    def the_group(self, call: str) -> Group:
        if self.group is None:
            raise StateError(f"{call}: this consumer has no group.id, so it belongs to no group")
        return self.group

    def leave(self, reason: str, now_ms: float) -> Promise[None]:
        """Commit, give up all partitions and leave the group. The caller must serve the callbacks that become due."""
        promise: Promise[None] = Promise()

        def left(settled: Promise[None] | None = None) -> None:
            self._leaving = None
            self._assign((), now_ms)
            promise.fulfil(None)
            self._release_readers()

        if self.group is None:
            left()
        else:
            self._leaving = promise
            self.group.leave(reason, now_ms).then(left)
        return promise

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, now_ms: float) -> Promise[None]:
        """Commit these offsets; without ``offsets``, the positions behind the records that were returned."""
        group = self.the_group("commit")
        asked = self._positions.reached() if offsets is None else dict(offsets)
        group.try_again()
        promise = group.commit(asked, now_ms)
        promise.then(lambda settled: self.settled(asked) if settled.error is None else None)
        return promise

    def settled(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note that these offsets are committed: ``rewind`` goes back no further."""
        if self.group is not None:
            self.group.settled(offsets)
        self._start_offsets.settled(offsets)
        self._ownership_version_before = None

    def committed(self, partitions: Iterable[TopicPartition]) -> Promise[Committed]:
        group = self.the_group("committed")
        group.try_again()
        return group.committed(partitions)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the position of each partition behind the records that were returned, where it is known."""
        return self._positions.reached()

    def rewind(self) -> None:
        """Go back to what was committed last; the records after it are returned again."""
        self._start_offsets.rewind()
        self._ownership_version_before = None

    @property
    def has_lost_partitions(self) -> bool:
        """Whether partitions were lost, if only for a time, since records were returned and not committed or rewound.

        A partition that came back may have been another member's in between. The returned records may be of such
        partitions, and ``positions`` says nothing about them.
        """
        before = self._ownership_version_before
        return self.group is not None and before is not None and before != self.group.ownership_version

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        self._start_offsets.seek(self._positions[topic_partition], offset)

    def put_back(self, topic_partition: TopicPartition, offset: int) -> None:
        """Set the position back to a record that was not returned after all. Where ``rewind`` goes is not changed."""
        self._positions[topic_partition].seek(offset)

    def seek_to_time(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """Seek to the first record with this timestamp or a later one; EARLIEST and LATEST are special timestamps."""
        self._start_offsets.seek_to_time(self._positions[topic_partition], timestamp)

    def pause(self, topic_partition: TopicPartition, *, paused: bool) -> None:
        self._positions[topic_partition].is_paused = paused

    def position(self, topic_partition: TopicPartition) -> Promise[int]:
        position = self._positions[topic_partition]
        self._start_offsets.require_way(position)
        if self.group is not None:
            self.group.try_again()
        self._start_offsets.release([topic_partition])  # A caller that asks for the position knows of the assignment.
        return position.known()

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        return self._positions[topic_partition].high_watermark

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Return how far the position is behind the end; ``None`` until the partition's end is known."""
        committed_only = self._config.isolation_level is IsolationLevel.READ_COMMITTED
        return self._positions[topic_partition].lag(committed_only=committed_only)

    def metrics(self) -> dict[str, float]:
        lags = [
            max(0, position.high_watermark - position.offset)
            for position in self._positions
            if position.high_watermark is not None and position.offset is not None
        ]
        return {
            **self._connections.metrics(),
            "records-consumed-total": self._records_consumed,
            "records-lag-max": max(lags, default=0),
            "assigned-partitions": len(self._positions.partitions),
        }

    def find_offsets(
        self, timestamps: Mapping[TopicPartition, int], now_ms: float
    ) -> Promise[dict[TopicPartition, OffsetAndTimestamp | None]]:
        promise = self._lookup.find(timestamps)
        self._topics.refresh(now_ms)
        return promise

    def know_topic(self, topic: str, now_ms: float) -> Promise[TopicView]:
        return self._topics.know(topic, now_ms)

    def take(self, count: int) -> list[ConsumerRecord]:
        """Return up to ``count`` fetched records. If there are none, raise the error of a partition, once."""
        if not self._may_take():
            return []
        records = self._fetcher.take(count)
        self._taken(len(records))
        return records

    def take_decoded(self) -> ConsumerRecord | None:
        """Return the next record if it is already decoded. ``None`` does not mean that there is none: call ``take``."""
        if not self._may_take():
            return None
        record = self._fetcher.take_decoded()
        if record is not None:
            self._taken(1)
        return record

    def take_rows(self, count: int, decode: DecodeRows) -> list[tuple[TopicPartition, Rows]]:
        """Return up to ``count`` fetched records as columns. Errors are raised as by ``take``."""
        if not self._may_take():
            return []
        taken = self._fetcher.take_rows(count, decode)
        self._taken(sum(rows.num_rows for _, rows in taken))
        return taken

    def readable(self) -> Promise[None]:
        """Return a promise that is kept when ``take`` has records or an error, or a callback is due.

        While the group is being left, only a callback that is due counts.
        """
        promise: Promise[None] = Promise()
        self._readable = [waiting for waiting in self._readable if not waiting.settled]
        self._readable.append(promise)
        self._tell_readers()
        return promise

    def shut(self, now_ms: float) -> None:
        closed = AbortableError(ErrorCode.NETWORK_EXCEPTION, "the consumer was closed")
        self._fail_all(closed)
        self._connections.close("the consumer was closed", now_ms)

    # What the driver calls

    def poll(self, now_ms: float) -> list[Action]:
        try:
            self._connections.poll(now_ms)
            self._topics.look_at_metadata()
            if self.group is not None:
                self.group.poll(now_ms)
                self._follow_group(now_ms)
                self._topics.follow_group(now_ms)
            self._out_of_range()
            self._start_offsets.poll(now_ms)
            if self.group is not None:
                self.group.poll_offsets(now_ms)
            self._lookup.poll(now_ms)
            self._fetcher.poll(now_ms)
            self._metadata.poll(now_ms)  # Last, because the steps above request what they need.
        except (AuthorizationFailed, UnsupportedVersion) as error:
            self.error = error
            self._fail_all(error)
        self._tell_readers()
        self._deadline_ms = min(
            self._connections.next_deadline_ms(now_ms),
            self._metadata.next_deadline_ms(now_ms),
            self._lookup.next_deadline_ms(now_ms),
            self._fetcher.next_deadline_ms(now_ms),
            NEVER if self.group is None else self.group.next_deadline_ms(now_ms),
        )
        return self._connections.take_actions()

    def received(self, connection: int, frame: Buffer, now_ms: float) -> None:
        super().received(connection, frame, now_ms)
        self._follow_group(now_ms)

    def disconnected(self, connection: int, reason: str, now_ms: float) -> None:
        super().disconnected(connection, reason, now_ms)
        self._follow_group(now_ms)

    # The callbacks of the rebalance listener

    def due(self, now_ms: float) -> Callback | None:
        """Return the callback that is due now. The caller must run it, and then call ``callback_done``."""
        callback = None if self.group is None else self.group.due()
        self._follow_group(now_ms)
        return callback

    def callback_done(self, callback: Callback, now_ms: float) -> None:
        self.the_group("callback_done").callback_done(callback, now_ms)
        self._follow_group(now_ms)

    # Inside

    def _follow_group(self, now_ms: float) -> None:
        """Apply the group's changes of the assignment: read the partitions that are this member's now, no others."""
        if self.group is None:
            return
        for change in self.group.take_changes():
            match change:
                case Assigned():
                    self._start_offsets.withhold(change.partitions)
                    self._assign((*self._positions.partitions, *change.partitions), now_ms)
                case Announced():
                    self._start_offsets.release(change.partitions)
                case Withdrawn():
                    gone = set(change.partitions)
                    self._assign([kept for kept in self._positions.partitions if kept not in gone], now_ms)
                case _:
                    assert_never(change)

    def _may_take(self) -> bool:
        if self.error is not None:
            raise type(self.error)(self.error.code, self.error.message) from self.error
        if self.group is None:
            return True
        self.group.raise_error()
        return not self.group.is_blocked_by_callback

    def _taken(self, count: int) -> None:
        """Count the records that are returned. If there are none, raise the error of a partition, if there is one."""
        if not count and self._fetcher.errors:
            raise self._fetcher.errors.pop(next(iter(self._fetcher.errors)))
        if count and self._ownership_version_before is None and self.group is not None:
            self._ownership_version_before = self.group.ownership_version
        self._records_consumed += count

    def _assign(self, partitions: Iterable[TopicPartition], now_ms: float) -> None:
        self._start_offsets.assign(partitions)
        self._topics.refresh(now_ms)

    def _out_of_range(self) -> None:
        for position, generation in self._fetcher.out_of_range:
            if position.generation == generation:
                self._start_offsets.out_of_range(position)
        self._fetcher.out_of_range.clear()

    def _tell_readers(self) -> None:
        if not self._readable:
            return
        group = self.group
        if self._leaving is not None:
            # A caller that waits while leaving takes no records: if records woke it, it would wait again at once, for
            # ever.
            if group is not None and group.is_callback_due:
                self._release_readers()
            return
        is_held = group is not None and group.is_blocked_by_callback
        is_news = self.error is not None or (group is not None and (group.is_callback_due or group.has_error))
        if is_news or (not is_held and (self._fetcher.has_records or self._fetcher.errors)):
            self._release_readers()

    def _release_readers(self) -> None:
        readers, self._readable = self._readable, []
        for promise in readers:
            promise.fulfil(None)

    def _fail_all(self, error: Exception) -> None:
        self._lookup.fail(error)
        if self.group is not None:
            self.group.fail(error)
        for position in self._positions:
            position.fail(error)
        self._topics.fail(error)
        for reader in self._readable:
            reader.fail(error)
        if self._leaving is not None:
            self._leaving.fulfil(None)  # The coordinator cannot be reached any more.
            self._leaving = None
        self._readable.clear()
