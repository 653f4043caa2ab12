"""The runtime of one coordinator shard (Kafka's CoordinatorRuntime): it appends the records that the shard decides, and
answers requests once those records are committed.

    run(decide, waiter)
      |  decide(shard)                          reads, changes nothing
      |  append the records, replay them,
      |  apply the changes                      with nothing in between: the next decision sees them
      v
    the high watermark has passed them          effects are carried out, then the responses are sent

The law: no response depends on records that are not committed. A decision without records waits for the records that
were in the log when it was made, because it may depend on them. With several replicas it also waits until the others
have confirmed that this broker still leads: a broker that was paused could answer from an old state. A heartbeat does
not wait for that. If the append fails, nothing is replayed or changed, and the answer is COORDINATOR_NOT_AVAILABLE. If
the partition is lost, all requests that wait are answered with NOT_COORDINATOR, and the shard is discarded; the shard
of the next term is built by replaying the log.

A request may be ``DEFERRED``: the shard keeps its waiter and answers it with a later decision. Or its decision waits
for an id (``Decision.wait_for``): then the request is decided again when a record of that id was replayed. The runtime
also runs the shard's timeouts, with one timer that is set to the shard's next deadline.
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

# How long a request waits until a record of an id is replayed. Far longer than a sync takes, far shorter than a
# client's request timeout.
ID_WAIT_MS: Final = 1000
# How many deadlines of a shard are handled in one turn of the event loop.
TIMEOUTS_PER_TURN: Final = 100

AnyShard = TypeVar("AnyShard", bound=Shard[Any])
Response = TypeVar("Response")

Decide: TypeAlias = Callable[[AnyShard], Decision[Response | Deferred, Any, Any]]


class DelayedRequest:
    """A request that a shard was asked to decide, and that is not answered yet."""

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
        """The response if no record of the id that it waits for is replayed in time."""
        self.due_ms: float | None = None
        self.ticket = 0
        self.abandoned_by_client = False

    def abandoned(self) -> None:
        """Called when the client is gone. What was decided stays; the request is not decided again."""
        self.abandoned_by_client = True

    def expired(self) -> None:
        self.runtime.request_expired(self)


class _DelayedDecision:
    """A decision that waits until its response may be sent. ``refusal``, if set, is sent in place of the response."""

    __slots__ = ("decision", "refusal", "waiter")

    def __init__(
        self, decision: Decision[Any, Any, Any], waiter: Waiter[Any] | None, refusal: ErrorCode | None = None
    ) -> None:
        self.decision = decision
        self.waiter = waiter
        self.refusal = refusal


class ShardRuntime(Generic[AnyShard]):
    """The runtime of one shard that this broker leads, for one term of leadership of the shard's partition.

    ``carry_out`` does an effect of a decision, once its records are committed.
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
        self.failure: str | None = None  # Why the shard could not be loaded.
        self.refusal: ErrorCode | None = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        """The error with which requests are refused; None while the shard serves them."""
        self._clock = clock
        self._deadlines = deadlines
        self._carry_out = carry_out
        self._timer = _Timer(self)
        self._unawaited_sync = DeferredSync(partition.log, deadlines)
        self._delayed: dict[_DelayedDecision, None] = {}
        self._waiting_for_id: dict[str, dict[DelayedRequest, None]] = {}

    @property
    def epoch(self) -> int:
        """The leader epoch of the term that this runtime was made for."""
        return self.partition.leader_epoch

    def run(
        self,
        decide: Decide[AnyShard, Response],
        waiter: Waiter[Response],
        *,
        producer: ProducerIdentity | None = None,
        is_confirmed: bool = True,
    ) -> DelayedRequest | None:
        """Decide a request, and respond once the decision is committed.

        Returns None if the response was sent before this returns. With ``producer`` the records become part of this
        producer's transaction. With ``is_confirmed`` the response of a decision without records also waits until the
        other replicas have confirmed that this broker leads.
        """
        if self.refusal is not None:
            waiter.refuse(self.refusal)
            return None
        waiting = DelayedRequest(self, decide, waiter, producer, is_confirmed)
        return waiting if self._ask(waiting) else None

    def apply(self, decision: Decision[Any, Any, Any]) -> bool:
        """Carry out a decision that belongs to no request. Returns whether its records could be appended."""
        try:
            last_offset = self._append(decision.records, None, awaited=bool(decision.effects or decision.answers))
        except (KafkaError, StorageError):
            return False
        self._remember(decision.changes)
        self._delay(decision, None, last_offset)
        self._decide_again(decision.records)
        return True

    def append_marker(
        self, producer: ProducerIdentity, marker: EndTransactionMarker, *, transaction_version: int
    ) -> Appended:
        """Append a marker to this shard's own partition, and replay it. Raises KafkaError.

        From now on the offsets that are pending in the producer's transaction are committed, or dropped.
        """
        if self.refusal is not None:
            raise KafkaError(self.refusal, f"{self.partition.topic_partition} has no active coordinator")
        appended = self.partition.append_marker(
            producer, marker, now_ms=self._clock.now_ms(), transaction_version=transaction_version
        )
        self.shard.replay_marker(producer, committed=marker.committed)
        return appended

    def loaded(self) -> None:
        """Begin to serve requests: all of the log has been replayed into the shard."""
        if self.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self.refusal = None
            self.apply(self.shard.loaded(Moment.now(self._clock)))

    def retire(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Decide nothing more, and refuse the requests that the shard has deferred. Decisions that were made are still
        answered when they are committed."""
        self.refusal = code
        self._set_timer(None)
        for waiter in self.shard.unload():
            waiter.refuse(code)

    def unload(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Decide nothing more, and refuse all requests that wait."""
        self.retire(code)
        delayed, self._delayed = self._delayed, {}
        waiting_for_id, self._waiting_for_id = self._waiting_for_id, {}
        for entry in delayed:
            for answer in entry.decision.answers:
                answer.waiter.refuse(code)
            if entry.waiter is not None:
                entry.waiter.refuse(code)
        for waiting in (waiting for waiters in waiting_for_id.values() for waiting in waiters):
            self._deadlines.discard(waiting, waiting.ticket)
            waiting.waiter.refuse(code)

    def drop(self) -> None:
        """Decide nothing more, and answer no request, because the process ends."""
        self.refusal = ErrorCode.NOT_COORDINATOR
        self._delayed.clear()
        self._waiting_for_id.clear()
        self._set_timer(None)

    # Called by the partition (``AwaitsCommit``).

    def committed(self, token: object) -> None:
        assert isinstance(token, _DelayedDecision)
        if token in self._delayed:
            del self._delayed[token]
            self._conclude(token)

    def failed(self, token: object, code: ErrorCode) -> None:
        if token in self._delayed:
            # It is not known whether these records survive, and the shard has replayed them. It must not decide again.
            self.unload()
            if code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                logger.error("%s is lost to its coordinator: %s", self.partition.topic_partition, code.name)
                self.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE  # No other broker has it either.

    # Called by a waiting request (``DelayedRequest``).

    def request_expired(self, waiting: DelayedRequest) -> None:
        waiters = self._waiting_for_id.get(waiting.wait_for, {})
        if waiting in waiters:
            del waiters[waiting]
            if not waiters:
                del self._waiting_for_id[waiting.wait_for]
            waiting.waiter.respond(waiting.response)

    # Deadlines of the shard.

    def deadline_passed(self) -> None:
        """Called when a deadline of the shard may have passed: apply the decisions of ``Shard.time_out``."""
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
            # Also after a decision that raised an unexpected exception: the other deadlines stay.
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
        """Apply changes that need no record. The timer is set again only if a deadline is nearer now; a later deadline
        is found when the timer fires."""
        if not changes:
            return
        for change in changes:
            self.shard.apply(change)
        next_due_ms = self.shard.next_deadline_ms()
        if next_due_ms is not None and (self._timer.due_ms is None or next_due_ms < self._timer.due_ms):
            self._set_timer(next_due_ms)

    def _ask(self, waiting: DelayedRequest) -> bool:
        """Decide a request. Returns whether its response is still to be sent."""
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
        self._decide_again(decision.records)
        return self._wait(waiting, decision) if waits else is_delayed

    def _refuse(self, waiter: Waiter[Any], code: ErrorCode) -> bool:
        """Refuse a request whose records could not be appended. Returns whether the refusal is still to be sent."""
        if code in REFUSALS and self.partition.replicas is not None:
            return self._confirm(_DelayedDecision(Decision(None), waiter, code))
        waiter.refuse(code)
        return False

    def _append(self, records: tuple[Any, ...], producer: ProducerIdentity | None, *, awaited: bool = True) -> int:
        """Append and replay the records of a decision, with nothing in between.

        Returns the offset that must be committed before the decision is answered. Raises KafkaError or StorageError.
        """
        if not records:
            return self.partition.log.log_end_offset - 1
        now_ms = self._clock.now_ms()
        batch = self._batch(records, producer, now_ms)
        try:
            appended = self.partition.append_placed(batch, now_ms=now_ms, awaited=awaited)
        except KafkaError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:  # The log itself logs disk errors.
                logger.error("%s: a decision could not be written: %s", self.partition.topic_partition, error)
            raise
        for offset, record in enumerate(records, appended.base_offset):
            self.shard.replay(record, offset, producer)
        if not awaited:
            self._unawaited_sync.later()
        return appended.last_offset

    def _batch(self, records: tuple[Any, ...], producer: ProducerIdentity | None, now_ms: int) -> bytes:
        """Return the records, encoded as a batch for the log end."""
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
        """Hold a decision until the other replicas confirm that this broker leads. Returns whether it is held."""
        self._delayed[delayed] = None
        if self.partition.when_confirmed(self, delayed):
            return True
        del self._delayed[delayed]
        self._conclude(delayed)
        return False

    def _conclude(self, delayed: _DelayedDecision) -> None:
        # Effects first, so that they are done before the client's next request.
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
            waiting.due_ms = now_ms + ID_WAIT_MS
        remaining_ms = waiting.due_ms - now_ms
        if remaining_ms <= 0:
            waiting.waiter.respond(waiting.response)
            return False
        self._waiting_for_id.setdefault(waiting.wait_for, {})[waiting] = None
        waiting.ticket = self._deadlines.add(waiting, int(remaining_ms))
        return True

    def _decide_again(self, records: tuple[Any, ...]) -> None:
        """Decide the requests again that wait for the ids of these records."""
        if not self._waiting_for_id:
            return
        for key in dict.fromkeys(map(self.shard.id_of, records)):
            # All are taken out before one is decided: such a request may itself write a record of the id, and then only
            # those that wait again are decided once more.
            for waiting in self._waiting_for_id.pop(key, ()):
                self._deadlines.discard(waiting, waiting.ticket)
                if waiting.abandoned_by_client:
                    waiting.waiter.refuse(ErrorCode.NETWORK_EXCEPTION)
                else:
                    self._ask(waiting)


class _Timer:
    """The timer of a shard, set to its next deadline."""

    __slots__ = ("due_ms", "runtime", "ticket")

    def __init__(self, runtime: ShardRuntime[Any]) -> None:
        self.runtime = runtime
        self.due_ms: float | None = None
        self.ticket = 0

    def expired(self) -> None:
        self.runtime.deadline_passed()


def _code_of(error: KafkaError | StorageError) -> ErrorCode:
    """Return the error code for a failed append: the log's refusal of the producer, or COORDINATOR_NOT_AVAILABLE."""
    if isinstance(error, KafkaError) and error.code in REFUSALS:
        return error.code
    return ErrorCode.COORDINATOR_NOT_AVAILABLE
