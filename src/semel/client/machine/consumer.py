"""A consumer's decisions, put together: where to begin, what to fetch, what to hand out.

Which partitions are read is said from outside (``assign``), so that a group's membership can say it as well as an
application; where a partition without a position begins is decided here, in ``_begin``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Final

from semel.client.consumer_config import ConsumerConfig, OffsetReset
from semel.client.machine.actions import Action
from semel.client.machine.cluster_view import TopicView
from semel.client.machine.connections import COORDINATION, Connections
from semel.client.machine.fetcher import Fetcher
from semel.client.machine.list_offsets import EARLIEST, LATEST, OffsetLookup
from semel.client.machine.metadata import Metadata
from semel.client.machine.positions import Positions
from semel.client.machine.promise import Promise
from semel.client.values import ConsumerRecord, OffsetAndTimestamp
from semel.errors import AbortableError, ErrorCode, Family, KafkaError, UnsupportedVersion, client_error, family_of
from semel.types import Buffer, TopicPartition

_NEVER: Final = float("inf")
_RESETS: Final = {OffsetReset.EARLIEST: EARLIEST, OffsetReset.LATEST: LATEST, OffsetReset.NONE: None}


class ConsumerMachine:
    def __init__(self, config: ConsumerConfig, random: Random, *, software_version: str = "0") -> None:
        self._config = config
        self._connections = Connections(config.client, random, software_version=software_version)
        self._metadata = Metadata(
            config.client,
            self._connections,
            random,
            lane=COORDINATION,
            may_create_topics=config.allow_auto_create_topics,
        )
        self._metadata_seen = 0
        self._positions = Positions()
        self._lookup = OffsetLookup(config.client, config.isolation_level, self._connections, self._metadata, random)
        self._fetcher = Fetcher(config, self._positions, self._connections, self._metadata, random)
        self._looking: dict[TopicPartition, int] = {}
        """Partitions whose beginning is being looked up, with the generation it is looked up for."""
        self._asked_topics: dict[str, Promise[TopicView]] = {}
        self._readable: list[Promise[None]] = []
        self._deadline_ms = _NEVER
        self.error: KafkaError | None = None

    # What the application calls

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._positions.partitions

    def assign(self, partitions: Iterable[TopicPartition], now_ms: float) -> None:
        self._positions.assign(partitions, _RESETS[self._config.auto_offset_reset])
        self._want_topics(now_ms)

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        self._positions[topic_partition].seek(offset)
        self._fetcher.errors.pop(topic_partition, None)  # What was wrong was wrong with another position.

    def seek_to_time(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """Go to the first record that is as late as this; EARLIEST and LATEST are times, too."""
        self._positions[topic_partition].reset(timestamp)
        self._fetcher.errors.pop(topic_partition, None)

    def pause(self, topic_partition: TopicPartition, *, paused: bool) -> None:
        self._positions[topic_partition].is_paused = paused

    def position(self, topic_partition: TopicPartition) -> Promise[int]:
        position = self._positions[topic_partition]
        if position.offset is None and position.reset_to is None:
            raise _no_position(topic_partition)
        return position.known()

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        return self._positions[topic_partition].high_watermark

    def find_offsets(
        self, timestamps: Mapping[TopicPartition, int], now_ms: float
    ) -> Promise[dict[TopicPartition, OffsetAndTimestamp | None]]:
        promise = self._lookup.find(timestamps)
        self._want_topics(now_ms)
        return promise

    def know_topic(self, topic: str, now_ms: float) -> Promise[TopicView]:
        promise = self._asked_topics.setdefault(topic, Promise())
        self._want_topics(now_ms)
        self._metadata.outdated()
        return promise

    def take(self, count: int) -> list[ConsumerRecord]:
        """Records that are here. Raises what went wrong with a partition, once, if there are none."""
        if self.error is not None:
            raise type(self.error)(self.error.code, self.error.message) from self.error
        records = self._fetcher.take(count)
        if not records and self._fetcher.errors:
            raise self._fetcher.errors.pop(next(iter(self._fetcher.errors)))
        return records

    def readable(self) -> Promise[None]:
        """Kept when ``take`` has something to give, or to raise."""
        promise: Promise[None] = Promise()
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
            self._metadata.poll(now_ms)
            self._look_at_metadata()
            self._out_of_range()
            self._begin()
            self._lookup.poll(now_ms)
            self._fetcher.poll(now_ms)
        except UnsupportedVersion as error:
            self.error = error
            self._fail_all(error)
        self._tell_readers()
        self._deadline_ms = min(
            self._connections.next_deadline_ms(now_ms),
            self._metadata.next_deadline_ms(now_ms),
            self._lookup.next_deadline_ms(now_ms),
            self._fetcher.next_deadline_ms(now_ms),
        )
        return self._connections.take_actions()

    def connected(self, connection: int, now_ms: float) -> None:
        self._connections.connected(connection, now_ms)

    def received(self, connection: int, frame: Buffer, now_ms: float) -> None:
        self._connections.received(connection, frame, now_ms)

    def disconnected(self, connection: int, reason: str, now_ms: float) -> None:
        self._connections.disconnected(connection, reason, now_ms)

    def next_deadline_ms(self) -> float:
        return self._deadline_ms

    # Inside

    def _want_topics(self, now_ms: float) -> None:
        assigned = [topic for topic, _ in self._positions.partitions]
        self._metadata.retain((*assigned, *self._lookup.topics(), *self._asked_topics), now_ms)

    def _begin(self) -> None:
        """Look up where to begin, for partitions that have no position."""
        missing: dict[TopicPartition, int] = {}
        for position in self._positions:
            if position.offset is not None:
                continue
            if position.reset_to is None:
                self._fetcher.errors[position.topic_partition] = _no_position(position.topic_partition)
            elif self._looking.get(position.topic_partition) != position.generation:
                missing[position.topic_partition] = position.reset_to
                self._looking[position.topic_partition] = position.generation
        for topic_partition, timestamp in missing.items():
            generation = self._looking[topic_partition]
            self._lookup.find({topic_partition: timestamp}).then(
                lambda promise, tp=topic_partition, at=generation: self._found(tp, at, promise)  # type: ignore[misc]
            )

    def _found(
        self,
        topic_partition: TopicPartition,
        generation: int,
        promise: Promise[dict[TopicPartition, OffsetAndTimestamp | None]],
    ) -> None:
        self._looking.pop(topic_partition, None)
        position = self._positions.get(topic_partition)
        if position is None or position.generation != generation:
            return
        if promise.error is not None:
            self._fetcher.errors[topic_partition] = promise.error
            position.fail(promise.error)
            return
        found = promise.value[topic_partition]
        if found is None:
            position.reset(LATEST)  # No record is as late as that: the next one will be.
        else:
            position.seek(found.offset)

    def _out_of_range(self) -> None:
        """The log no longer has what was asked for, or has never had it."""
        positions, self._fetcher.out_of_range = self._fetcher.out_of_range, []
        for position in positions:
            reset_to = _RESETS[self._config.auto_offset_reset]
            if reset_to is not None:
                position.reset(reset_to)
            else:
                self._fetcher.errors[position.topic_partition] = client_error(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{position.topic_partition} has no record at offset {position.offset}, and auto.offset.reset is "
                    "none: seek to one that it has",
                )

    def _look_at_metadata(self) -> None:
        if self._metadata_seen == self._metadata.updates:
            return
        self._metadata_seen = self._metadata.updates
        for topic, view in self._metadata.view.topics.items():
            if view.error != ErrorCode.NONE and family_of(view.error) is not Family.RETRIABLE:
                error = client_error(
                    view.error, f"topic {topic!r} cannot be read: the broker answered {view.error.name}"
                )
                for topic_partition in self._positions.partitions:
                    if topic_partition.topic == topic:
                        self._fetcher.errors[topic_partition] = error
                if topic in self._asked_topics:
                    self._asked_topics.pop(topic).fail(error)
            elif view.partitions and topic in self._asked_topics:
                self._asked_topics.pop(topic).fulfil(view)

    def _tell_readers(self) -> None:
        if self._readable and (self._fetcher.has_records or self._fetcher.errors or self.error is not None):
            readers, self._readable = self._readable, []
            for promise in readers:
                promise.fulfil(None)

    def _fail_all(self, error: Exception) -> None:
        self._lookup.fail(error)
        for position in self._positions:
            position.fail(error)
        for asked in self._asked_topics.values():
            asked.fail(error)
        for reader in self._readable:
            reader.fail(error)
        self._asked_topics.clear()
        self._readable.clear()


def _no_position(topic_partition: TopicPartition) -> KafkaError:
    return client_error(
        ErrorCode.OFFSET_OUT_OF_RANGE, f"{topic_partition} has no position, and auto.offset.reset is none: seek to one"
    )
