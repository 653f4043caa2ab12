"""``semel.blocking.Producer``: the same producer, for threads.

Its driver runs in a thread of its own. ``send`` does not use that thread: it puts its record straight into the machine,
under the lock that the driver takes too, because a switch between threads costs more than everything else it does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from semel.blocking.docs import copy_docstrings
from semel.client.arguments import HeadersLike
from semel.client.dead_letters import Processing, Raised
from semel.client.drivers.loop_thread import LoopThread
from semel.client.hooks import Hooks, OnAcknowledgement, OnSend, SendManyArguments, Serializer
from semel.client.machine.producer.bulk import Bulk
from semel.client.machine.producer.partitioner import Partitioner
from semel.client.offsets import GroupLike, OffsetsLike
from semel.client.producer import Producer as AsyncProducer
from semel.client.producer_session import ProducerSession
from semel.client.transaction_offsets import AnyConsumer
from semel.client.unseen_failures import DeliveryFuture
from semel.client.values import (
    BulkMetadata,
    ConsumerRecord,
    ProducerIdentity,
    ProducerRecord,
    ProducerSnapshot,
    RecordMetadata,
)
from semel.errors import SemelError

if TYPE_CHECKING:
    import pyarrow as pa
    from opentelemetry.trace import TracerProvider

    from semel.client.config.keywords import ProducerSettings


class Producer:
    """``semel.Producer`` without asyncio: every call that would be awaited blocks instead.

        with Producer(bootstrap_servers="localhost:9092") as producer:
            future = producer.send("orders", b"{...}")
            print(future.result().offset)

    It may be used by many threads. Callbacks of futures run in the producer's thread and must not block.
    """

    def __init__(
        self,
        *,
        partitioner: Partitioner | None = None,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        on_send: OnSend | None = None,
        on_acknowledgement: OnAcknowledgement | None = None,
        tracer_provider: TracerProvider | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        self._guard = threading.RLock()
        self._session = ProducerSession(
            settings,
            Hooks(key_serializer, value_serializer, on_send, on_acknowledgement),
            partitioner=partitioner,
            guard=self._guard,
            tracer_provider=tracer_provider,
        )
        self._machine, self._runtime = self._session.machine, self._session.runtime
        self._send_queue = self._session.send_queue
        self._thread = LoopThread("producer")
        self._thread.run(self._session.start())

    def __enter__(self) -> Producer:
        if self._session.is_transactional:
            try:
                self.init()
            except BaseException:
                self.close(timeout_ms=0)
                raise
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        self._close(None, raises=kind is None)

    def __repr__(self) -> str:
        return f"<blocking {self._session}>"

    @property
    def state(self) -> ProducerSnapshot:
        return self._session.snapshot()

    def metrics(self) -> dict[str, float]:
        return self._session.metrics()

    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: HeadersLike = (),
        timestamp: int | None = None,
    ) -> Future[RecordMetadata]:
        """Send a record; ``result()`` of what is returned says where it was written.

            future = producer.send("orders", b"{...}", key=b"customer-7")
            print(future.result().offset)

        Blocks while the buffer is full. The future cannot be cancelled, because the record is accepted already.
        """
        self._thread.check()
        future: Future[RecordMetadata] = DeliveryFuture()
        future.set_running_or_notify_cancel()
        with self._guard:
            changed = self._send_queue.put(future, topic, value, key, partition, headers, timestamp)
            is_full = self._machine.is_full
        if changed:
            self._runtime.wake()
        if is_full:
            self._wait_for_room()
        return future

    def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None = None,
        *,
        partition: int | Sequence[int | None] | None = None,
        headers: Sequence[HeadersLike] | None = None,
        timestamps: int | Sequence[int | None] | None = None,
    ) -> Future[BulkMetadata]:
        """Send many records of one topic, as ``semel.Producer.send_many``. Blocks until the buffer has accepted them.

        written = producer.send_many("orders", values, keys).result()
        print(written.record_count)
        """
        lists = SendManyArguments(values, keys, partition, headers, timestamps)
        return self._send_bulk(self._send_queue.bulk_of_lists(topic, lists, "send_many"))

    def send_arrow(self, topic: str, table: pa.Table | pa.RecordBatch) -> Future[BulkMetadata]:
        """Send the rows of a table, as ``semel.Producer.send_arrow``. Blocks until the buffer has accepted them.

        producer.send_arrow("orders", pa.table({"value": [b"1", b"2"]})).result()
        """
        return self._send_bulk(self._send_queue.bulk_of_table(topic, table, "send_arrow"))

    def _send_bulk(self, bulk: Bulk) -> Future[BulkMetadata]:
        self._thread.check()
        future: Future[BulkMetadata] = DeliveryFuture()
        future.set_running_or_notify_cancel()
        with self._guard:
            self._send_queue.put_bulk(future, bulk)
        self._runtime.wake()
        self._wait_for_room()
        return future

    def _wait_for_room(self) -> None:
        try:
            self._thread.run(self._session.drain())
        except SemelError:
            if self._runtime.failure is None:
                raise
            # The records that were sent have failed with the client, and their futures say so.

    def flush(self) -> None:
        self._thread.run(self._session.flush())

    def partitions_for(self, topic: str) -> int:
        return self._thread.run(self._session.partitions_for(topic))

    def init(self) -> None:
        self._thread.run(self._session.init())

    def attach(self, producer_id: int, producer_epoch: int, transaction_version: int) -> None:
        self._thread.check()
        self._session.attach(producer_id, producer_epoch, transaction_version)

    @property
    def identity(self) -> ProducerIdentity:
        return self._session.identity

    def bump_epoch(self) -> None:
        self._thread.run(self._session.bump_epoch())

    def begin(self) -> None:
        self._thread.check()
        self._session.begin()

    def send_offsets(self, offsets: OffsetsLike, group: GroupLike) -> None:
        self._thread.run(self._session.send_offsets(offsets, group))

    def commit(self) -> None:
        self._thread.run(self._session.commit())

    def abort(self) -> None:
        self._thread.run(self._session.abort())

    @contextmanager
    def transaction(self, *, consumer: AnyConsumer | None = None, dead_letter: str | None = None) -> Iterator[Producer]:
        self._thread.check()
        if dead_letter is not None and not self._session.knows_dead_letter_topic(dead_letter):
            self._thread.run(self._session.find_dead_letter_topic(dead_letter))
        consumed = self._session.begin_consuming(consumer, dead_letter)
        try:
            yield self
        except BaseException:
            self._thread.run(self._session.abandon(consumed))
            raise
        self._thread.run(self._session.commit_or_abandon(consumed))

    def processing(self, record: ConsumerRecord, *, on: Raised = Exception) -> Processing:
        return self._session.processing(record, self._take, on)

    def attempts(self, record: ConsumerRecord, count: int, *, on: Raised = Exception) -> Iterator[Processing]:
        return self._session.attempts(record, count, self._take, on)

    def _take(self, record: ProducerRecord) -> None:
        self._thread.check()
        future: Future[RecordMetadata] = DeliveryFuture()
        future.set_running_or_notify_cancel()
        with self._guard:
            changed = self._send_queue.put_prepared(future, record)
            is_full = self._machine.is_full
        if changed:
            self._runtime.wake()
        if is_full:
            self._wait_for_room()

    def close(self, timeout_ms: float | None = None) -> None:
        self._close(timeout_ms, raises=True)

    def _close(self, timeout_ms: float | None, *, raises: bool) -> None:
        if self._thread.is_running:
            self._thread.finish(self._session.close(timeout_ms, raises=raises))


def send_batch(
    producer: Producer, topic: str, partition: int, records: bytes, record_count: int
) -> Future[RecordMetadata]:
    """Send a batch that was encoded elsewhere (``client.arrow.encode``), for Spark; the future is of its first record.

    The topic must be known (``partitions_for``). Never blocks: the caller must limit the unsettled bytes.
    """
    producer._thread.check()
    future: Future[RecordMetadata] = DeliveryFuture()
    future.set_running_or_notify_cancel()
    with producer._guard:
        producer._send_queue.put_batch(future, topic, partition, records, record_count)
    producer._runtime.wake()
    return future


copy_docstrings(Producer, AsyncProducer)
