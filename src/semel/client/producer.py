"""``semel.Producer``: sends records exactly once, alone or in transactions. With threads: ``semel.blocking``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractContextManager
from random import Random, SystemRandom
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from semel import __version__
from semel.client.config.producer import ProducerConfig
from semel.client.deliveries import settle
from semel.client.drivers.driver import Driver
from semel.client.drivers.runtime import ClientRuntime
from semel.client.hooks import Hooks, Lists, OnAcknowledgement, OnSend, Serializer
from semel.client.machine.connection.promise import Promise
from semel.client.machine.producer.bulk import Bulk
from semel.client.machine.producer.partitioner import Partitioner
from semel.client.machine.producer.producer import ProducerMachine
from semel.client.machine.producer.sequences import Identity
from semel.client.machine.transaction.states import TransactionState
from semel.client.machine.transaction.transaction import Transaction
from semel.client.offsets import GroupLike, HeadersLike, OffsetsLike, as_group, as_offsets
from semel.client.security.tls import network_for
from semel.client.send_queue import SendQueue
from semel.client.transaction_offsets import Consuming, TransactionOffsets
from semel.client.values import BulkMetadata, ProducerIdentity, RecordMetadata
from semel.clock import Clock, SystemClock
from semel.errors import ErrorCode, SemelError, StateError, TimedOut
from semel.net.network import Network

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


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

    ``partitioner`` is a function of (topic, key, value, partition count) that gives the partition. Keys and values are
    bytes, or what ``key_serializer`` and ``value_serializer`` make bytes of; ``on_send`` sees, and may change, every
    record before that; ``on_acknowledgement`` is told where it was written, or why not: see docs/client.md.
    ``network``, ``clock`` and ``random`` are for simulations. A producer belongs to one event loop.
    """

    def __init__(
        self,
        *,
        partitioner: Partitioner | None = None,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        on_send: OnSend | None = None,
        on_acknowledgement: OnAcknowledgement | None = None,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        guard: AbstractContextManager[Any] | None = None,
        **settings: Any,
    ) -> None:
        self._config = ProducerConfig.load(settings)
        self._machine = ProducerMachine(
            self._config, random or SystemRandom(), partitioner=partitioner, software_version=__version__
        )
        self._runtime = ClientRuntime(
            "producer",
            self._machine,
            network=network or network_for(self._config.client.security),
            clock=clock or SystemClock(),
            guard=guard,
            turned=self._turned,
        )
        self._clock, self._guard = self._runtime.clock, self._runtime.guard
        hooks = Hooks(key_serializer, value_serializer, on_send, on_acknowledgement)
        self.send_queue = SendQueue(self._config, self._machine, self._clock, hooks)
        """For the blocking twin, too: it brings futures of its own."""
        self._drains: list[asyncio.Future[None]] = []

    async def start(self) -> None:
        """Start in the loop that this is called from. ``async with`` does it, and so does the first call that waits.

        await producer.start()
        """
        self._runtime.running()

    async def __aenter__(self) -> Producer:
        await self.start()
        if self.is_transactional:
            try:
                await self.init()
            except BaseException:
                await self.close(timeout_ms=0)
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        servers = ",".join(map(str, self._config.client.bootstrap_servers))
        transaction = self._machine.transaction
        state = "closed" if self._runtime.is_closed else "open" if transaction is None else transaction.state.value
        name = "" if transaction is None else f" transactional_id={transaction.transactional_id!r}"
        return f"<Producer {servers}{name} {state}>"

    @property
    def is_transactional(self) -> bool:
        return self._machine.transaction is not None

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

        The record is taken at once, and sent together with others. If the buffer is full it waits for room, up to
        ``max_block_ms``; a sender that awaits nothing should await ``drain`` now and then. Cancelling the future does
        not take the record back.
        """
        future: asyncio.Future[RecordMetadata] = (self._runtime.driver or self._runtime.running()).create_future()
        if self.send_queue.put(future, topic, value, key, partition, headers, timestamp):
            self.wake()
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

        They are written as if each had been sent alone, in the same order, and with the same promises; but they are
        encoded by the column (with pyarrow: ``semel[arrow]``), which takes a fraction of the time. One ``partition`` or
        ``timestamps`` stands for all records. They leave as the buffer has room; a caller that sends more meanwhile
        waits in line behind them. If a record fails the future fails, and says how many were written.
        """
        lists = Lists(values, keys, partition, headers, timestamps)
        return self._send_bulk(self.send_queue.bulk_of_lists(topic, lists, "send_many"))

    def send_arrow(self, topic: str, table: pa.Table | pa.RecordBatch) -> asyncio.Future[BulkMetadata]:
        """Send the rows of a table, which has a column ``value``, ``key``, or both, as ``send_many`` does.

            table = pa.table({"key": ["a", "b"], "value": [b"1", b"2"]})
            await producer.send_arrow("orders", table)

        More columns it may have: ``headers`` (a list of structs of key and value, or a map), ``partition``,
        ``timestamp`` (of Arrow's type, or milliseconds). Null means: not given. Serializers are not asked.
        """
        return self._send_bulk(self.send_queue.bulk_of_table(topic, table, "send_arrow"))

    def _send_bulk(self, bulk: Bulk) -> asyncio.Future[BulkMetadata]:
        future: asyncio.Future[BulkMetadata] = (self._runtime.driver or self._runtime.running()).create_future()
        with self._guard:
            self.send_queue.put_bulk(future, bulk)
        self.wake()
        return future

    def metrics(self) -> dict[str, float]:
        """What this producer has done since it was made, under Kafka's names: see docs/client.md.

        print(producer.metrics()["record-error-total"])
        """
        with self._guard:
            return self._machine.metrics()

    def wake(self) -> None:
        """Let the driver look at what was enqueued."""
        self._runtime.wake()

    @property
    def is_full(self) -> bool:
        """Whether records wait for room in the buffer."""
        return self._machine.is_full

    async def drain(self) -> None:
        """Wait while records wait for room in the buffer. Returns at once if there is room.

        for line in lines:
            producer.send("orders", line)
            await producer.drain()
        """
        while self._machine.is_full:
            future: asyncio.Future[None] = self._runtime.running().create_future()
            self._drains.append(future)
            await future

    async def flush(self) -> None:
        """Send what was sent so far without lingering, and wait until all of it is settled.

            producer.send("orders", b"{...}")
            await producer.flush()

        It raises nothing for single records: their futures do. But within a transaction, once something has failed,
        it raises the error that ``commit`` would raise.
        """
        driver = self._runtime.running()
        with self._guard:
            promise = self._machine.flush()
        await driver.wait(promise)
        transaction = self._machine.transaction
        if transaction is not None and transaction.error is not None:
            transaction.raise_error()

    async def partitions_for(self, topic: str) -> int:
        """How many partitions a topic has. Asking may create it, as sending does.

        count = await producer.partitions_for("orders")
        """
        with self._guard:
            promise = self._machine.know_topic(topic, self._clock.monotonic_ms())
        view = await self._within_max_block(promise, f"partitions_for({topic!r})")
        return len(view.partitions)

    # Transactions

    async def init(self) -> None:
        """Take over the transactional id: its previous producer is fenced, and what that left open is aborted.

        await producer.init()
        """
        transaction = self._transaction("init")
        with self._guard:
            promise = transaction.init()
        await self._within_max_block(promise, "init")

    def attach(self, producer_id: int, producer_epoch: int, transaction_version: int) -> None:
        """Instead of ``init``: write within the transaction of a producer that has this ``identity``.

            worker.attach(*owner.identity)

        Only its owner can commit or abort it. This producer never asks for an epoch of its own; whatever fails here,
        the owner has to know, and to abort. To be attached again, to the next transaction, it must have been flushed.
        """
        transaction = self._transaction("attach")
        with self._guard:
            transaction.attach(
                Identity(producer_id, producer_epoch), transaction_version, is_idle=self._machine.is_idle
            )

    @property
    def identity(self) -> ProducerIdentity:
        """Under which producer id and epoch this producer writes now, for others to ``attach`` to.

        worker.attach(*owner.identity)
        """
        transaction = self._transaction("identity")
        with self._guard:
            return transaction.hand_out_identity()

    async def bump_epoch(self) -> None:
        """Between transactions: have everybody refused who is still attached to this producer's identity.

            await owner.bump_epoch()

        With transactions V2 every commit and abort does that; with V1, do it before a transaction that others write in.
        """
        transaction = self._transaction("bump_epoch")
        with self._guard:
            promise = transaction.bump_epoch()
        await self._within_max_block(promise, "bump_epoch")

    def begin(self) -> None:
        """Begin a transaction. Nothing is asked of the broker before something is sent.

        producer.begin()
        producer.send("invoices", invoice)
        await producer.commit()
        """
        transaction = self._transaction("begin")
        with self._guard:
            transaction.begin()

    async def send_offsets(self, offsets: OffsetsLike, group: GroupLike) -> None:
        """Commit a consumer group's offsets as part of the transaction.

            await producer.send_offsets({("orders", 0): record.offset + 1}, group=consumer.group_metadata())

        ``offsets`` maps partitions to the offset of the next record to read. ``group`` is a group id, or a
        ``GroupMetadata``, with which a member that has lost its partitions is refused.
        """
        transaction = self._transaction("send_offsets")
        with self._guard:
            promise = transaction.send_offsets(as_group(group), as_offsets(offsets))
        await self._within_max_block(promise, "send_offsets")

    async def commit(self) -> None:
        """Send what is left, then commit. Returns when the outcome is final.

            await producer.commit()

        ``AbortableError``: something failed; nothing of the transaction will be seen once ``abort`` was called.
        ``TimedOut``: not decided within ``max_block_ms``, and still pursued; call ``commit`` again to wait on.
        """
        transaction = self._transaction("commit")
        with self._guard:
            promise = transaction.commit()
        await self._within_max_block(promise, "commit")

    async def abort(self) -> None:
        """Give up the transaction: nothing of it will be seen. What was not sent yet is dropped.

        await producer.abort()
        """
        transaction = self._transaction("abort")
        with self._guard:
            promise = transaction.abort()
        await self._within_max_block(promise, "abort")

    @contextlib.asynccontextmanager
    async def transaction(self, *, consumer: Consuming | None = None) -> AsyncIterator[Producer]:
        """``begin``, and at the end ``commit``; any exception, also one that ``commit`` raises, means ``abort``.

            async with producer.transaction(consumer=consumer):
                producer.send("invoices", invoice)

        With a ``consumer``, how far it has read is committed with the transaction, and after an abort it reads again
        what it had read. A commit whose outcome is unknown is never followed by an abort: it raises ``TimedOut``, and
        goes on.
        """
        consumed = self.begin_consuming(consumer)
        try:
            yield self
        except BaseException:
            await self.abandon(consumed)
            raise
        await self.commit_or_abandon(consumed)

    def begin_consuming(self, consumer: Consuming | None) -> TransactionOffsets | None:
        """``begin``, and remember where the consumer stood."""
        consumed = None if consumer is None else TransactionOffsets(consumer)
        self.begin()
        return consumed

    async def commit_or_abandon(self, consumed: TransactionOffsets | None = None) -> None:
        """``commit``; if something had failed, ``abort`` and raise what it was."""
        try:
            if consumed is not None:
                offsets = consumed.to_send()
                await self.send_offsets(offsets, consumed.group)
            await self.commit()
        except (Exception, asyncio.CancelledError):
            await self.abandon(consumed)
            raise
        if consumed is not None:
            consumed.committed()

    async def abandon(self, consumed: TransactionOffsets | None = None) -> None:
        """``abort``, if there is something to abort. Raises nothing, because its caller has an error to raise.

        A transaction that cannot be aborted now is aborted by its coordinator, when its time is over. One that is being
        committed goes on, and its consumer stays where it is.
        """
        transaction = self._transaction("abandon")
        if transaction.state in (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR):
            with contextlib.suppress(SemelError):
                await self.abort()
        if consumed is not None and transaction.state is not TransactionState.COMMITTING:
            consumed.aborted()

    # The end

    async def close(self, timeout_ms: float | None = None) -> None:
        """Wait until everything that was sent is settled, then disconnect. An open transaction is aborted.

            await producer.close(timeout_ms=5000)

        After ``timeout_ms`` the rest is given up; ``None`` waits as long as ``delivery_timeout_ms`` allows.
        """
        if self._runtime.is_closed:
            return
        self._runtime.is_closed = True
        with self._guard:
            self._machine.close()
        if self._runtime.driver is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                    await self._finish(self._runtime.driver)
        await self._runtime.shut()

    async def _finish(self, driver: Driver) -> None:
        transaction = self._machine.transaction
        if transaction is None or transaction.is_attached:
            with self._guard:
                promise = self._machine.flush()
            await driver.wait(promise)
            return
        with self._guard:
            ending = transaction.conclude()
        if ending is not None:
            with contextlib.suppress(SemelError):  # It was tried; the coordinator aborts what is left open.
                await self._within_max_block(ending, "close")

    # Inside

    def _turned(self) -> None:
        with self._guard:
            settled = self._machine.take_settled()
        for settlement in settled:
            settle(settlement)
        if self._drains and not self._machine.is_full:
            drains, self._drains = self._drains, []
            for future in drains:
                if not future.done():
                    future.set_result(None)

    def _transaction(self, call: str) -> Transaction:
        if self._runtime.is_closed:
            raise StateError(f"{call}: the producer is closed")
        transaction = self._machine.transaction
        if transaction is None:
            raise StateError(f"{call}: this producer has no transactional.id, so it has no transactions")
        return transaction

    async def _within_max_block(self, promise: Promise[T], call: str) -> T:
        driver = self._runtime.driver or self._runtime.running()
        try:
            return await driver.wait(promise, timeout_ms=self._config.max_block_ms)
        except TimeoutError:
            raise TimedOut(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{call} did not finish within max.block.ms ({self._config.max_block_ms} ms), while waiting for "
                f"{self._machine.waiting_for}. It is still being tried: call {call} again to wait on",
            ) from None
