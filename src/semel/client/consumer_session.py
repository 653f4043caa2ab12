"""What ``semel.Consumer`` and ``semel.blocking.Consumer`` have in common.

Calls that do not wait change the machine here, under its guard. Calls that wait are coroutines: the asyncio class
awaits them, the blocking class runs them in its thread. Each class has its own loop around ``group_session`` for
``poll`` and for leaving the group, because each calls a rebalance listener in its own way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, Final, TypeVar

from semel import __version__
from semel.client.arguments import as_offset, as_timestamp, as_topic
from semel.client.assignors import Assignor, make_assignors
from semel.client.config.consumer import ConsumerConfig
from semel.client.deserializers import Deserializers
from semel.client.drivers.runtime import ClientRuntime
from semel.client.group_session import GroupSession
from semel.client.machine.connection.promise import Promise
from semel.client.machine.consumer.consumer import ConsumerMachine
from semel.client.machine.group.subscription import TopicSubscription
from semel.client.offsets import OffsetsLike, PartitionLike, as_offsets, as_partition
from semel.client.record_buffer import RecordBuffer
from semel.client.security.tls import network_for
from semel.client.tracing.tracer_provider import spans_of
from semel.client.values import ConsumerRecord, GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp
from semel.clock import Clock, SystemClock
from semel.errors import ErrorCode, TimedOut
from semel.net.network import Network
from semel.settings import SettingError
from semel.types import TopicPartition
from semel.wire.messages.list_offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

T = TypeVar("T")

CLOSE_TIMEOUT_MS: Final = 30_000


class ConsumerSession:
    """A consumer's machine with its runtime, its group and its buffer of fetched records.

    ``guard`` is the lock of a blocking consumer, whose threads use the machine beside its driver.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        deserializers: Deserializers,
        *,
        assignors: Sequence[Assignor | str] | None = None,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        guard: AbstractContextManager[Any] | None = None,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        self.config = config = ConsumerConfig.load(settings)
        try:
            offered = make_assignors(config.partition_assignment_strategy if assignors is None else assignors)
        except ValueError as error:
            raise SettingError("partition.assignment.strategy", str(error)) from None
        self.machine = ConsumerMachine(
            config, random or SystemRandom(), assignors=offered, software_version=__version__
        )
        self.runtime = ClientRuntime(
            "consumer",
            self.machine,
            network=network or network_for(config.client.security),
            clock=clock or SystemClock(),
            guard=guard,
            # A member must send heartbeats while the application blocks its loop. A clock or network that is given
            # belongs to one loop; a guard means that the consumer is in a thread of its own already.
            own_thread=config.group_id is not None and network is None and clock is None and guard is None,
        )
        self.clock = self.runtime.clock
        self.group_session = GroupSession(self.runtime)
        self._deserializers = deserializers
        self.spans = spans_of(tracer_provider, client_id=config.client.client_id, group_id=config.group_id)
        self.record_buffer = RecordBuffer(
            self.runtime, self.group_session, deserializers, max_poll_records=config.max_poll_records
        )

    def __str__(self) -> str:
        servers = ",".join(map(str, self.config.client.bootstrap_servers))
        state = "closed" if self.runtime.is_closed else "open"
        return f"Consumer {servers} {state} {len(self.assignment)} partitions"

    async def start(self) -> None:
        """Start the driver, in the loop that this is called from or in the consumer's own thread."""
        self.runtime.running()

    async def disconnect(self) -> None:
        """Close at once, without committing and without leaving the group."""
        await self.runtime.shut()

    def metrics(self) -> dict[str, float]:
        self.runtime.check_process()
        with self.runtime.guard:
            return self.machine.metrics()

    # What is read, and from where

    def assign(self, partitions: Iterable[PartitionLike]) -> None:
        with self._guard:
            self.machine.assign(map(as_partition, partitions), self.clock.monotonic_ms())
        self.runtime.wake()

    def subscribe(
        self, topics: Iterable[str] | None, pattern: str | re.Pattern[str] | None, listener: object | None
    ) -> None:
        wanted = TopicSubscription.of(topics, pattern)
        with self._guard:
            self.machine.subscribe(wanted, self.clock.monotonic_ms())
            self.group_session.listener = listener
        self.runtime.wake()

    @property
    def assignment(self) -> list[TopicPartition]:
        self.runtime.check_process()
        with self.runtime.guard:
            return self.machine.assignment

    def seek(self, partition: PartitionLike, offset: int) -> None:
        with self._guard:
            self.machine.seek(as_partition(partition), as_offset(offset))
        self.runtime.wake()

    def seek_to_beginning(self, *partitions: PartitionLike) -> None:
        self._seek_to_time(partitions, EARLIEST)

    def seek_to_end(self, *partitions: PartitionLike) -> None:
        self._seek_to_time(partitions, LATEST)

    def seek_to_time(self, timestamp: int, *partitions: PartitionLike) -> None:
        self._seek_to_time(partitions, as_timestamp(timestamp))

    def pause(self, *partitions: PartitionLike) -> None:
        self._pause(partitions, paused=True)

    def resume(self, *partitions: PartitionLike) -> None:
        self._pause(partitions, paused=False)
        self.runtime.wake()

    async def position(self, partition: PartitionLike) -> int:
        with self._guard:
            promise = self.machine.position(as_partition(partition))
        return await self._within_timeout(promise, "position")

    async def lag(self, partition: PartitionLike) -> int:
        with self._guard:
            known = self.machine.lag(as_partition(partition))
        if known is not None:
            return known
        position = await self.position(partition)
        (end,) = (await self.end_offsets([partition])).values()
        return max(0, end - position)

    async def beginning_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        return await self._offsets(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        return await self._offsets(partitions, LATEST)

    async def offsets_for_times(
        self, timestamps: Mapping[PartitionLike, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        asked = {as_partition(partition): as_timestamp(timestamp) for partition, timestamp in timestamps.items()}
        return await self._find(asked, "offsets_for_times")

    async def partitions_for(self, topic: str) -> int:
        with self._guard:
            promise = self.machine.know_topic(as_topic(topic), self.clock.monotonic_ms())
        return len((await self._within_timeout(promise, "partitions_for")).partitions)

    # Offsets of the group

    async def commit(self, offsets: OffsetsLike | None) -> None:
        await self._within_timeout(self.begin_commit(offsets), "commit")

    def begin_commit(self, offsets: OffsetsLike | None) -> Promise[None]:
        asked = None if offsets is None else as_offsets(offsets)
        with self._guard:
            return self.machine.commit(asked, self.clock.monotonic_ms())

    async def committed(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        with self._guard:
            promise = self.machine.committed(map(as_partition, partitions))
        return await self._only_within_timeout(promise, "committed")

    def group_metadata(self) -> GroupMetadata:
        with self._guard:
            return self.machine.the_group("group_metadata").metadata()

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        with self._guard:
            return self.machine.positions()

    def rewind(self) -> None:
        with self._guard:
            self.machine.rewind()
        self.runtime.wake()

    # Spans

    def processing(self, record: ConsumerRecord[Any, Any]) -> AbstractContextManager[None]:
        return nullcontext() if self.spans is None else self.spans.processing(record)

    # What a transaction needs of its consumer

    @property
    def is_auto_commit(self) -> bool:
        return self.config.is_auto_commit

    @property
    def deserializes(self) -> bool:
        return self._deserializers.exist

    def unsettled(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions that are not known to be committed."""
        with self._guard:
            return self.machine.the_group("unsettled").unsettled()

    def settled(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note that a transaction has committed these offsets."""
        with self._guard:
            self.machine.settled(offsets)

    @property
    def has_lost_partitions(self) -> bool:
        """Whether partitions were lost since records were returned whose offsets are not committed yet."""
        with self._guard:
            return self.machine.has_lost_partitions

    # Inside

    @property
    def _guard(self) -> AbstractContextManager[Any]:
        """The lock of the machine, after checks.

        Raises after a fork: the lock may be held by a thread that the child does not have, and would never be released.
        Raises, too, once the client has failed, because its machine may be in any state.
        """
        self.runtime.check_process()
        self.runtime.check_failure()
        return self.runtime.guard

    def _seek_to_time(self, partitions: tuple[PartitionLike, ...], timestamp: int) -> None:
        with self._guard:
            for partition in partitions or self.machine.assignment:
                self.machine.seek_to_time(as_partition(partition), timestamp)
        self.runtime.wake()

    def _pause(self, partitions: tuple[PartitionLike, ...], *, paused: bool) -> None:
        with self._guard:
            for partition in partitions:
                self.machine.pause(as_partition(partition), paused=paused)

    async def _offsets(self, partitions: Iterable[PartitionLike], timestamp: int) -> dict[TopicPartition, int]:
        found = await self._find({as_partition(partition): timestamp for partition in partitions}, "offsets")
        return {partition: 0 if entry is None else entry.offset for partition, entry in found.items()}

    async def _find(
        self, timestamps: Mapping[TopicPartition, int], call: str
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        with self._guard:
            promise = self.machine.find_offsets(timestamps, self.clock.monotonic_ms())
        return await self._only_within_timeout(promise, call)

    async def _only_within_timeout(self, promise: Promise[T], call: str) -> T:
        """Wait for what only this call needs. Without an answer in time it is given up, and not asked for again."""
        try:
            return await self._within_timeout(promise, call)
        finally:
            if self.runtime.failure is None:
                with self.runtime.guard:
                    promise.fail(TimedOut(ErrorCode.REQUEST_TIMED_OUT, f"{call}: the caller does not wait any more"))

    async def _within_timeout(self, promise: Promise[T], call: str) -> T:
        timeout_ms = self.config.default_api_timeout_ms
        try:
            return await self.runtime.running().wait(promise, timeout_ms=timeout_ms)
        except TimeoutError:
            raise TimedOut(
                ErrorCode.REQUEST_TIMED_OUT, f"{call}: no answer within default.api.timeout.ms ({timeout_ms} ms)"
            ) from None
