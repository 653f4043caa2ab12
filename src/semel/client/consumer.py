"""``semel.Consumer``: reads partitions, alone or in a group. For asyncio; threads use ``semel.blocking``."""

from __future__ import annotations

import asyncio
import inspect
import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from concurrent.futures import Future
from contextlib import AbstractContextManager
from random import Random, SystemRandom
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from semel import __version__
from semel.client.arrow_extra import arrow_module
from semel.client.assignors import Assignor, make_assignors
from semel.client.config.consumer import ConsumerConfig
from semel.client.deserializers import Deserializer, Deserializers
from semel.client.drivers.runtime import ClientRuntime
from semel.client.group_session import GroupSession
from semel.client.machine.connection.promise import Promise
from semel.client.machine.consumer.consumer import ConsumerMachine
from semel.client.machine.group.reassignment import Callback
from semel.client.machine.group.subscription import TopicSubscription
from semel.client.offsets import OffsetsLike, PartitionLike, as_offsets, as_partition
from semel.client.rebalance_listener import told
from semel.client.record_buffer import RecordBuffer
from semel.client.security.tls import network_for
from semel.client.values import ConsumerRecord, GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp
from semel.clock import NEVER, Clock, SystemClock
from semel.errors import ErrorCode, SemelError, TimedOut
from semel.net.network import Network
from semel.settings import SettingError
from semel.types import TopicPartition
from semel.wire.messages.list_offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
Taken = TypeVar("Taken", bound=Sized)

CLOSE_TIMEOUT_MS: Final = 30_000


