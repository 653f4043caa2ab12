"""``semel.Consumer``: reads partitions, alone or in a group. For asyncio; threads use ``semel.blocking``."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from random import Random
from typing import TYPE_CHECKING, Generic, Self, Unpack

from semel.client.arrow_extra import arrow_module
from semel.client.assignors import Assignor
from semel.client.consumer_session import CLOSE_TIMEOUT_MS, ConsumerSession
from semel.client.deserializers import Deserializer, Deserializers
from semel.client.machine.group.reassignment import Callback
from semel.client.offsets import OffsetsLike, PartitionLike
from semel.client.rebalance_listener import call_listener
from semel.client.record_buffer import Taken
from semel.client.values import ConsumerRecord, GroupMetadata, K, OffsetAndMetadata, OffsetAndTimestamp, V
from semel.clock import NEVER, Clock
from semel.errors import SemelError
from semel.net.network import Network
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from opentelemetry.trace import TracerProvider

    from semel.client.config.keywords import ConsumerSettings


class Consumer(Generic[K, V]):
    """Reads records from Kafka or Semel.

        async with Consumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
            consumer.subscribe(["orders"])
            async for record in consumer:
                ...

    Settings are Kafka's, as keywords with underscores, with Kafka's defaults. Reading of a partition starts where its
    group has committed, or else at ``auto_offset_reset`` (latest, unless set), or where ``seek`` says. ``assignors``
    are objects to be offered instead of those that ``partition_assignment_strategy`` names. Keys and values are bytes,
    or what ``key_deserializer`` and ``value_deserializer`` return for them. A consumer belongs to one event loop. With
    a group it has a thread for its connections: it stays a member while the application blocks the loop.

    For type checkers a consumer is a ``Consumer[K, V]`` of what its deserializers return, bytes without them.
    """

    def __init__(
        self,
        *,
        assignors: Sequence[Assignor | str] | None = None,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        tracer_provider: TracerProvider | None = None,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        self._session = ConsumerSession(
            settings,
            Deserializers(key_deserializer, value_deserializer),
            assignors=assignors,
            network=network,
            clock=clock,
            random=random,
            tracer_provider=tracer_provider,
        )
        self._runtime, self._clock = self._session.runtime, self._session.clock
        self._group_session, self._record_buffer = self._session.group_session, self._session.record_buffer
        weakref.finalize(self, self._runtime.abandon).atexit = False
        self._closing: asyncio.Future[None] | None = None
        """Done when ``close``, which has begun, has ended."""

    async def start(self) -> None:
        """Start, for the loop that this is called from. ``async with`` does it, and so does the first call that waits.

        await consumer.start()
        """
        await self._session.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{self._session}>"

    def metrics(self) -> dict[str, float]:
        """Return counts and lags of this consumer since it was made, under Kafka's names: see docs/client.md.

        print(consumer.metrics()["records-lag-max"])
        """
        return self._session.metrics()

    # What is read, and from where

    def assign(self, partitions: Iterable[PartitionLike]) -> None:
        """Read these partitions and no others. Those that were assigned before keep their position.

        consumer.assign([("orders", 0), ("orders", 1)])
        """
        self._session.assign(partitions)

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: object | None = None,
    ) -> None:
        """Subscribe to topics, or to all whose whole name matches a pattern, as a member of the group.

            consumer.subscribe(["orders"], listener=listener)
            consumer.subscribe(pattern="orders-.*")

        The first ``poll`` joins the group. ``listener`` is called when partitions are assigned or revoked: see
        ``RebalanceListener``. Subscribing again replaces the subscription.
        """
        self._session.subscribe(topics, pattern, listener)

    async def unsubscribe(self) -> None:
        """Revoke all partitions, as for a rebalance, and leave the group. This also ends ``assign``.

        await consumer.unsubscribe()
        """
        await self._leave("the consumer unsubscribed", self._session.config.default_api_timeout_ms)

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read, by ``assign`` or as the group has assigned them.

        print(consumer.assignment)
        """
        return self._session.assignment

    def seek(self, partition: PartitionLike, offset: int) -> None:
        """Continue to read at this offset.

        consumer.seek(("orders", 0), 42)
        """
        self._session.seek(partition, offset)

    def seek_to_beginning(self, *partitions: PartitionLike) -> None:
        """Continue to read at the first record that is still in the log; all partitions if none is named.

        consumer.seek_to_beginning()
        """
        self._session.seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: PartitionLike) -> None:
        """Continue to read behind the last record; for read_committed, at the last stable offset.

        consumer.seek_to_end(("orders", 0))
        """
        self._session.seek_to_end(*partitions)

    def seek_to_time(self, timestamp: int, *partitions: PartitionLike) -> None:
        """Continue to read at the first record with this timestamp (ms since 1970) or a later one, or else at the end.

        consumer.seek_to_time(1_700_000_000_000)
        """
        self._session.seek_to_time(timestamp, *partitions)

    def pause(self, *partitions: PartitionLike) -> None:
        """Return no records of these partitions until ``resume``.

        consumer.pause(("orders", 0))
        """
        self._session.pause(*partitions)

    def resume(self, *partitions: PartitionLike) -> None:
        """Return records of paused partitions again; those that were fetched before come first.

        consumer.resume(("orders", 0))
        """
        self._session.resume(*partitions)

    async def position(self, partition: PartitionLike) -> int:
        """Return the offset of the next record that ``poll`` will return.

        offset = await consumer.position(("orders", 0))
        """
        return await self._session.position(partition)

    async def lag(self, partition: PartitionLike) -> int:
        """Return how many offsets lie between the position and the end of what can be read; 0 once all of it was read.

            behind = await consumer.lag(("orders", 0))

        For read_committed that end is the last stable offset. It is as of the last Fetch response that had something
        new.
        """
        return await self._session.lag(partition)

    async def beginning_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition, or of its next record if it has none.

        first = (await consumer.beginning_offsets([("orders", 0)]))["orders", 0]
        """
        return await self._session.beginning_offsets(partitions)

    async def end_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """Return the offset behind the last record that can be read; for read_committed, the last stable offset.

        end = (await consumer.end_offsets([("orders", 0)]))["orders", 0]
        """
        return await self._session.end_offsets(partitions)

    async def offsets_for_times(
        self, timestamps: Mapping[PartitionLike, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return each partition's first offset with this timestamp or a later one; ``None`` where there is none.

        found = await consumer.offsets_for_times({("orders", 0): 1_700_000_000_000})
        """
        return await self._session.offsets_for_times(timestamps)

    async def partitions_for(self, topic: str) -> int:
        """Return how many partitions a topic has. This may create it, unless ``allow_auto_create_topics`` is off.

        count = await consumer.partitions_for("orders")
        """
        return await self._session.partitions_for(topic)

    # Offsets of the group

    async def commit(self, offsets: OffsetsLike | None = None) -> None:
        """Commit these offsets, or by default the positions of all partitions, and wait until it is done.

            await consumer.commit()
            await consumer.commit({("orders", 0): record.offset + 1})

        ``AbortableError``: the group has gone on without this member, and other members have its partitions.
        ``RetriableError``: it is about to; poll, and see which partitions are left.
        """
        await self._session.commit(offsets)

    def commit_async(self, offsets: OffsetsLike | None = None) -> asyncio.Future[None]:
        """Commit as ``commit`` does, without waiting. Commits are sent in the order of the calls.

        consumer.commit_async().add_done_callback(told)
        """
        driver = self._runtime.running()
        return driver.future_of(self._session.begin_commit(offsets))

    async def committed(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets; ``None`` where there is none. Waits for open transactions.

        found = await consumer.committed([("orders", 0)])
        """
        return await self._session.committed(partitions)

    def group_metadata(self) -> GroupMetadata:
        """Return this member's identity for ``producer.send_offsets``, by which a replaced member is refused.

        await producer.send_offsets(offsets, consumer.group_metadata())
        """
        return self._session.group_metadata()

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the position of each partition: what ``commit`` would commit now.

        for partition, reached in consumer.positions().items():
            print(partition, reached.offset)
        """
        return self._session.positions()

    def rewind(self) -> None:
        """Go back to what was committed last: the records behind it are returned again.

        consumer.rewind()
        """
        self._session.rewind()

    # Records

    async def poll(
        self, timeout_ms: float | None = None, *, max_records: int | None = None
    ) -> list[ConsumerRecord[K, V]]:
        """Return the next records, in order within each partition; those of one partition are adjacent.

            for record in await consumer.poll(1000):
                print(record.partition, record.offset, record.value)

        Waits for a record, up to ``timeout_ms`` (for ever if that is ``None``); then returns what was fetched, up to
        ``max_records`` (``max_poll_records``). An empty list: there was none in time. ``DeserializationError``: a
        deserializer raised; the position stays before that record, and ``seek`` can skip it.
        """
        spans = self._session.spans
        if spans is None:
            return await self._take(timeout_ms, max_records)
        began_ns = time.time_ns()
        records = await self._take(timeout_ms, max_records)
        spans.received(records, began_ns)
        return records

    async def _take(self, timeout_ms: float | None, max_records: int | None) -> list[ConsumerRecord[K, V]]:
        return await self._poll(timeout_ms, lambda: self._record_buffer.take(max_records))

    async def poll_arrow(self, timeout_ms: float | None = None, *, max_records: int | None = None) -> pa.Table:
        """Return the next records as an Arrow table, decoded column by column (with pyarrow: ``semel[arrow]``).

            table = await consumer.poll_arrow(1000)
            frame = table.to_pandas()

        Columns: ``topic``, ``partition``, ``offset``, ``timestamp``, ``timestamp_type`` (0: its producer's, 1: the
        broker's), ``key``, ``value``, ``headers``. Without ``max_records`` it is all that was fetched, which
        ``fetch_max_bytes`` limits. No rows: there was no record in time. Deserializers are not used.
        """
        arrow_module("tables", "poll_arrow")
        return await self._poll(timeout_ms, lambda: self._record_buffer.take_table(max_records))

    async def _poll(self, timeout_ms: float | None, take: Callable[[], Taken]) -> Taken:
        driver = self._runtime.running()
        self._group_session.require_partitions()
        expires_ms = NEVER if timeout_ms is None else self._clock.monotonic_ms() + timeout_ms
        while True:
            taken = take()
            callback = None if len(taken) else self._group_session.due()
            if callback is not None:
                await self._call_listener(callback)
            elif len(taken) or not await self._group_session.wait(expires_ms):
                break
        driver.wake()  # More can be fetched now.
        return taken

    def processing(self, record: ConsumerRecord[K, V]) -> AbstractContextManager[None]:
        """Return a context: with OpenTelemetry, a span for processing one record, linked to the span that sent it.

            for record in await consumer.poll(1000):
                with consumer.processing(record):
                    ...

        Without a tracer provider it does nothing.
        """
        return self._session.processing(record)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        try:
            record = self._record_buffer.take_decoded()
            return (await self._take(None, 1))[0] if record is None else record
        except SemelError:
            if self._runtime.is_closed and self._runtime.failure is None:
                raise StopAsyncIteration from None
            raise

    # The end

    async def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commit, if the consumer commits automatically, call the listener, leave the group, and disconnect.

            await consumer.close(timeout_ms=5000)

        A static member does not leave: its partitions wait for it. What takes longer than ``timeout_ms`` is skipped.
        If another task closes already, this waits until that is done.
        """
        if self._runtime.failure is not None:
            await self._session.disconnect()
            return
        if self._runtime.is_closed and (self._closing is None or self._closing.done()):
            return
        self._runtime.check_process()
        if self._closing is not None:
            if not self._group_session.is_in_listener:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(timeout_ms / 1000):
                        await asyncio.shield(self._closing)
            return
        self._group_session.refuse_in_listener("close")
        self._closing = asyncio.get_running_loop().create_future()
        try:
            if self._runtime.driver is not None:
                await self._leave("the consumer was closed", timeout_ms)
        finally:
            try:
                await self._session.disconnect()
            finally:
                self._closing.set_result(None)

    # Inside

    async def _leave(self, reason: str, timeout_ms: float) -> None:
        self._runtime.check_process()
        left = self._group_session.begin_leaving(reason)
        expires_ms = self._clock.monotonic_ms() + timeout_ms
        error: Exception | None = None
        while not left.settled:
            callback = self._group_session.due()
            if callback is not None:
                try:
                    await self._call_listener(callback)
                except Exception as raised:  # The group must be left in any case.
                    error = raised
            elif not await self._group_session.wait(expires_ms, left):
                break
        if error is not None:
            raise error

    async def _call_listener(self, callback: Callback) -> None:
        try:
            answer = call_listener(self._group_session.listener, callback)
            if inspect.isawaitable(answer):
                await answer
        finally:
            self._group_session.callback_done(callback)
