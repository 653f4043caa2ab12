"""The runtime of one coordinator shard: it writes down what the shard decides, and answers no request before that is
safe. Kafka's CoordinatorRuntime.

    run(decide, waiter)
      |  decide(shard)                          reads, changes nothing
      |  append the records, replay them,
      |  apply the changes                      with nothing in between: the next decision sees them
      v
    the high watermark has passed them          effects are carried out, then the responses leave

The law: what was never committed was never told to a client. A decision without records waits for the records that were
there when it was taken, because it may rest on them, and with several replicas until the others have confirmed that
this broker still leads: one that was paused would tell what is old. A heartbeat does not wait for that. If the append
fails, nothing is replayed or changed, and the answer is COORDINATOR_NOT_AVAILABLE. If the partition is lost, all
requests that wait are answered NOT_COORDINATOR and the shard is thrown away: the next one is the replay of the log.

A request may be ``DEFERRED``: the shard keeps its waiter and answers it with a later decision. Or its decision waits
for an id (``Decision.wait_for``): then it is decided again when a record of that id was replayed. What the shard
decides because of the time, it decides here as well: one timer stands at its next deadline.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice
from math import ceil
from typing import Any, Final, Generic, TypeAlias, TypeVar

from semel.broker.coordinators.deferred_sync import DeferredSync
from semel.broker.partitions.partitions import Partition
from semel.broker.waiting.deadlines import Deadlines
from semel.clock import Clock
from semel.coordinator.decision import Decision, Deferred, Waiter
from semel.coordinator.moment import Moment
from semel.coordinator.shard import Shard
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.log.outcomes import Appended
from semel.log.producers.producer_state import REFUSALS
from semel.types import ProducerIdentity
from semel.wire.control import EndTransactionMarker
from semel.wire.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Record, build_batch, build_single

logger = logging.getLogger("semel.broker")

# How long a request waits for an id to move on. Far more than a sync, far less than a client's request timeout.
MOVING_WAIT_MS: Final = 1000
# How many deadlines of a shard are dealt with in one turn of the event loop.
TIMEOUTS_PER_TURN: Final = 100

AnyShard = TypeVar("AnyShard", bound=Shard[Any])
Response = TypeVar("Response")

Decide: TypeAlias = Callable[[AnyShard], Decision[Response | Deferred, Any, Any]]


class DelayedRequest:
    """A request that was put to a shard and is not answered yet."""

    __slots__ = (
        "abandoned_by_client",
        "decide",
        "due_ms",
        "is_confirmed",
        "producer",
        "response",
        "runtime",
        "ticket",
        "wait_for",
        "waiter",
    )

    def __init__(
        self,
        runtime: ShardRuntime[Any],
        decide: Decide[Any, Any],
        waiter: Waiter[Any],
        producer: ProducerIdentity | None,
        is_confirmed: bool,
    ) -> None:
        self.runtime = runtime
        self.is_confirmed = is_confirmed
        self.decide = decide
        self.waiter = waiter
        self.producer = producer
        self.wait_for = ""
        self.response: Any = None
        """What is answered if the id that it waits for does not move on in time."""
        self.due_ms: float | None = None
        self.ticket = 0
        self.abandoned_by_client = False

    def abandoned(self) -> None:
        """The client is gone. What was decided stands; what would have been asked again is not."""
        self.abandoned_by_client = True

    def expired(self) -> None:
        self.runtime.request_expired(self)


class _DelayedDecision:
    """A decision whose time to be told has not come. ``refusal`` is told in place of its response."""

    __slots__ = ("decision", "refusal", "waiter")

    def __init__(
        self, decision: Decision[Any, Any, Any], waiter: Waiter[Any] | None, refusal: ErrorCode | None = None
    ) -> None:
        self.decision = decision
        self.waiter = waiter
        self.refusal = refusal


class ShardRuntime(Generic[AnyShard]):
    """One shard that this broker leads. It is made for one term of leadership and never used again after it.

    ``carry_out`` does what a decision asks for, once its records are committed.
    """

    def __init__(
        self,
        partition: Partition,
        shard: AnyShard,
        *,
        clock: Clock,
        deadlines: Deadlines,
        carry_out: Callable[[ShardRuntime[AnyShard], Any], None],
    ) -> None:
        self.partition = partition
        self.shard = shard
        self.failure: str | None = None  # why the shard could not be loaded
        self.refusal: ErrorCode | None = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        """Why nothing is decided here; None while this is the shard to ask."""
        self._clock = clock
        self._deadlines = deadlines
        self._carry_out = carry_out
        self._timer = _Timer(self)
        self._unawaited_sync = DeferredSync(partition.log, deadlines)
        self._delayed: dict[_DelayedDecision, None] = {}
        self._moving: dict[str, dict[DelayedRequest, None]] = {}

    @property
    def epoch(self) -> int:
        """Of the term that it was made for."""
        return self.partition.leader_epoch

    def run(
        self,
        decide: Decide[AnyShard, Response],
        waiter: Waiter[Response],
        *,
        producer: ProducerIdentity | None = None,
        is_confirmed: bool = True,
    ) -> DelayedRequest | None:
        """Decide, and respond once that is safe; that may be before this returns, and then None is returned.

        ``producer`` makes the records a part of its transaction. ``is_confirmed``: what is decided without records is
        told when the other replicas have confirmed that this broker leads.
        """
        if self.refusal is not None:
            waiter.refuse(self.refusal)
            return None
        waiting = DelayedRequest(self, decide, waiter, producer, is_confirmed)
        return waiting if self._ask(waiting) else None

    def apply(self, decision: Decision[Any, Any, Any]) -> bool:
        """Carry out what the shard decided without a request. Returns whether its records could be appended."""
        try:
            last_offset = self._append(decision.records, None, awaited=bool(decision.effects or decision.answers))
        except (KafkaError, StorageError):
            return False
        self._remember(decision.changes)
        self._delay(decision, None, last_offset)
        self._moved_on(decision.records)
        return True

    def append_marker(
        self, producer: ProducerIdentity, marker: EndTransactionMarker, *, transaction_version: int
    ) -> Appended:
        """End a transaction in this shard's own partition: what is pending in it counts, or is dropped, from now on.

        Raises KafkaError.
        """
        if self.refusal is not None:
            raise KafkaError(self.refusal, f"{self.partition.topic_partition} has no active coordinator")
        appended = self.partition.append_marker(
            producer, marker, now_ms=self._clock.now_ms(), transaction_version=transaction_version
        )
        self.shard.replay_marker(producer, committed=marker.committed)
        return appended

    def loaded(self) -> None:
        """The shard is the replay of the log. It may be asked."""
        if self.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self.refusal = None
            self.apply(self.shard.loaded(Moment.now(self._clock)))

    def retire(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Decide nothing more, and refuse the requests that the shard has deferred. What was decided is still answered
        when it is committed."""
        self.refusal = code
        self._set_timer(None)
        for waiter in self.shard.unload():
            waiter.refuse(code)

    def unload(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Decide nothing more, and refuse all requests that wait."""
        self.retire(code)
        delayed, self._delayed = self._delayed, {}
        moving, self._moving = self._moving, {}
        for entry in delayed:
            for answer in entry.decision.answers:
                answer.waiter.refuse(code)
            if entry.waiter is not None:
                entry.waiter.refuse(code)
        for waiting in (waiting for waiters in moving.values() for waiting in waiters):
            self._deadlines.discard(waiting, waiting.ticket)
            waiting.waiter.refuse(code)

    def drop(self) -> None:
        """Decide nothing more, and answer no request: the process ends."""
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
            self.unload()
            if code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                logger.error("%s is lost to its coordinator: %s", self.partition.topic_partition, code.name)
                self.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE  # No other broker has it either.

    # What a waiting request says (``DelayedRequest``).

    def request_expired(self, waiting: DelayedRequest) -> None:
        waiters = self._moving.get(waiting.wait_for, {})
        if waiting in waiters:
            del waiters[waiting]
            if not waiters:
                del self._moving[waiting.wait_for]
            waiting.waiter.respond(waiting.response)

    # What time says.

    def deadline_passed(self) -> None:
        """A deadline of the shard may have passed."""
        self._timer.due_ms = None
        if self.refusal is not None:
            return
        try:
            # The rest is due a moment later: ten thousand member ids that were never used expire together.
            for decision in islice(self.shard.time_out(Moment.now(self._clock)), TIMEOUTS_PER_TURN):
                self.apply(decision)
                if self.refusal is not None:
                    return
        finally:
            # Also after a decision that met a bug: the other deadlines stand.
            if self.refusal is None:
                self._set_timer(self.shard.next_deadline_ms())

    def _set_timer(self, due_ms: float | None) -> None:
        timer = self._timer
        if timer.due_ms is not None:
            self._deadlines.discard(timer, timer.ticket)
        timer.due_ms = due_ms
        if due_ms is not None:
            timer.ticket = self._deadlines.add(timer, ceil(due_ms - self._clock.monotonic_ms()))

    def _remember(self, changes: tuple[Any, ...]) -> None:
        """Apply them. The timer moves only if a deadline is nearer now; one farther off it finds when it fires."""
        if not changes:
            return
        for change in changes:
            self.shard.apply(change)
        next_due_ms = self.shard.next_deadline_ms()
        if next_due_ms is not None and (self._timer.due_ms is None or next_due_ms < self._timer.due_ms):
            self._set_timer(next_due_ms)

    def _ask(self, waiting: DelayedRequest) -> bool:
        """Decide. Returns whether the answer is still to come."""
        decision = waiting.decide(self.shard)
        try:
            if decision.records:
                self.partition.check_enough_replicas()
            last_offset = self._append(decision.records, waiting.producer)
        except (KafkaError, StorageError) as error:
            return self._refuse(waiting.waiter, _code_of(error))
        self._remember(decision.changes)
        if isinstance(decision.response, Deferred):
            self._delay(decision, None, last_offset)
            return True
        waits = decision.wait_for is not None
        is_delayed = self._delay(
            decision, None if waits else waiting.waiter, last_offset, is_confirmed=waiting.is_confirmed
        )
        self._moved_on(decision.records)
        return self._wait(waiting, decision) if waits else is_delayed

    def _refuse(self, waiter: Waiter[Any], code: ErrorCode) -> bool:
        """Refuse a request whose records could not be appended. Returns whether the refusal is still to come."""
        if code in REFUSALS and self.partition.replicas is not None:
            return self._confirm(_DelayedDecision(Decision(None), waiter, code))
        waiter.refuse(code)
        return False

    def _append(self, records: tuple[Any, ...], producer: ProducerIdentity | None, *, awaited: bool = True) -> int:
        """Append and replay, with nothing in between. Returns the offset to be committed. Raises like the log."""
        if not records:
            return self.partition.log.log_end_offset - 1
        now_ms = self._clock.now_ms()
        batch = self._batch(records, producer, now_ms)
        try:
            appended = self.partition.append_placed(batch, now_ms=now_ms, awaited=awaited)
        except KafkaError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:  # What the disk refuses, the partition's log tells.
                logger.error("%s: a decision could not be written: %s", self.partition.topic_partition, error)
            raise
        for offset, record in enumerate(records, appended.base_offset):
            self.shard.replay(record, offset, producer)
        if not awaited:
            self._unawaited_sync.later()
        return appended.last_offset

    def _batch(self, records: tuple[Any, ...], producer: ProducerIdentity | None, now_ms: int) -> bytes:
        """The records as a batch for the log end."""
        log, encode = self.partition.log, self.shard.encode
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
        self,
        decision: Decision[Any, Any, Any],
        waiter: Waiter[Any] | None,
        last_offset: int,
        *,
        is_confirmed: bool = False,
    ) -> bool:
        """Hold effects and responses until ``last_offset`` is committed. Returns whether they are still held."""
        if waiter is None and not decision.effects and not decision.answers:
            return False
        delayed = _DelayedDecision(decision, waiter)
        if is_confirmed and not decision.records and self.partition.replicas is not None:
            return self._confirm(delayed)
        if self.partition.log.high_watermark > last_offset:
            self._conclude(delayed)
            return False
        self._delayed[delayed] = None
        self.partition.when_committed(last_offset, self, delayed)
        return True

    def _confirm(self, delayed: _DelayedDecision) -> bool:
        """Hold it until the other replicas have confirmed that this broker leads. Returns whether it is still held."""
        self._delayed[delayed] = None
        if self.partition.when_confirmed(self, delayed):
            return True
        del self._delayed[delayed]
        self._conclude(delayed)
        return False

    def _conclude(self, delayed: _DelayedDecision) -> None:
        # Effects first: the client's next request finds them done.
        for effect in delayed.decision.effects:
            self._carry_out(self, effect)
        for answer in delayed.decision.answers:
            answer.waiter.respond(answer.response)
        if delayed.waiter is None:
            return
        if delayed.refusal is not None:
            delayed.waiter.refuse(delayed.refusal)
        else:
            delayed.waiter.respond(delayed.decision.response)

    def _wait(self, waiting: DelayedRequest, decision: Decision[Any, Any, Any]) -> bool:
        assert decision.wait_for is not None
        waiting.wait_for, waiting.response = decision.wait_for, decision.response
        now_ms = self._clock.monotonic_ms()
        if waiting.due_ms is None:
            waiting.due_ms = now_ms + MOVING_WAIT_MS
        remaining_ms = waiting.due_ms - now_ms
        if remaining_ms <= 0:
            waiting.waiter.respond(waiting.response)
            return False
        self._moving.setdefault(waiting.wait_for, {})[waiting] = None
        waiting.ticket = self._deadlines.add(waiting, int(remaining_ms))
        return True

    def _moved_on(self, records: tuple[Any, ...]) -> None:
        """Decide again what waits for the ids of these records."""
        if not self._moving:
            return
        for key in dict.fromkeys(map(self.shard.id_of, records)):
            # Taken out together: one of these requests may move the id itself, and then only those that wait again are
            # decided once more.
            for waiting in self._moving.pop(key, ()):
                self._deadlines.discard(waiting, waiting.ticket)
                if waiting.abandoned_by_client:
                    waiting.waiter.refuse(ErrorCode.NETWORK_EXCEPTION)
                else:
                    self._ask(waiting)


class _Timer:
    """Stands at the shard's next deadline."""

    __slots__ = ("due_ms", "runtime", "ticket")

    def __init__(self, runtime: ShardRuntime[Any]) -> None:
        self.runtime = runtime
        self.due_ms: float | None = None
        self.ticket = 0

    def expired(self) -> None:
        self.runtime.deadline_passed()


def _code_of(error: KafkaError | StorageError) -> ErrorCode:
    """The producer is told what the log has against it; of everything else it can only know that we failed."""
    if isinstance(error, KafkaError) and error.code in REFUSALS:
        return error.code
    return ErrorCode.COORDINATOR_NOT_AVAILABLE
