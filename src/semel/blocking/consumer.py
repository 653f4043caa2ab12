"""``semel.blocking.Consumer``: the same consumer, for threads.

Its driver runs in a thread of its own. Fetched records are taken from the machine directly, under the lock that the
driver takes too. A listener is called in the thread that polls, so it may commit and seek.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Generic, Self, Unpack

from semel.blocking.docs import copy_docstrings
from semel.client.assignors import Assignor
from semel.client.consumer import Consumer as AsyncConsumer
from semel.client.consumer_session import CLOSE_TIMEOUT_MS, ConsumerSession
from semel.client.deserializers import Deserializer, Deserializers
from semel.client.drivers.driver import settle_future
from semel.client.drivers.loop_thread import LoopThread
from semel.client.machine.group.reassignment import Callback
from semel.client.offsets import OffsetsLike, PartitionLike
from semel.client.rebalance_listener import call_listener
from semel.client.record_buffer import Taken
from semel.client.values import ConsumerRecord, GroupMetadata, K, OffsetAndMetadata, OffsetAndTimestamp, V
from semel.clock import NEVER
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from opentelemetry.trace import TracerProvider

    from semel.client.config.keywords import ConsumerSettings


class Consumer(Generic[K, V]):
    """``semel.Consumer`` without asyncio: every call that would be awaited blocks instead.

    with Consumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        for record in consumer:
            ...
    """

    def __init__(
        self,
        *,
        assignors: Sequence[Assignor | str] | None = None,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        tracer_provider: TracerProvider | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        self._guard = threading.RLock()
        self._closing = threading.Lock()
        """Held by the thread that closes this consumer."""
        self._closer: threading.Thread | None = None
        """That thread. A signal handler runs in the thread that it interrupts, and may close in the middle of close."""
        self._session = ConsumerSession(
            settings,
            Deserializers(key_deserializer, value_deserializer),
            assignors=assignors,
            guard=self._guard,
            tracer_provider=tracer_provider,
        )
        self._group_session, self._record_buffer = self._session.group_session, self._session.record_buffer
        self._thread = LoopThread("consumer")
        self._thread.run(self._session.start())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<blocking {self._session}>"

    def metrics(self) -> dict[str, float]:
        return self._session.metrics()

    # What is read, and from where

    def assign(self, partitions: Iterable[PartitionLike]) -> None:
        self._thread.check()
        self._session.assign(partitions)

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: object | None = None,
    ) -> None:
        self._thread.check()
        self._session.subscribe(topics, pattern, listener)

    def unsubscribe(self) -> None:
        self._leave("the consumer unsubscribed", self._session.config.default_api_timeout_ms)

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._session.assignment

    def seek(self, partition: PartitionLike, offset: int) -> None:
        self._thread.check()
        self._session.seek(partition, offset)

    def seek_to_beginning(self, *partitions: PartitionLike) -> None:
        self._thread.check()
        self._session.seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: PartitionLike) -> None:
        self._thread.check()
        self._session.seek_to_end(*partitions)

    def seek_to_time(self, timestamp: int, *partitions: PartitionLike) -> None:
        self._thread.check()
        self._session.seek_to_time(timestamp, *partitions)

    def pause(self, *partitions: PartitionLike) -> None:
        self._session.pause(*partitions)

    def resume(self, *partitions: PartitionLike) -> None:
        self._thread.check()
        self._session.resume(*partitions)

    def position(self, partition: PartitionLike) -> int:
        return self._thread.run(self._session.position(partition))

    def lag(self, partition: PartitionLike) -> int:
        return self._thread.run(self._session.lag(partition))

    def beginning_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        return self._thread.run(self._session.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        return self._thread.run(self._session.end_offsets(partitions))

    def offsets_for_times(
        self, timestamps: Mapping[PartitionLike, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._thread.run(self._session.offsets_for_times(timestamps))

    def partitions_for(self, topic: str) -> int:
        return self._thread.run(self._session.partitions_for(topic))

    # Offsets of the group

    def commit(self, offsets: OffsetsLike | None = None) -> None:
        self._thread.run(self._session.commit(offsets))

    def commit_async(self, offsets: OffsetsLike | None = None) -> Future[None]:
        self._thread.check()
        future: Future[None] = Future()
        driver = self._session.runtime.running()
        driver.follow(self._session.begin_commit(offsets), partial(settle_future, future))
        return future

    def committed(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return self._thread.run(self._session.committed(partitions))

    def group_metadata(self) -> GroupMetadata:
        return self._session.group_metadata()

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._session.positions()

    def rewind(self) -> None:
        self._thread.check()
        self._session.rewind()

    # Records

    def poll(self, timeout_ms: float | None = None, *, max_records: int | None = None) -> list[ConsumerRecord[K, V]]:
        """Return the next records, as ``semel.Consumer.poll`` does.

        for record in consumer.poll(1000):
            print(record.partition, record.offset, record.value)
        """
        spans = self._session.spans
        if spans is None:
            return self._take(timeout_ms, max_records)
        began_ns = time.time_ns()
        records = self._take(timeout_ms, max_records)
        spans.received(records, began_ns)
        return records

    def _take(self, timeout_ms: float | None, max_records: int | None) -> list[ConsumerRecord[K, V]]:
        return self._poll(timeout_ms, lambda: self._record_buffer.take(max_records))

    def poll_arrow(self, timeout_ms: float | None = None, *, max_records: int | None = None) -> pa.Table:
        """Return the next records as an Arrow table, as ``semel.Consumer.poll_arrow`` does.

        frame = consumer.poll_arrow(1000).to_pandas()
        """
        return self._poll(timeout_ms, lambda: self._record_buffer.take_table(max_records))

    def _poll(self, timeout_ms: float | None, take: Callable[[], Taken]) -> Taken:
        self._thread.check()
        self._session.runtime.check_failure()
        taken = take()
        if not len(taken):
            self._group_session.require_partitions()
            expires_ms, is_in_time = _expires_ms(timeout_ms), True
            while is_in_time and not len(taken):
                callback = self._group_session.due()
                if callback is not None:
                    self._call_listener(callback)
                else:
                    is_in_time = self._thread.run(self._group_session.wait(expires_ms))
                taken = take()
        self._session.runtime.wake()  # More can be fetched now.
        return taken

    def processing(self, record: ConsumerRecord[K, V]) -> AbstractContextManager[None]:
        return self._session.processing(record)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        if not self._thread.is_running:
            raise StopIteration
        self._thread.check()
        record = self._record_buffer.take_decoded()
        return self._take(None, 1)[0] if record is None else record

    def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        if not self._thread.is_running:
            return
        self._session.runtime.check_process()
        self._group_session.refuse_in_listener("close")
        if self._closer is threading.current_thread():
            return  # It goes on once the signal handler has returned.
        if not self._closing.acquire(timeout=min(timeout_ms / 1000, threading.TIMEOUT_MAX)):
            return  # Another thread closes, and goes on.
        self._closer = threading.current_thread()
        try:
            if not self._thread.is_running:
                return
            try:
                if self._session.runtime.failure is None:
                    self._leave("the consumer was closed", timeout_ms)
            finally:
                self._thread.finish(self._session.disconnect())
        finally:
            self._closer = None
            self._closing.release()

    # Inside

    def _leave(self, reason: str, timeout_ms: float) -> None:
        self._thread.check_is_usable()
        left = self._group_session.begin_leaving(reason)
        expires_ms = _expires_ms(timeout_ms)
        error: Exception | None = None
        while not left.settled:
            callback = self._group_session.due()
            if callback is not None:
                try:
                    self._call_listener(callback)
                except Exception as raised:  # The group must be left in any case.
                    error = raised
            elif not self._thread.run(self._group_session.wait(expires_ms, left)):
                break
        if error is not None:
            raise error

    def _call_listener(self, callback: Callback) -> None:
        try:
            call_listener(self._group_session.listener, callback)
        finally:
            self._group_session.callback_done(callback)


def _expires_ms(timeout_ms: float | None) -> float:
    return NEVER if timeout_ms is None else time.monotonic() * 1000 + timeout_ms


copy_docstrings(Consumer, AsyncConsumer)
