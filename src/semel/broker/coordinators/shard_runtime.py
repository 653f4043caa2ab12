"""The runtime of one coordinator shard: it writes down what the shard decides, and tells nobody before that is safe.

    run(decide, respond)
      |  decide(shard)                          reads, changes nothing
      |  append the records, replay them,
      |  apply the changes                      in the same breath: the next decision sees them
      v
    the high watermark has passed them          effects are carried out, then the response leaves

The law: what was never committed was never told to anyone. A decision without records waits for the records that were
there when it was taken, because it may rest on them. If the append fails, nothing is replayed or changed, and the
answer is COORDINATOR_NOT_AVAILABLE. If the partition is lost, all who wait are answered NOT_COORDINATOR and the shard
is thrown away: the next one is the replay of the log.

A request may be ``DEFERRED``: the shard keeps whoever waits and hands him back with a later decision. What the shard
decides because of the time, it decides here as well: one timer stands at its next deadline.

CONCURRENT_TRANSACTIONS means that the id is between its decision and the last marker, which takes one sync. Nobody
should back off for that: whoever would be told so is asked again when the id has moved on, and told only if it takes
long.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice
from math import ceil
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from semel.broker.coordinators.deferred_sync import DeferredSync
from semel.broker.coordinators.shard_memory import NothingRemembered, ShardMemory
from semel.broker.partitions.partitions import Partition
from semel.broker.waiting.deadlines import Deadlines
from semel.clock import Clock
from semel.coordinator.decision import Decision
from semel.coordinator.group.effects import Deferred
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.log.partition_log import Appended
from semel.types import ProducerIdentity
from semel.wire.control import EndTransactionMarker
from semel.wire.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Record, build_batch, build_single

logger = logging.getLogger("semel.broker")

# How long a request is kept waiting for an id that moves on. Far more than a sync, far less than a client's patience.
MOVING_WAIT_MS: Final = 1000
# What time makes a shard decide in one turn of the event loop.
DECISIONS_PER_TICK: Final = 100

_PRODUCER_ERRORS: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE})

Shard = TypeVar("Shard")
ShardIn = TypeVar("ShardIn", contravariant=True)
ShardRecord = TypeVar("ShardRecord")
Effect = TypeVar("Effect")
Response = TypeVar("Response")

Decide: TypeAlias = Callable[[Shard], Decision[Response | Deferred, ShardRecord, Effect]]
Respond: TypeAlias = Callable[[Response | ErrorCode], None]
"""Takes the shard's response, or the code for why there is none."""


class ShardFormat(Protocol[ShardIn, ShardRecord]):
    """How the records of one kind of shard become bytes of its partition, and how they change the shard.

    ``replay`` is what happens live, right after the append, and what happens at loading, so both give the same shard.
    """

    def encode(self, record: ShardRecord) -> tuple[bytes, bytes | None]: ...

    def decode(self, key: bytes | None, value: bytes | None) -> ShardRecord | None:
        """None for a record that this version does not know."""

    def replay(self, shard: ShardIn, record: ShardRecord, offset: int, producer: ProducerIdentity | None) -> None:
        """``producer``: whose transaction the record is a part of."""

    def replay_marker(self, shard: ShardIn, producer: ProducerIdentity, *, committed: bool) -> None: ...


class DelayedRequest:
    """A request that was put to a shard and is not answered yet."""

    __slots__ = ("abandoned_by_client", "decide", "due_ms", "key", "producer", "respond", "runtime", "ticket")

    def __init__(
        self,
        runtime: ShardRuntime[Any, Any, Any],
        decide: Decide[Any, Any, Any, Any],
        respond: Respond[Any],
        key: str | None,
        producer: ProducerIdentity | None,
    ) -> None:
        self.runtime = runtime
        self.decide = decide
        self.respond = respond
        self.key = key
        self.producer = producer
        self.due_ms: float | None = None
        self.ticket = 0
        self.abandoned_by_client = False

    def abandoned(self) -> None:
        """The client is gone. What was decided stands; what would have been asked again is not."""
        self.abandoned_by_client = True

    def expired(self) -> None:
        self.runtime.request_expired(self)


