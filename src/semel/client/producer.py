"""``semel.Producer``: sends records exactly once, alone or in transactions. With threads: ``semel.blocking``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Unpack

from semel.client.arguments import HeadersLike
from semel.client.dead_letters import Processing, Raised
from semel.client.hooks import Hooks, OnAcknowledgement, OnSend, SendManyArguments, Serializer
from semel.client.machine.producer.bulk import Bulk
from semel.client.machine.producer.partitioner import Partitioner
from semel.client.offsets import GroupLike, OffsetsLike
from semel.client.producer_session import ProducerSession
from semel.client.transaction_offsets import AnyConsumer
from semel.client.values import (
    BulkMetadata,
    ConsumerRecord,
    ProducerIdentity,
    ProducerRecord,
    ProducerSnapshot,
    RecordMetadata,
)
from semel.clock import Clock
from semel.net.network import Network

if TYPE_CHECKING:
    import pyarrow as pa
    from opentelemetry.trace import TracerProvider

    from semel.client.config.keywords import ProducerSettings


class Producer:
    """Sends records to Kafka or Semel.

        async with Producer(bootstrap_servers="localhost:9092") as producer:
            await producer.send("orders", b"{...}", key=b"customer-7")

    Settings are Kafka's, as keywords with underscores, with Kafka's defaults. Without any, every record is written once
    and in order per partition, whatever is lost on the way. With ``transactional_id``, ``async with`` also runs
    ``init``, and records are sent in transactions:

        async with Producer(bootstrap_servers="localhost:9092", transactional_id="billing-1") as producer:
            async with producer.transaction():
                producer.send("invoices", invoice)
                producer.send("ledger", entry)

    ``partitioner`` is a function of (topic, key, value, partition count) that returns the partition. Keys and values
    are bytes, or what ``key_serializer`` and ``value_serializer`` turn into bytes; ``on_send`` sees, and may change,
    every record before that; ``on_acknowledgement`` is called with where it was written, or why not: see
    docs/client.md. ``network``, ``clock`` and ``random`` are for simulations. A producer belongs to one event loop.
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
        network: Network | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        self._session = ProducerSession(
            settings,
            Hooks(key_serializer, value_serializer, on_send, on_acknowledgement),
            partitioner=partitioner,
            network=network,
            clock=clock,
            random=random,
            tracer_provider=tracer_provider,
        )
        self._runtime, self._send_queue = self._session.runtime, self._session.send_queue

    async def start(self) -> None:
        """Start in the loop that this is called from. ``async with`` does it, and so does the first call that waits.

        await producer.start()
        """
        await self._session.start()

    async def __aenter__(self) -> Producer:
        await self.start()
        if self._session.is_transactional:
            try:
                await self.init()
            except BaseException:
                await self.close(timeout_ms=0)
                raise
        return self

    async def __aexit__(self, kind: object, *exception: object) -> None:
        await self._session.close(None, raises=kind is None)

    def __repr__(self) -> str:
        return f"<{self._session}>"

    # Records

    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: HeadersLike = (),
        timestamp: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Send a record; await what is returned to know where it was written.

            written = await producer.send("orders", b"{...}", key=b"customer-7", headers={"trace": b"1"})
            print(written.partition, written.offset)

        The record is accepted at once, and sent together with others. If the buffer is full it waits for room, up to
        ``max_block_ms``; a caller that awaits nothing should await ``drain`` now and then. Cancelling the future does
        not take the record back.
        """
        future: asyncio.Future[RecordMetadata] = (self._runtime.driver or self._runtime.running()).create_future()
        if self._send_queue.put(future, topic, value, key, partition, headers, timestamp):
            self._runtime.wake()
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
    ) -> asyncio.Future[BulkMetadata]:
        """Send many records of one topic; await what is returned to know where they were written.

            written = await producer.send_many("orders", values, keys)
            print(written.record_count, {number: part.last_offset for number, part in written.partitions.items()})

        They are written as if each had been sent alone, in the same order, and with the same guarantees; but they are
        encoded column by column (with pyarrow: ``semel[arrow]``), which takes a fraction of the time. One ``partition``
        or ``timestamps`` is used for all records. They are sent as the buffer has room; what is sent meanwhile waits
        behind them. If a record fails, the future fails, and its error says how many were written.
        """
        lists = SendManyArguments(values, keys, partition, headers, timestamps)
        return self._send_bulk(self._send_queue.bulk_of_lists(topic, lists, "send_many"))

    def send_arrow(self, topic: str, table: pa.Table | pa.RecordBatch) -> asyncio.Future[BulkMetadata]:
        """Send the rows of a table, which has a column ``value``, ``key``, or both, as ``send_many`` does.

            table = pa.table({"key": ["a", "b"], "value": [b"1", b"2"]})
            await producer.send_arrow("orders", table)

        It may have more columns: ``headers`` (a list of structs of key and value, or a map), ``partition``,
        ``timestamp`` (of Arrow's type, or milliseconds). Null means: not given. Serializers are not used.
        """
        return self._send_bulk(self._send_queue.bulk_of_table(topic, table, "send_arrow"))

    def _send_bulk(self, bulk: Bulk) -> asyncio.Future[BulkMetadata]:
        future: asyncio.Future[BulkMetadata] = (self._runtime.driver or self._runtime.running()).create_future()
        self._send_queue.put_bulk(future, bulk)
        self._runtime.wake()
        return future

    @property
    def state(self) -> ProducerSnapshot:
        """The producer at this moment: the state of its transaction, its id and epoch, its sequences.

        print(producer.state.state, producer.state.partitions)
        """
        return self._session.snapshot()

    def metrics(self) -> dict[str, float]:
        """Return counts of what this producer has sent since it was made, under Kafka's names: see docs/client.md.

        print(producer.metrics()["record-error-total"])
        """
        return self._session.metrics()

    async def drain(self) -> None:
        """Wait while records wait for room in the buffer. Returns at once if there is room.

        for line in lines:
            producer.send("orders", line)
            await producer.drain()
        """
        await self._session.drain()

    async def flush(self) -> None:
        """Send all accepted records without lingering, and wait until each is acknowledged or has failed.

            producer.send("orders", b"{...}")
            await producer.flush()

        Raises if some of them failed: the error of the first record that failed since the last ``flush`` and whose
        future was not looked at, with how many there are. A failure that was looked at is not raised again. Within a
        transaction that has failed, it raises the error that ``commit`` would raise.
        """
        await self._session.flush()

    async def partitions_for(self, topic: str) -> int:
        """Return how many partitions a topic has. This may create it, as sending does.

        count = await producer.partitions_for("orders")
        """
        return await self._session.partitions_for(topic)

    # Transactions

    async def init(self) -> None:
        """Take over the transactional id: its previous producer is fenced, and its open transaction is aborted.

        await producer.init()
        """
        await self._session.init()

    def attach(self, producer_id: int, producer_epoch: int, transaction_version: int) -> None:
        """Instead of ``init``: write within the transaction of a producer that has this ``identity``.

            worker.attach(*owner.identity)

        Only its owner can commit or abort it. This producer never requests an epoch of its own; if something fails
        here, the application must report that to the owner, which must abort. Before it is attached again, to the next
        transaction, it must have been flushed.
        """
        self._session.attach(producer_id, producer_epoch, transaction_version)

    @property
    def identity(self) -> ProducerIdentity:
        """The producer id and epoch that this producer writes with now, for others to ``attach`` to.

        worker.attach(*owner.identity)
        """
        return self._session.identity

    async def bump_epoch(self) -> None:
        """Between transactions: fence all producers that are still attached to this one's identity.

            await owner.bump_epoch()

        With transactions V2 every commit and abort does that; with V1, do it before a transaction that others write in.
        """
        await self._session.bump_epoch()

    def begin(self) -> None:
        """Begin a transaction. No request is made to a broker before something is sent.

        producer.begin()
        producer.send("invoices", invoice)
        await producer.commit()
        """
        self._session.begin()

    async def send_offsets(self, offsets: OffsetsLike, group: GroupLike) -> None:
        """Commit a consumer group's offsets as part of the transaction.

            await producer.send_offsets({("orders", 0): record.offset + 1}, group=consumer.group_metadata())

        ``offsets`` maps partitions to the offset of the next record to read. ``group`` is a group id, or a
        ``GroupMetadata``, with which a member that has lost its partitions is refused.
        """
        await self._session.send_offsets(offsets, group)

    async def commit(self) -> None:
        """Send the records that are left, then commit. Returns when the outcome is final.

            await producer.commit()

        ``AbortableError``: something failed; consumers see nothing of the transaction once ``abort`` was called.
        ``TimedOut``: not decided within ``max_block_ms``, and still pursued; call ``commit`` again to continue waiting.
        """
        await self._session.commit()

    async def abort(self) -> None:
        """Abort the transaction: nothing of it will be seen. Records that were not sent yet are dropped.

        await producer.abort()
        """
        await self._session.abort()

    @contextlib.asynccontextmanager
    async def transaction(
        self, *, consumer: AnyConsumer | None = None, dead_letter: str | None = None
    ) -> AsyncIterator[Producer]:
        """Return a context that begins a transaction and commits it; after any exception it aborts instead.

            async with producer.transaction(consumer=consumer):
                producer.send("invoices", invoice)

        That includes exceptions of ``commit``. With a ``consumer``, its positions are committed with the transaction,
        and after an abort it reads again what it had read. A commit whose outcome is unknown is never followed by an
        abort: it raises ``TimedOut``, and goes on. ``dead_letter`` is a topic for records that cannot be processed: see
        ``processing``. If there is no such topic, this raises before anything begins.
        """
        if dead_letter is not None and not self._session.knows_dead_letter_topic(dead_letter):
            await self._session.find_dead_letter_topic(dead_letter)
        consumed = self._session.begin_consuming(consumer, dead_letter)
        try:
            yield self
        except BaseException:
            await self._session.abandon(consumed)
            raise
        await self._session.commit_or_abandon(consumed)

    def processing(self, record: ConsumerRecord, *, on: Raised = Exception) -> Processing:
        """Return a context for processing one record, in a transaction that has a ``dead_letter`` topic.

            async with producer.transaction(consumer=consumer, dead_letter="orders.dlq"):
                for record in records:
                    with producer.processing(record, on=ValueError) as output:
                        output.send("invoices", invoice_for(record))

        The records given to ``output`` are sent when the block has ended. If the block raises, none of them is sent:
        the record goes to the dead-letter topic, in the same transaction, with the reason in its headers, and the
        program continues behind the block. ``on`` are the exceptions that this holds for; others, and the client's own
        errors, are raised.
        """
        return self._session.processing(record, self._take, on)

    def attempts(self, record: ConsumerRecord, count: int, *, on: Raised = Exception) -> Iterator[Processing]:
        """Yield attempts at processing one record: each as ``processing``, up to ``count`` in the same transaction.

            for attempt in producer.attempts(record, 3, on=ValueError):
                with attempt as output:
                    output.send("invoices", invoice_for(record))

        The next attempt follows if a block has raised one of ``on``; the records given to its ``output`` are dropped.
        After the last attempt the record becomes a dead letter, and a header says how many there were.
        ``output.attempt`` is the number of this one, from 1.
        """
        return self._session.attempts(record, count, self._take, on)

    def _take(self, record: ProducerRecord) -> None:
        if self._send_queue.put_prepared(self._runtime.running().create_future(), record):
            self._runtime.wake()

    # The end

    async def close(self, timeout_ms: float | None = None) -> None:
        """Wait until every record is acknowledged or has failed, then disconnect. An open transaction is aborted.

            await producer.close(timeout_ms=5000)

        After ``timeout_ms`` the remaining records fail; ``None`` waits as long as ``delivery_timeout_ms`` allows.
        Raises as ``flush`` does, after everything is closed; so does the end of ``async with``, unless another
        exception ends it. With 0 it raises nothing, because the remaining records are not wanted.
        """
        await self._session.close(timeout_ms)