class Consumer:
    """Reads records from Kafka or Semel.

        async with Consumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
            consumer.subscribe(["orders"])
            async for record in consumer:
                ...

    Settings are Kafka's, as keywords with underscores, with Kafka's defaults. A partition begins where its group has
    committed, or else at ``auto_offset_reset`` (latest, unless set), or where ``seek`` says. ``assignors`` are objects
    to be offered instead of those that ``partition_assignment_strategy`` names. Keys and values are bytes, or what
    ``key_deserializer`` and ``value_deserializer`` make of these. A consumer belongs to one event loop. With a group it
    has a thread for its connections: it stays a member while the application blocks the loop.
    """

    def __init__(
        self,
        *,
        assignors: Sequence[Assignor | str] | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        guard: AbstractContextManager[Any] | None = None,
        **settings: Any,
    ) -> None:
        self._config = ConsumerConfig.load(settings)
        try:
            offered = make_assignors(self._config.partition_assignment_strategy if assignors is None else assignors)
        except ValueError as error:
            raise SettingError("partition.assignment.strategy", str(error)) from None
        self._machine = ConsumerMachine(
            self._config, random or SystemRandom(), assignors=offered, software_version=__version__
        )
        self._runtime = ClientRuntime(
            "consumer",
            self._machine,
            network=network or network_for(self._config.client.security),
            clock=clock or SystemClock(),
            guard=guard,
            # A member has to be heard while the application blocks its loop. Where time and network are handed in,
            # they belong to one loop; a guard says that the consumer is in a thread of its own already.
            own_thread=self._config.group_id is not None and network is None and clock is None and guard is None,
        )
        weakref.finalize(self, self._runtime.abandon).atexit = False
        self._clock = self._runtime.clock
        # Both are for the blocking twin, too: it waits, and calls its listener, in its own way.
        self.group_session = GroupSession(self._runtime)
        self.record_buffer = RecordBuffer(
            self._runtime,
            self.group_session,
            Deserializers(key_deserializer, value_deserializer),
            max_poll_records=self._config.max_poll_records,
        )
        self._closing = False

    async def start(self) -> None:
        """Start, for the loop that this is called from. ``async with`` does it, and so does the first call that waits.

        await consumer.start()
        """
        self._runtime.running()

    async def __aenter__(self) -> Consumer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        servers = ",".join(map(str, self._config.client.bootstrap_servers))
        state = "closed" if self._runtime.is_closed else "open"
        return f"<Consumer {servers} {state} {len(self.assignment)} partitions>"

    def metrics(self) -> dict[str, float]:
        """What this consumer has done since it was made, under Kafka's names: see docs/client.md.

        print(consumer.metrics()["records-lag-max"])
        """
        with self._guard:
            return self._machine.metrics()

    def wake(self) -> None:
        """Let the driver look at what was changed."""
        self._runtime.wake()

    # What is read, and from where

    def assign(self, partitions: Iterable[PartitionLike]) -> None:
        """Read these partitions and no others. Those that were assigned before keep their position.

        consumer.assign([("orders", 0), ("orders", 1)])
        """
        with self._guard:
            self._machine.assign(map(as_partition, partitions), self._clock.monotonic_ms())
        self.wake()

    def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: object | None = None,
    ) -> None:
        """Share these topics with the other members of the group, or all whose whole name matches the pattern.

            consumer.subscribe(["orders"], listener=listener)
            consumer.subscribe(pattern="orders-.*")

        The first ``poll`` joins the group. ``listener`` is told when partitions come and go: see ``RebalanceListener``.
        Subscribing again replaces what was subscribed to.
        """
        wanted = TopicSubscription.of(topics, pattern)
        with self._guard:
            self._machine.subscribe(wanted, self._clock.monotonic_ms())
            self.group_session.listener = listener
        self.wake()

    async def unsubscribe(self) -> None:
        """Give up all partitions, as for a rebalance, and leave the group. Also takes back ``assign``.

        await consumer.unsubscribe()
        """
        await self._leave("the consumer unsubscribed", self._config.default_api_timeout_ms)

    @property
    def assignment(self) -> list[TopicPartition]:
        with self._guard:
            return self._machine.assignment

    def seek(self, partition: PartitionLike, offset: int) -> None:
        """Read on from this offset.

        consumer.seek(("orders", 0), 42)
        """
        if offset < 0:
            raise ValueError(f"offset {offset} of {partition}: offsets are counted from 0")
        with self._guard:
            self._machine.seek(as_partition(partition), offset)
        self.wake()

    def seek_to_beginning(self, *partitions: PartitionLike) -> None:
        """Read on from the first record that is left; all partitions if none is named.

        consumer.seek_to_beginning()
        """
        self._seek_to_time(partitions, EARLIEST)

    def seek_to_end(self, *partitions: PartitionLike) -> None:
        """Read on behind the last record; behind the last stable one, for read_committed.

        consumer.seek_to_end(("orders", 0))
        """
        self._seek_to_time(partitions, LATEST)

    def seek_to_time(self, timestamp: int, *partitions: PartitionLike) -> None:
        """Read on from the first record that is as late as this, in milliseconds since 1970; else from the end.

        consumer.seek_to_time(1_700_000_000_000)
        """
        if timestamp < 0:
            raise ValueError(f"timestamp {timestamp}: it is counted in milliseconds since 1970")
        self._seek_to_time(partitions, timestamp)

    def pause(self, *partitions: PartitionLike) -> None:
        """Hand out nothing of these until ``resume``.

        consumer.pause(("orders", 0))
        """
        with self._guard:
            for partition in partitions:
                self._machine.pause(as_partition(partition), paused=True)

    def resume(self, *partitions: PartitionLike) -> None:
        """Hand out what was paused; what it holds already comes first.

        consumer.resume(("orders", 0))
        """
        with self._guard:
            for partition in partitions:
                self._machine.pause(as_partition(partition), paused=False)
        self.wake()

    async def position(self, partition: PartitionLike) -> int:
        """The offset of the next record that will be handed out.

        offset = await consumer.position(("orders", 0))
        """
        with self._guard:
            promise = self._machine.position(as_partition(partition))
        return await self._within_timeout(promise, "position")

    async def lag(self, partition: PartitionLike) -> int:
        """How many offsets lie between the position and the end of what can be read; zero once all of it was.

            behind = await consumer.lag(("orders", 0))

        For read_committed that end is the last stable offset. It is as of the last fetch that brought news.
        """
        with self._guard:
            known = self._machine.lag(as_partition(partition))
        if known is not None:
            return known
        position = await self.position(partition)
        (end,) = (await self.end_offsets([partition])).values()
        return max(0, end - position)

    async def beginning_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """The offset of the first record that is left, or would be.

        first = (await consumer.beginning_offsets([("orders", 0)]))["orders", 0]
        """
        return await self._offsets(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """The offset behind the last record that can be read; for read_committed, the last stable offset.

        end = (await consumer.end_offsets([("orders", 0)]))["orders", 0]
        """
        return await self._offsets(partitions, LATEST)

    async def offsets_for_times(
        self, timestamps: Mapping[PartitionLike, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is as late as the timestamp; ``None`` where there is none.

        found = await consumer.offsets_for_times({("orders", 0): 1_700_000_000_000})
        """
        asked = {as_partition(partition): timestamp for partition, timestamp in timestamps.items()}
        with self._guard:
            promise = self._machine.find_offsets(asked, self._clock.monotonic_ms())
        return await self._within_timeout(promise, "offsets_for_times")

    async def partitions_for(self, topic: str) -> int:
        """How many partitions a topic has. Asking may create it, unless ``allow_auto_create_topics`` is off.

        count = await consumer.partitions_for("orders")
        """
        with self._guard:
            promise = self._machine.know_topic(topic, self._clock.monotonic_ms())
        return len((await self._within_timeout(promise, "partitions_for")).partitions)

    # Offsets of the group

    async def commit(self, offsets: OffsetsLike | None = None) -> None:
        """Commit these, or how far all partitions were read, and wait until it is done.

            await consumer.commit()
            await consumer.commit({("orders", 0): record.offset + 1})

        ``AbortableError``: the group has gone on without this member, and others have its partitions.
        ``RetriableError``: it is about to; poll, and see what is left.
        """
        await self._within_timeout(self.begin_commit(offsets), "commit")

    def commit_async(self, offsets: OffsetsLike | None = None) -> asyncio.Future[None]:
        """The same without waiting. Commits are sent in the order they were asked for.

        consumer.commit_async().add_done_callback(told)
        """
        driver = self._runtime.running()
        return driver.future_of(self.begin_commit(offsets))

    def begin_commit(self, offsets: OffsetsLike | None) -> Promise[None]:
        """What both are made of, for those who wait in their own way."""
        asked = None if offsets is None else as_offsets(offsets)
        with self._guard:
            return self._machine.commit(asked, self._clock.monotonic_ms())

    async def committed(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; ``None`` where that is nothing. Waits for undecided transactions.

        found = await consumer.committed([("orders", 0)])
        """
        with self._guard:
            promise = self._machine.committed(map(as_partition, partitions))
        return await self._within_timeout(promise, "committed")

    def group_metadata(self) -> GroupMetadata:
        """Who this member is now, for ``producer.send_offsets``: a member that was replaced is refused with it.

        await producer.send_offsets(offsets, consumer.group_metadata())
        """
        with self._guard:
            return self._machine.the_group("group_metadata").metadata()

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """How far each partition was read: what ``commit`` would commit now.

        for partition, reached in consumer.positions().items():
            print(partition, reached.offset)
        """
        with self._guard:
            return self._machine.positions()

    def unsettled(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The same, without what is known to be committed already."""
        with self._guard:
            return self._machine.the_group("unsettled").unsettled()

    def settled(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """A transaction has committed these."""
        with self._guard:
            self._machine.settled(offsets)

    def rewind(self) -> None:
        """Read again from what was committed last: what came after it was not done.

        consumer.rewind()
        """
        with self._guard:
            self._machine.rewind()
        self.wake()

    @property
    def commits_by_itself(self) -> bool:
        return self._config.commits_by_itself

    @property
    def has_lost_work(self) -> bool:
        """Whether partitions were taken away since something was read that is not committed yet."""
        with self._guard:
            return self._machine.has_lost_work

    # Records

    async def poll(self, timeout_ms: float | None = None, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records, in order within each partition; those of one partition stand together.

            for record in await consumer.poll(1000):
                print(record.partition, record.offset, record.value)

        Waits until there is one, up to ``timeout_ms`` (for ever if that is ``None``); then what there is, up to
        ``max_records`` (``max_poll_records``). An empty list: there was none in time. ``DeserializationError``: a
        deserializer raised; the position stays before that record, and ``seek`` passes over it.
        """
        return await self._poll(timeout_ms, lambda: self.record_buffer.take(max_records))

    async def poll_arrow(self, timeout_ms: float | None = None, *, max_records: int | None = None) -> pa.Table:
        """The same as an Arrow table, decoded by the column (with pyarrow: ``semel[arrow]``).

            table = await consumer.poll_arrow(1000)
            frame = table.to_pandas()

        Columns: ``topic``, ``partition``, ``offset``, ``timestamp``, ``timestamp_type`` (0: its producer's, 1: the
        broker's), ``key``, ``value``, ``headers``. Without ``max_records`` it is all that is here, which
        ``fetch_max_bytes`` bounds. No rows: there was nothing in time. Deserializers are not asked.
        """
        arrow_module("tables", "poll_arrow")
        return await self._poll(timeout_ms, lambda: self.record_buffer.take_table(max_records))

    async def _poll(self, timeout_ms: float | None, take: Callable[[], Taken]) -> Taken:
        driver = self._runtime.running()
        self.group_session.require_partitions()
        expires_ms = NEVER if timeout_ms is None else self._clock.monotonic_ms() + timeout_ms
        while True:
            taken = take()
            callback = None if len(taken) else self.group_session.due()
            if callback is not None:
                await self._tell(callback)
            elif len(taken) or not await self.group_session.wait(expires_ms):
                break
        driver.wake()  # There is room now for more to be fetched.
        return taken

    def __aiter__(self) -> Consumer:
        return self

    async def __anext__(self) -> ConsumerRecord:
        try:
            record = self.record_buffer.take_decoded()
            return (await self.poll(max_records=1))[0] if record is None else record
        except SemelError:
            if self._runtime.is_closed:
                raise StopAsyncIteration from None
            raise

    # The end

    async def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commit, if the consumer commits by itself, tell the listener, leave the group, and disconnect.

            await consumer.close(timeout_ms=5000)

        A static member does not leave: its partitions wait for it. What takes longer than ``timeout_ms`` is left.
        """
        if self._closing:
            return
        self.group_session.refuse_in_listener("close")
        self._closing = True
        try:
            if self._runtime.driver is not None:
                await self._leave("the consumer was closed", timeout_ms)
        finally:
            await self.disconnect()

    async def disconnect(self) -> None:
        """End at once, as a process that is killed would."""
        self._closing = True
        await self._runtime.shut()

    # Inside

    @property
    def _guard(self) -> AbstractContextManager[Any]:
        """Raises after a fork: the thread that may have held the lock stayed behind, and would never release it."""
        self._runtime.check_process()
        return self._runtime.guard

    async def _leave(self, reason: str, timeout_ms: float) -> None:
        self._runtime.check_process()
        left = self.group_session.begin_leaving(reason)
        expires_ms = self._clock.monotonic_ms() + timeout_ms
        error: Exception | None = None
        while not left.settled:
            callback = self.group_session.due()
            if callback is not None:
                try:
                    await self._tell(callback)
                except Exception as raised:  # The group must be left all the same.
                    error = raised
            elif not await self.group_session.wait(expires_ms, left):
                break
        if error is not None:
            raise error

    async def _tell(self, callback: Callback) -> None:
        try:
            answer = told(self.group_session.listener, callback)
            if inspect.isawaitable(answer):
                await answer
        finally:
            self.group_session.told(callback)

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
            return await self._runtime.running().wait(promise, timeout_ms=timeout_ms)
        except TimeoutError:
            raise TimedOut(
                ErrorCode.REQUEST_TIMED_OUT, f"{call}: no answer within default.api.timeout.ms ({timeout_ms} ms)"
            ) from None


def settle_future(future: Future[None], promise: Promise[None]) -> None:
    if future.done():
        return
    if promise.error is None:
        future.set_result(None)
    else:
        future.set_exception(promise.error)