class _DelayedDecision:
    """A decision whose time to be told has not come."""

    __slots__ = ("decision", "respond")

    def __init__(self, decision: Decision[Any, Any, Any], respond: Respond[Any] | None) -> None:
        self.decision = decision
        self.respond = respond


class ShardRuntime(Generic[Shard, ShardRecord, Effect]):
    """One shard that this broker leads. It is made for one term of leadership and never used again after it."""

    def __init__(
        self,
        partition: Partition,
        shard: Shard,
        shard_format: ShardFormat[Shard, ShardRecord],
        *,
        clock: Clock,
        deadlines: Deadlines,
        carry_out: Callable[[ShardRuntime[Shard, ShardRecord, Effect], Effect], None],
        memory: ShardMemory[Shard] | None = None,
    ) -> None:
        self.partition = partition
        self.shard = shard
        self.format = shard_format
        self.failure: str | None = None  # why the shard could not be loaded
        self.refusal: ErrorCode | None = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        """Why nothing is decided here; None while this is the shard to ask."""
        self._clock = clock
        self._deadlines = deadlines
        self._carry_out = carry_out
        self._memory: ShardMemory[Shard] = NothingRemembered() if memory is None else memory
        self._timer = _Timer(self)
        self._unawaited_sync = DeferredSync(partition.log, deadlines)
        self._delayed: dict[_DelayedDecision, None] = {}
        self._moving: dict[str, dict[DelayedRequest, None]] = {}

    def run(
        self,
        decide: Decide[Shard, Response, ShardRecord, Effect],
        respond: Respond[Response],
        *,
        key: str | None = None,
        producer: ProducerIdentity | None = None,
    ) -> DelayedRequest | None:
        """Decide, and respond once that is safe; that may be before this returns, and then None is returned.

        ``key`` is the id that the decision is about, for those who wait for it to move on. ``producer`` makes the
        records a part of its transaction.
        """
        if self.refusal is not None:
            respond(self.refusal)
            return None
        waiting = DelayedRequest(self, decide, respond, key, producer)
        return waiting if self._ask(waiting) else None

    def apply(self, decision: Decision[Any, ShardRecord, Effect], *, key: str | None = None) -> bool:
        """Carry through what the shard decided on its own account. Says whether its records could be appended."""
        try:
            last_offset = self._append(decision.records, None, awaited=bool(decision.effects))
        except (KafkaError, StorageError):
            return False
        self._remember(decision.changes)
        self._delay(decision, None, last_offset)
        self._moved_on(key, decision)
        return True

    def append_marker(
        self, producer: ProducerIdentity, marker: EndTransactionMarker, *, transaction_version: int
    ) -> Appended:
        """End a transaction in this shard's own partition: what is pending in it is applied or dropped here and now.

        Raises KafkaError.
        """
        if self.refusal is not None:
            raise KafkaError(self.refusal, f"{self.partition.topic_partition} has no active coordinator")
        appended = self.partition.append_marker(
            *producer, marker, now_ms=self._clock.now_ms(), transaction_version=transaction_version
        )
        self.format.replay_marker(self.shard, producer, committed=marker.committed)
        return appended

    def loaded(self) -> None:
        """The shard is the replay of the log. It may be asked."""
        if self.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self.refusal = None

    def retire(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Decide nothing more, and tell those whose answer depends on others. What was decided is told as ever."""
        self.refusal = code
        self._set_timer(None)
        self._memory.refuse(self.shard, code)

    def unload(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Decide nothing more, and tell all who wait that they asked the wrong one."""
        self.retire(code)
        delayed, self._delayed = self._delayed, {}
        moving, self._moving = self._moving, {}
        for entry in delayed:
            for effect in entry.decision.effects:
                self._memory.refuse_effect(effect, code)
            if entry.respond is not None:
                entry.respond(code)
        for waiting in (waiting for waiters in moving.values() for waiting in waiters):
            self._deadlines.discard(waiting, waiting.ticket)
            waiting.respond(code)

    def drop(self) -> None:
        """Decide nothing more, and tell nobody: the process ends."""
        self.refusal = ErrorCode.NOT_COORDINATOR
        self._delayed.clear()
        self._moving.clear()
        self._set_timer(None)

    # What the partition says (``AwaitsCommit``).

    def committed(self, token: object) -> None:
        assert isinstance(token, _DelayedDecision)
        if token in self._delayed:
            del self._delayed[token]
            self._conclude(token)

    def failed(self, token: object, code: ErrorCode) -> None:
        if token in self._delayed:
            # Whether these records survive is not known, and the shard has replayed them. It must not be asked again.
            logger.error("%s is lost to its coordinator: %s", self.partition.topic_partition, code.name)
            self.unload()
            self.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE  # Nobody else has it either.

    # What a waiting request says.

    def request_expired(self, waiting: DelayedRequest) -> None:
        assert waiting.key is not None
        waiters = self._moving.get(waiting.key, {})
        if waiting in waiters:
            del waiters[waiting]
            if not waiters:
                del self._moving[waiting.key]
            waiting.respond(ErrorCode.CONCURRENT_TRANSACTIONS)

    # What time says.

    def tick(self) -> None:
        """A deadline of the shard may have passed."""
        self._timer.due_ms = None
        try:
            # The rest is due a moment later: ten thousand member ids that were never used expire together.
            due = islice(self._memory.tick(self.shard), DECISIONS_PER_TICK) if self.refusal is None else ()
            for decision in due:
                self.apply(decision)
                if self.refusal is not None:
                    return
        finally:
            # Also after a decision that met a bug: the other deadlines stand.
            if self.refusal is None:
                self._set_timer(self._memory.next_due_ms(self.shard))

    def _set_timer(self, due_ms: float | None) -> None:
        timer = self._timer
        if timer.due_ms is not None:
            self._deadlines.discard(timer, timer.ticket)
        timer.due_ms = due_ms
        if due_ms is not None:
            timer.ticket = self._deadlines.add(timer, ceil(due_ms - self._clock.monotonic_ms()))

    def _remember(self, changes: tuple[Any, ...]) -> None:
        """Apply them. The timer moves when a deadline is now nearer; one that is farther off is found out by it."""
        if not changes:
            return
        self._memory.apply(self.shard, changes)
        next_due_ms = self._memory.next_due_ms(self.shard)
        if next_due_ms is not None and (self._timer.due_ms is None or next_due_ms < self._timer.due_ms):
            self._set_timer(next_due_ms)

    def _ask(self, waiting: DelayedRequest) -> bool:
        """Whether the answer is still to come."""
        decision = waiting.decide(self.shard)
        try:
            last_offset = self._append(decision.records, waiting.producer)
        except (KafkaError, StorageError) as error:
            waiting.respond(_code_of(error))
            return False
        self._remember(decision.changes)
        if isinstance(decision.response, Deferred):
            self._delay(decision, None, last_offset)
            return True
        is_moving = waiting.key is not None and decision.response.error is ErrorCode.CONCURRENT_TRANSACTIONS
        is_delayed = self._delay(decision, None if is_moving else waiting.respond, last_offset)
        self._moved_on(waiting.key, decision)
        return self._wait_for_move(waiting) if is_moving else is_delayed

    def _append(
        self, records: tuple[ShardRecord, ...], producer: ProducerIdentity | None, *, awaited: bool = True
    ) -> int:
        """Append and replay, with nothing in between. Returns the offset to be committed. Raises like the log."""
        if not records:
            return self.partition.log.log_end_offset - 1
        now_ms = self._clock.now_ms()
        batch = self._batch(records, producer, now_ms)
        try:
            appended = self.partition.append_placed(batch, now_ms=now_ms, awaited=awaited)
        except (KafkaError, StorageError) as error:
            logger.error("%s: a decision could not be written: %s", self.partition.topic_partition, error)
            raise
        for offset, record in enumerate(records, appended.base_offset):
            self.format.replay(self.shard, record, offset, producer)
        if not awaited:
            self._unawaited_sync.later()
        return appended.last_offset

    def _batch(self, records: tuple[ShardRecord, ...], producer: ProducerIdentity | None, now_ms: int) -> bytes:
        """The records as a batch for the log end."""
        log, encode = self.partition.log, self.format.encode
        producer_id, producer_epoch = producer or (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        if len(records) == 1:
            key, value = encode(records[0])
            return build_single(
                key,
                value,
                timestamp=now_ms,
                base_offset=log.log_end_offset,
                partition_leader_epoch=log.leader_epoch,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                is_transactional=producer is not None,
            )
        return build_batch(
            (Record(offset, now_ms, *encode(record)) for offset, record in enumerate(records, log.log_end_offset)),
            base_offset=log.log_end_offset,
            partition_leader_epoch=log.leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=producer is not None,
        )

    def _delay(
        self, decision: Decision[Response, ShardRecord, Effect], respond: Respond[Response] | None, last_offset: int
    ) -> bool:
        """Hold effects and response until ``last_offset`` is committed. Says whether they are still held."""
        if respond is None and not decision.effects:
            return False
        delayed = _DelayedDecision(decision, respond)
        if self.partition.log.high_watermark > last_offset:
            self._conclude(delayed)
            return False
        self._delayed[delayed] = None
        self.partition.when_committed(last_offset, self, delayed)
        return True

    def _conclude(self, delayed: _DelayedDecision) -> None:
        # Effects first: the client's next request finds them done.
        for effect in delayed.decision.effects:
            self._carry_out(self, effect)
        if delayed.respond is not None:
            delayed.respond(delayed.decision.response)

    def _wait_for_move(self, waiting: DelayedRequest) -> bool:
        assert waiting.key is not None
        now_ms = self._clock.monotonic_ms()
        if waiting.due_ms is None:
            waiting.due_ms = now_ms + MOVING_WAIT_MS
        remaining_ms = waiting.due_ms - now_ms
        if remaining_ms <= 0:
            waiting.respond(ErrorCode.CONCURRENT_TRANSACTIONS)
            return False
        self._moving.setdefault(waiting.key, {})[waiting] = None
        waiting.ticket = self._deadlines.add(waiting, int(remaining_ms))
        return True

    def _moved_on(self, key: str | None, decision: Decision[Any, ShardRecord, Effect]) -> None:
        """Ask again for those who wait for the id, if the decision has moved it."""
        if key is None or key not in self._moving or not decision.records:
            return
        # All at once: whoever is asked may move the id himself, and then only those are asked who wait again.
        for waiting in self._moving.pop(key):
            self._deadlines.discard(waiting, waiting.ticket)
            if waiting.abandoned_by_client:
                waiting.respond(ErrorCode.NETWORK_EXCEPTION)
            else:
                self._ask(waiting)


class _Timer:
    """Stands at the shard's next deadline."""

    __slots__ = ("due_ms", "runtime", "ticket")

    def __init__(self, runtime: ShardRuntime[Any, Any, Any]) -> None:
        self.runtime = runtime
        self.due_ms: float | None = None
        self.ticket = 0

    def expired(self) -> None:
        self.runtime.tick()


def _code_of(error: KafkaError | StorageError) -> ErrorCode:
    """What the log has against the producer is the producer's affair; everything else is ours."""
    if isinstance(error, KafkaError) and error.code in _PRODUCER_ERRORS:
        return error.code
    return ErrorCode.COORDINATOR_NOT_AVAILABLE
