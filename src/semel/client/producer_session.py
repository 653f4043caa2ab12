"""What ``semel.Producer`` and ``semel.blocking.Producer`` have in common.

Records are not sent through this class: each of the two makes a future of its own kind and puts it into ``send_queue``.
Calls that wait are coroutines: the asyncio class awaits them, the blocking class runs them in its thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, Final, TypeVar

from semel import __version__
from semel.client.arguments import as_topic
from semel.client.config.producer import ProducerConfig
from semel.client.dead_letters import Processing, Raised, attempts_at
from semel.client.deliveries import fail, give_up, settle
from semel.client.drivers.driver import Driver
from semel.client.drivers.runtime import ClientRuntime
from semel.client.hooks import Hooks
from semel.client.machine.connection.promise import Promise
from semel.client.machine.producer.batch import Delivery, Settlement
from semel.client.machine.producer.partitioner import Partitioner
from semel.client.machine.producer.producer import ProducerMachine
from semel.client.machine.producer.sequences import Identity
from semel.client.machine.transaction.states import TransactionState
from semel.client.machine.transaction.transaction import Transaction
from semel.client.offsets import GroupLike, OffsetsLike, as_group, as_offsets
from semel.client.security.tls import network_for
from semel.client.send_queue import SendQueue
from semel.client.tracing.tracer_provider import spans_of
from semel.client.transaction_offsets import AnyConsumer, TransactionOffsets, session_of
from semel.client.unseen_failures import UnseenFailures, mark_seen
from semel.client.values import ConsumerRecord, ProducerIdentity, ProducerRecord, ProducerSnapshot
from semel.clock import Clock, SystemClock
from semel.errors import AbortableError, ClientFailed, ErrorCode, SemelError, StateError, TimedOut
from semel.net.network import Network

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

T = TypeVar("T")

# A task that awaits a failed future looks at it some turns of the loop later: this many with ``wait_for``.
_TURNS_TO_LOOK: Final = 3
# How long a missing topic is waited for: one that brokers create when it is requested may take a moment.
_TOPIC_WAIT_MS: Final = 5_000
_OPEN_STATES: Final = (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR)


class ProducerSession:
    """A producer's machine with its runtime and its queue.

    ``guard`` is the lock of a blocking producer, whose threads use the machine beside its driver.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        hooks: Hooks,
        *,
        partitioner: Partitioner | None = None,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        guard: AbstractContextManager[Any] | None = None,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        self._config = config = ProducerConfig.load(settings)
        self.machine = ProducerMachine(
            config, random or SystemRandom(), partitioner=partitioner, software_version=__version__
        )
        self.runtime = ClientRuntime(
            "producer",
            self.machine,
            network=network or network_for(config.client.security),
            clock=clock or SystemClock(),
            guard=guard,
            turned=self._turned,
            failed=self._failed,
        )
        self._guard = self.runtime.guard
        self._spans = spans_of(tracer_provider, client_id=config.client.client_id)
        self.send_queue = SendQueue(config, self.machine, self.runtime.clock, hooks, self._spans)
        self._drains: list[asyncio.Future[None]] = []
        self._settling: deque[Settlement] = deque()
        """Outcomes that were taken from the machine and whose futures are being settled."""
        self._failures = UnseenFailures()
        self._dead_letter_topic: str | None = None
        """The dead-letter topic of the open transaction."""
        self._unheard: tuple[str, Promise[None]] | None = None
        """The last call that asked for an outcome and has not returned it: the same call returns it later."""
        self._undecided: TransactionOffsets | None = None
        """The part in a consumer of a transaction whose commit was asked for, and whose outcome is not known yet."""
        self._known_dead_letter_topics: set[str] = set()
        self._closing: asyncio.Future[None] | None = None
        """Done when ``close``, which has begun, has ended."""

    def __str__(self) -> str:
        servers = ",".join(map(str, self._config.client.bootstrap_servers))
        transaction = self.machine.transaction
        state = self._state
        name = "" if transaction is None else f" transactional_id={transaction.transactional_id!r}"
        return f"Producer {servers}{name} {state}"

    async def start(self) -> None:
        """Start the driver in the loop that this is called from."""
        self.runtime.running()

    @property
    def is_transactional(self) -> bool:
        return self.machine.transaction is not None

    @property
    def _state(self) -> str:
        if self.runtime.is_closed:
            return "closed"
        if self.machine.transaction is not None:
            return self.machine.transaction.state.value
        return "open" if self.machine.error is None else "failed"

    def snapshot(self) -> ProducerSnapshot:
        with self._guard:
            transaction = self.machine.transaction
            identity = self.machine.identity
            error = self.machine.error or (None if transaction is None else transaction.error)
            return ProducerSnapshot(
                self._state,
                None if transaction is None else transaction.transactional_id,
                None if identity is None else identity.producer_id,
                None if identity is None else identity.producer_epoch,
                None if error is None else str(error),
                self.machine.progress(),
            )

    def metrics(self) -> dict[str, float]:
        with self._guard:
            return self.machine.metrics()

    # Records

    async def drain(self) -> None:
        self.runtime.check_failure()
        while self.machine.is_full:
            future: asyncio.Future[None] = self.runtime.running().create_future()
            self._drains.append(future)
            await future

    async def flush(self) -> None:
        driver = self.runtime.running()
        with self._guard:
            promise = self.machine.flush()
        await driver.wait(promise)
        transaction = self.machine.transaction
        if transaction is not None and transaction.error is not None:
            transaction.raise_error()
        await self._raise_unseen_failures()

    async def partitions_for(self, topic: str) -> int:
        self.runtime.check_failure()
        with self._guard:
            promise = self.machine.know_topic(as_topic(topic), self.runtime.clock.monotonic_ms())
        view = await self._within_max_block(promise, f"partitions_for({topic!r})")
        return len(view.partitions)

    # Transactions

    async def init(self) -> None:
        await self._heard("init", self._asked("init", self._transaction("init").init))

    def attach(self, producer_id: int, producer_epoch: int, transaction_version: int) -> None:
        transaction = self._transaction("attach")
        with self._guard:
            identity = Identity(producer_id, producer_epoch)
            transaction.attach(identity, transaction_version, is_idle=self.machine.is_idle)

    @property
    def identity(self) -> ProducerIdentity:
        transaction = self._transaction("identity")
        with self._guard:
            return transaction.hand_out_identity()

    async def bump_epoch(self) -> None:
        transaction = self._transaction("bump_epoch")
        with self._guard:
            promise = transaction.bump_epoch()
        await self._within_max_block(promise, "bump_epoch")

    def begin(self) -> None:
        transaction = self._transaction("begin")
        with self._guard:
            transaction.begin()
        self._unheard = self._dead_letter_topic = None
        self._decided(committed=True)  # After an abort there is nothing left to decide.

    async def send_offsets(self, offsets: OffsetsLike, group: GroupLike) -> None:
        transaction = self._transaction("send_offsets")
        with self._guard:
            promise = transaction.send_offsets(as_group(group), as_offsets(offsets))
        await self._within_max_block(promise, "send_offsets")

    async def commit(self) -> None:
        transaction = self._transaction("commit")
        try:
            await self._heard("commit", self._asked("commit", transaction.commit))
        except SemelError:
            if transaction.state is not TransactionState.COMMITTING:
                self._decided(committed=False)
            raise
        self._decided(committed=True)

    async def abort(self) -> None:
        promise = self._asked("abort", self._transaction("abort").abort)
        try:
            await self._heard("abort", promise)
        finally:
            self._decided(committed=False)

    def knows_dead_letter_topic(self, topic: str) -> bool:
        """Whether ``find_dead_letter_topic`` has found this topic before."""
        return as_topic(topic) in self._known_dead_letter_topics

    async def find_dead_letter_topic(self, topic: str) -> None:
        """Raise if there is no such topic; otherwise that would be noticed when a record fails, long after.

        As with any topic that is written to, a broker with auto.create.topics.enable creates it.
        """
        self._transaction("transaction")
        with self._guard:
            promise = self.machine.know_topic(topic, self.runtime.clock.monotonic_ms())
        driver = self.runtime.driver or self.runtime.running()
        with contextlib.suppress(TimeoutError):
            await driver.wait(promise, timeout_ms=min(_TOPIC_WAIT_MS, self._config.max_block_ms))
        with self._guard:
            is_missing = not promise.settled and self.machine.is_missing(topic)
        if is_missing:
            raise AbortableError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"dead_letter={topic!r}: there is no such topic to keep failed records in. Create it first",
            )
        await self._within_max_block(promise, f"transaction(dead_letter={topic!r})")
        self._known_dead_letter_topics.add(topic)

    def begin_consuming(
        self, consumer: AnyConsumer | None, dead_letter: str | None = None
    ) -> TransactionOffsets | None:
        """Begin a transaction. Returns its part in the consumer, if there is one."""
        topic = None if dead_letter is None else as_topic(dead_letter)
        consumed = None if consumer is None else TransactionOffsets(session_of(consumer))
        if consumed is not None and topic is not None:
            consumed.require_bytes()
        self.begin()
        self._dead_letter_topic = topic
        return consumed

    def processing(
        self,
        record: ConsumerRecord,
        send: Callable[[ProducerRecord], object],
        on: Raised,
        *,
        attempt: int = 1,
        attempts: int = 1,
    ) -> Processing:
        """Return the processing of one record. ``send`` is called with prepared records."""
        topic = self._dead_letter_topic
        is_open = self._transaction("processing").state in _OPEN_STATES
        if topic is None or not is_open:
            raise StateError(
                "processing: there is no transaction with a dead-letter topic; begin one with "
                "transaction(consumer=..., dead_letter=TOPIC)"
            )
        return Processing(
            record,
            dead_letter_topic=topic,
            send_queue=self.send_queue,
            send=send,
            on=on,
            spans=self._spans,
            attempt=attempt,
            attempts=attempts,
        )

    def attempts(
        self, record: ConsumerRecord, count: int, send: Callable[[ProducerRecord], object], on: Raised
    ) -> Iterator[Processing]:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"attempts: count is {count!r}; it is a whole number, at least 1")
        return attempts_at(lambda number: self.processing(record, send, on, attempt=number, attempts=count), count)

    async def commit_or_abandon(self, consumed: TransactionOffsets | None = None) -> None:
        """Commit, with the consumer's offsets. If something has failed, abort and raise the error."""
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
        """Abort, if there is something to abort. Raises nothing, because its caller has an error to raise.

        A transaction that cannot be aborted now is aborted by its coordinator, when it times out. One that is being
        committed goes on, and its consumer keeps its position until the outcome is known.
        """
        transaction = self.machine.transaction
        assert transaction is not None
        self._undecided = consumed
        if transaction.state is TransactionState.COMMITTING and not self.runtime.is_closed:
            return
        try:
            if transaction.state in _OPEN_STATES and not self.runtime.is_closed:
                with contextlib.suppress(SemelError):
                    await self.abort()
        finally:
            self._decided(committed=self._has_committed)

    # The end

    async def close(self, timeout_ms: float | None, *, raises: bool = True) -> None:
        """Close, then raise for records whose failure was not looked at.

        ``raises=False``: the caller has an error already. A timeout of 0 means that what is left is not wanted any
        more, so it raises nothing either. If another task or thread closes already, this waits until that is done.
        """
        if self._closing is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                    await asyncio.shield(self._closing)
            return
        self._closing = asyncio.get_running_loop().create_future()
        try:
            if self.runtime.failure is not None:
                await self.runtime.shut()
            elif not self.runtime.is_closed:
                await self._finish_and_shut(timeout_ms)
            if raises and timeout_ms != 0:
                await self._raise_unseen_failures()
        finally:
            self._closing.set_result(None)

    async def _finish_and_shut(self, timeout_ms: float | None) -> None:
        self.runtime.is_closed = True
        with self._guard:
            self.machine.close()
        try:
            if self.runtime.driver is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                        await self._finish(self.runtime.driver)
        finally:
            # If the outcome of a commit is still not known, the consumer goes back to what its group has.
            self._decided(committed=self._has_committed)
            await self.runtime.shut()

    async def _finish(self, driver: Driver) -> None:
        transaction = self.machine.transaction
        if transaction is None or transaction.is_attached:
            with self._guard:
                promise = self.machine.flush()
            await driver.wait(promise)
            return
        with self._guard:
            ending = transaction.conclude()
        if ending is not None:
            with contextlib.suppress(SemelError):  # It was tried; the coordinator aborts what is left open.
                await self._within_max_block(ending, "close")

    # Inside

    def _turned(self) -> None:
        settling = self._settling
        with self._guard:
            settling.extend(self.machine.take_settled())
        while settling:
            settlement = settling[0]
            settle(settlement)
            if isinstance(settlement.outcome, Exception):
                self._have_failed(settlement.deliveries, settlement.outcome)
            settling.popleft()
        if self._drains and not self.machine.is_full:
            drains, self._drains = self._drains, []
            for future in drains:
                if not future.done():
                    future.set_result(None)

    def _failed(self, failure: ClientFailed) -> None:
        """Fail the futures of all unsettled records, because the driver has failed. The machine only names them.

        Those that are being settled now are among them, because how far that went is not known.
        """
        with self._guard:
            unsettled = self.machine.stop_after_failure(self.runtime.closed_error("send"))
        unsettled += [delivery for settlement in self._settling for delivery in settlement.deliveries]
        self._settling.clear()
        give_up(unsettled, failure)
        self._have_failed(unsettled, failure)
        for future in self._drains:
            fail(future, failure)

    def _have_failed(self, deliveries: list[Delivery], error: Exception) -> None:
        if self.is_transactional:
            mark_seen(deliveries)  # ``commit`` cannot succeed, and raises the error.
        else:
            self._failures.add(deliveries, error)

    async def _raise_unseen_failures(self) -> None:
        if self._failures:
            for _ in range(_TURNS_TO_LOOK):
                await asyncio.sleep(0)
            error = self._failures.take()
            if error is not None:
                raise error

    def _transaction(self, call: str) -> Transaction:
        if self.runtime.is_closed:
            raise self.runtime.closed_error(call)
        transaction = self.machine.transaction
        if transaction is None:
            raise StateError(f"{call}: this producer has no transactional.id, so it has no transactions")
        return transaction

    def _asked(self, call: str, ask: Callable[[], Promise[None]]) -> Promise[None]:
        """Ask for an outcome. A call that is made again after a wait that was too short gets the first one's outcome.

        It may have become known in between, and then the state no longer allows the call.
        """
        with self._guard:
            unheard = self._unheard
            promise = unheard[1] if unheard is not None and unheard[0] == call and unheard[1].settled else ask()
            self._unheard = call, promise
        return promise

    async def _heard(self, call: str, promise: Promise[None]) -> None:
        try:
            await self._within_max_block(promise, call)
        except TimedOut:
            raise
        except SemelError:
            self._unheard = None
            raise
        self._unheard = None

    @property
    def _has_committed(self) -> bool:
        """Whether the commit that was asked for last has succeeded, and its caller does not know."""
        match self._unheard:
            case "commit", promise:
                return promise.settled and promise.error is None
            case _:
                return False

    def _decided(self, *, committed: bool) -> None:
        """Apply the outcome of a transaction to its consumer, if that waits for it."""
        consumed, self._undecided = self._undecided, None
        if consumed is None:
            return
        with contextlib.suppress(StateError):  # A consumer that has failed has no positions any more.
            if committed:
                consumed.committed()
            else:
                consumed.aborted()

    async def _within_max_block(self, promise: Promise[T], call: str) -> T:
        driver = self.runtime.driver or self.runtime.running()
        try:
            return await driver.wait(promise, timeout_ms=self._config.max_block_ms)
        except TimeoutError:
            raise TimedOut(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{call} did not finish within max.block.ms ({self._config.max_block_ms} ms), while waiting for "
                f"{self.machine.waiting_for}. It is still being tried: call {call} again to wait on",
            ) from None
