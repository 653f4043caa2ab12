"""``semel.Consumer``: reads partitions. For asyncio; threads use ``semel.blocking``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from random import Random, SystemRandom
from types import TracebackType
from typing import Any, TypeVar

from semel import __version__
from semel.client.consumer_config import ConsumerConfig
from semel.client.driver import Driver
from semel.client.machine.consumer import ConsumerMachine
from semel.client.machine.list_offsets import EARLIEST, LATEST
from semel.client.machine.promise import Promise
from semel.client.offsets import PartitionLike, as_partition
from semel.client.values import ConsumerRecord, OffsetAndTimestamp
from semel.clock import Clock, SystemClock
from semel.errors import ErrorCode, SemelError, StateError, TimedOut
from semel.net.network import Network, SystemNetwork
from semel.types import TopicPartition

T = TypeVar("T")


class Consumer:
    """Reads records from Kafka or Semel.

        async with Consumer(bootstrap_servers="localhost:9092", isolation_level="read_committed") as consumer:
            consumer.assign([("orders", 0), ("orders", 1)])
            async for record in consumer:
                ...

    Settings are Kafka's, as keywords with underscores, with Kafka's defaults. A partition begins at
    ``auto_offset_reset`` (latest, unless set), or where ``seek`` says. A consumer belongs to one event loop.
    """

    def __init__(
        self,
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        guard: AbstractContextManager[Any] | None = None,
        **settings: Any,
    ) -> None:
        self._config = ConsumerConfig.load(settings)
        self._network = network or SystemNetwork()
        self._clock = clock or SystemClock()
        self._lock = guard
        self._guard = contextlib.nullcontext() if guard is None else guard
        self._machine = ConsumerMachine(self._config, random or SystemRandom(), software_version=__version__)
        self._driver: Driver | None = None
        self._closed = False

    async def start(self) -> None:
        """Start in the loop that this is called from. ``async with`` does it, and so does the first call that waits."""
        self._running()

    async def __aenter__(self) -> Consumer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        servers = ",".join(map(str, self._config.client.bootstrap_servers))
        return f"<Consumer {servers} {'closed' if self._closed else 'open'} {len(self._machine.assignment)} partitions>"

    def wake(self) -> None:
        """Let the driver look at what was changed."""
        if self._driver is not None:
            self._driver.wake()

    # What is read, and from where

    def assign(self, partitions: Iterable[PartitionLike]) -> None:
        """Read these partitions and no others. Those that were assigned before keep their position."""
        with self._guard:
            self._machine.assign(map(as_partition, partitions), self._clock.monotonic_ms())
        self.wake()

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._machine.assignment

    def seek(self, partition: PartitionLike, offset: int) -> None:
        """Read on from this offset."""
        if offset < 0:
            raise ValueError(f"offset {offset} of {partition}: offsets are counted from 0")
        with self._guard:
            self._machine.seek(as_partition(partition), offset)
        self.wake()

    def seek_to_beginning(self, *partitions: PartitionLike) -> None:
        """Read on from the first record that is left; all partitions if none is named."""
        self._seek_to_time(partitions, EARLIEST)

    def seek_to_end(self, *partitions: PartitionLike) -> None:
        """Read on behind the last record; behind the last stable one, for read_committed."""
        self._seek_to_time(partitions, LATEST)

    def pause(self, *partitions: PartitionLike) -> None:
        """Hand out nothing of these until ``resume``."""
        with self._guard:
            for partition in partitions:
                self._machine.pause(as_partition(partition), paused=True)

    def resume(self, *partitions: PartitionLike) -> None:
        with self._guard:
            for partition in partitions:
                self._machine.pause(as_partition(partition), paused=False)
        self.wake()

    async def position(self, partition: PartitionLike) -> int:
        """The offset of the next record that will be handed out."""
        with self._guard:
            promise = self._machine.position(as_partition(partition))
        return await self._within_timeout(promise, "position")

    async def beginning_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """The offset of the first record that is left, or would be."""
        return await self._offsets(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """The offset behind the last record that can be read; for read_committed, the last stable offset."""
        return await self._offsets(partitions, LATEST)

    async def offsets_for_times(
        self, timestamps: Mapping[PartitionLike, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is as late as the timestamp; ``None`` where there is none."""
        asked = {as_partition(partition): timestamp for partition, timestamp in timestamps.items()}
        with self._guard:
            promise = self._machine.find_offsets(asked, self._clock.monotonic_ms())
        return await self._within_timeout(promise, "offsets_for_times")

    async def partitions_for(self, topic: str) -> int:
        """How many partitions a topic has. Asking may create it, unless ``allow_auto_create_topics`` is off."""
        with self._guard:
            promise = self._machine.know_topic(topic, self._clock.monotonic_ms())
        return len((await self._within_timeout(promise, "partitions_for")).partitions)

    # Records

    async def poll(self, timeout_ms: float | None = None, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records, in order within each partition; those of one partition stand together.

        Waits until there is one, up to ``timeout_ms`` (for ever if that is ``None``); then what there is, up to
        ``max_records`` (``max_poll_records``). An empty list: there was none in time.
        """
        driver = self._running()
        if not self._machine.assignment:
            raise StateError("poll: no partition is assigned to this consumer, so there is nothing to wait for")
        records = self.take(max_records)
        if not records and timeout_ms != 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                    while not records:
                        with self._guard:
                            readable = self._machine.readable()
                        await driver.wait(readable)
                        records = self.take(max_records)
        driver.wake()  # There is room now for more to be fetched.
        return records

    def take(self, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records, if they are here already: ``poll`` without waiting, and without fetching more."""
        with self._guard:
            return self._machine.take(self._config.max_poll_records if max_records is None else max_records)

    def __aiter__(self) -> Consumer:
        return self

    async def __anext__(self) -> ConsumerRecord:
        try:
            return (await self.poll(max_records=1))[0]
        except SemelError:
            if self._closed:
                raise StopAsyncIteration from None
            raise

    async def close(self) -> None:
        """Disconnect."""
        if self._closed:
            return
        self._closed = True
        with self._guard:
            self._machine.shut(self._clock.monotonic_ms())
        if self._driver is not None:
            self._driver.turn()
            await self._driver.close()

    # Inside

    def _running(self) -> Driver:
        if self._closed:
            raise StateError("the consumer is closed")
        if self._driver is None:
            self._driver = Driver(
                self._machine, network=self._network, clock=self._clock, guard=self._lock, turned=lambda: None
            )
            self._driver.wake()
        return self._driver

    def _seek_to_time(self, partitions: tuple[PartitionLike, ...], timestamp: int) -> None:
        with self._guard:
            for partition in partitions or self._machine.assignment:
                self._machine.seek_to_time(as_partition(partition), timestamp)
        self.wake()

    async def _offsets(self, partitions: Iterable[PartitionLike], timestamp: int) -> dict[TopicPartition, int]:
        asked = {as_partition(partition): timestamp for partition in partitions}
        with self._guard:
            promise = self._machine.find_offsets(asked, self._clock.monotonic_ms())
        found = await self._within_timeout(promise, "offsets")
        return {partition: 0 if entry is None else entry.offset for partition, entry in found.items()}

    async def _within_timeout(self, promise: Promise[T], call: str) -> T:
        timeout_ms = self._config.default_api_timeout_ms
        try:
            return await self._running().wait(promise, timeout_ms=timeout_ms)
        except TimeoutError:
            raise TimedOut(
                ErrorCode.REQUEST_TIMED_OUT, f"{call}: no answer within default.api.timeout.ms ({timeout_ms} ms)"
            ) from None
