"""The sender (Kafka: ``Sender``): batches become Produce requests, and are sent until every one is settled.

Batches are drained fairly: a request has one batch of each partition that its broker leads, the partition that was
served last comes last, and max.in.flight.requests.per.connection (5) requests are in flight at once. What to do with a
batch after an attempt is decided in one place, ``_returned``; the rules about its numbers are those of ``sequences``
and ``partition_queue``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import Random

from semel.client.config.producer import IDEMPOTENT_IN_FLIGHT_MAX, ProducerConfig
from semel.client.machine.connection.connections import Connections, Route
from semel.client.machine.connection.metadata import Metadata
from semel.client.machine.connection.retry import Backoff, markers_backoff
from semel.client.machine.producer.accumulator import Accumulator
from semel.client.machine.producer.batch import Acknowledged, ProducerBatch, Settlement
from semel.client.machine.producer.partition_queue import PartitionQueue
from semel.client.machine.producer.produce_call import BatchAnswer, produce_call
from semel.client.machine.producer.produce_errors import (
    BATCH_FATAL,
    NOT_WRITTEN,
    OUTDATED_METADATA,
    Verdict,
    verdict_on,
)
from semel.client.machine.producer.sequences import TRANSACTIONS_V2, Numbering
from semel.clock import NEVER
from semel.errors import ErrorCode, Family, TimedOut, client_error, family_of, named
from semel.types import Address

log = logging.getLogger(__name__)


class Sender:
    """Sends the accumulator's batches. ``settled`` collects their outcomes, until the driver takes them."""

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: Accumulator,
        metadata: Metadata,
        connections: Connections,
        random: Random,
        numbering: Numbering | None,
    ) -> None:
        self._config = config
        self._accumulator = accumulator
        self._metadata = metadata
        self._connections = connections
        self._numbering = numbering
        self._backoff = Backoff.of(config.client, random)
        self._markers_backoff = markers_backoff(config.client, random)
        self._in_flight_max = config.max_in_flight_requests_per_connection
        if numbering is not None:
            self._in_flight_max = min(self._in_flight_max, IDEMPOTENT_IN_FLIGHT_MAX)
        self.settled: list[Settlement] = []
        self.records_acknowledged = self.records_failed = 0

    def poll(self, now_ms: float, *, urgent: bool) -> None:
        """Fail what is older than delivery.timeout.ms, then send what can be sent. ``urgent``: nothing lingers."""
        self._expire(now_ms)
        while self._send_once(now_ms, urgent=urgent):
            pass

    def next_deadline_ms(self, now_ms: float, *, urgent: bool) -> float:
        deadline = NEVER
        for queue in self._accumulator.active:
            deadline = min(deadline, queue.oldest.created_ms + self._config.delivery_timeout_ms)
            again = queue.due_for_retry()
            if again is not None:
                moment = again.retry_ms
            elif queue.next_new() is not None and queue.may_drain_more(self._in_flight_limit(queue)):
                moment = self._accumulator.linger_deadline_ms(queue, urgent=urgent)
            else:
                continue
            # A batch that is due already waits for an event: a leader, a connection, a response.
            if moment > now_ms:
                deadline = min(deadline, moment)
        return deadline

    def give_up(self, error: Exception, *, also_on_wire: bool = False) -> None:
        """Fail every batch; those on the wire only if asked, because their responses are still of use."""
        for queue in tuple(self._accumulator.active):
            for batch in tuple(queue.batches()):
                if also_on_wire or not batch.on_wire:
                    self._fail(queue, batch, error)

    # Draining

    def _send_once(self, now_ms: float, *, urgent: bool) -> bool:
        """Send one more request to every broker that can take one. Returns whether anything was sent."""
        requests: dict[Route, list[ProducerBatch]] = {}
        sizes: dict[Route, int] = {}
        able: dict[Route, bool] = {}
        for queue in tuple(self._accumulator.active):
            batch = self._next_batch(queue, now_ms, urgent=urgent)
            if batch is None:
                continue
            leader = self._metadata.view.leader(queue.topic_partition)
            if leader is None:
                self._metadata.want(queue.topic_partition.topic, now_ms)
                self._metadata.outdated()
                continue
            route = Route(leader)
            if route not in able:
                able[route] = self._connections.ready(route, now_ms)
            size = sizes.get(route, 0) + batch.size_bytes
            if not able[route] or (route in sizes and size > self._config.max_request_size):
                continue
            self._drain(queue, batch)
            self._accumulator.served(queue)
            requests.setdefault(route, []).append(batch)
            sizes[route] = size
        for route, batches in requests.items():
            self._send(route, batches, now_ms)
        return bool(requests)

    def _next_batch(self, queue: PartitionQueue, now_ms: float, *, urgent: bool) -> ProducerBatch | None:
        if self._numbering is not None and not self._numbering.may_send(queue.topic_partition):
            return None
        again = queue.due_for_retry()
        if again is not None:
            return again if now_ms >= again.retry_ms else None
        batch = queue.next_new()
        if batch is None or not queue.may_drain_more(self._in_flight_limit(queue)):
            return None
        if now_ms < self._accumulator.linger_deadline_ms(queue, urgent=urgent):
            return None
        return batch if self._may_number(queue) else None

    def _in_flight_limit(self, queue: PartitionQueue) -> int:
        # A broker that does not know a producer accepts whatever sequence comes first, except with transactions V2. If
        # the first batch were refused for a moment, the second would be accepted in its place: so the second is not
        # sent yet.
        unknown = self._numbering is not None and not queue.sequences.is_known
        return 1 if unknown and self._transaction_version != TRANSACTIONS_V2 else self._in_flight_max

    def _may_number(self, queue: PartitionQueue) -> bool:
        """Whether the partition may number a batch now. It changes to a new identity when no drained batch is left."""
        if self._numbering is None:
            return True
        sequences = queue.sequences
        identity = self._numbering.identity()
        if sequences.unresolved is not None:
            if queue.drained:
                return False
            if sequences.is_complete:
                sequences.unresolved = None
            elif sequences.identity == identity:
                self._numbering.unresolved(queue.topic_partition, sequences.unresolved)
                identity = self._numbering.identity()
                if identity == sequences.identity:
                    return False
        if identity is None:
            return False
        if sequences.identity != identity:
            if queue.drained:
                return False
            sequences.adopt(identity)
        return True

    def _drain(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        if batch not in queue.drained:
            assert queue.take_new() is batch
            if self._numbering is None:
                batch.seal(None)
            else:
                numbers = queue.sequences.take(batch.count)
                batch.seal(numbers, is_transactional=self._transaction_version is not None)
        if self._numbering is not None:
            self._numbering.sent()
        batch.on_wire = True
        batch.attempts += 1

    def _send(self, route: Route, batches: Sequence[ProducerBatch], now_ms: float) -> None:
        call = produce_call(
            batches,
            config=self._config,
            view=self._metadata.view,
            transaction_version=self._transaction_version,
            answered=self._answered,
            lost=self._lost,
        )
        self._connections.send(route, call, now_ms)
        if not call.wants_answer:
            for batch in batches:
                self._succeed(self._accumulator.queue(batch.topic_partition), batch, Acknowledged(None, None))

    @property
    def _transaction_version(self) -> int | None:
        return None if self._numbering is None else self._numbering.transaction_version

    # After an attempt

    def _answered(
        self, answers: Sequence[tuple[ProducerBatch, BatchAnswer]], brokers: dict[int, Address], now_ms: float
    ) -> None:
        for batch, answer in answers:
            if answer.leader is not None:
                leader, epoch = answer.leader
                self._metadata.leader_moved(batch.topic_partition, leader, epoch, brokers, now_ms)
            self._returned(batch, answer, now_ms)

    def _lost(self, batches: Sequence[ProducerBatch], reason: str, now_ms: float) -> None:
        self._metadata.outdated()
        for batch in batches:
            self._returned(batch, BatchAnswer(ErrorCode.NETWORK_EXCEPTION, message=reason), now_ms)

    def _returned(self, batch: ProducerBatch, answer: BatchAnswer, now_ms: float) -> None:
        """Decide what to do with a batch after an attempt."""
        queue = self._accumulator.queue(batch.topic_partition)
        batch.on_wire = False
        if batch.outcome is not None:
            if answer.code == ErrorCode.NONE and batch.numbers is not None:
                queue.sequences.acknowledged(batch.numbers, batch.record_count)
            return
        if answer.code not in NOT_WRITTEN:
            batch.in_doubt = True
        if answer.code in OUTDATED_METADATA:
            self._metadata.outdated()
        verdict = verdict_on(
            answer.code,
            is_numbered=batch.numbers is not None,
            is_transactional=self._transaction_version is not None,
            is_first=bool(queue.drained) and queue.drained[0] is batch,
            is_in_doubt=batch.in_doubt,
            record_count=batch.record_count,
            may_retry=batch.attempts <= self._config.retries,
        )
        match verdict:
            case Verdict.SUCCEED:
                self._succeed(queue, batch, answer.acknowledged())
            case Verdict.RETRY:
                concurrent = answer.code == ErrorCode.CONCURRENT_TRANSACTIONS
                backoff = self._markers_backoff if concurrent else self._backoff
                batch.last_answer = _told(answer)
                batch.retry_ms = now_ms + backoff.delay_ms(batch.attempts)
            case Verdict.WAIT_FOR_PREDECESSOR:
                batch.retry_ms = now_ms
            case Verdict.RENUMBER:
                queue.sequences.unresolved = f"a batch was refused with {named(answer.code).name}"
                queue.give_back(batch)
            case Verdict.SPLIT:
                self._split(queue, batch, now_ms)
            case Verdict.FAIL:
                self._fail(queue, batch, self._refusal(batch, answer))
        if queue.returned:
            self._give_back_followers(queue)

    def _give_back_followers(self, queue: PartitionQueue) -> None:
        """Give back the batches that were drained after a returned one, so that they are not sent before it.

        A batch that may have been written fails instead.
        """
        while queue.drained and not queue.drained[0].on_wire:
            batch = queue.drained[0]
            if batch.in_doubt:
                text = f"{batch.count} records to {batch.topic_partition} may have been written: no answer came"
                self._fail(queue, batch, client_error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text))
            else:
                queue.give_back(batch)

    def _succeed(self, queue: PartitionQueue, batch: ProducerBatch, outcome: Acknowledged) -> None:
        if batch.numbers is not None:
            queue.sequences.acknowledged(batch.numbers, batch.record_count)
        self._settle(queue, batch, outcome)

    def _fail(self, queue: PartitionQueue, batch: ProducerBatch, error: Exception) -> None:
        if batch.numbers is not None:
            queue.sequences.unresolved = f"a batch failed: {error}"
        self._settle(queue, batch, error)
        if self._numbering is not None:
            self._numbering.failed(error, was_numbered=batch.numbers is not None)

    def _settle(self, queue: PartitionQueue, batch: ProducerBatch, outcome: Acknowledged | Exception) -> None:
        batch.outcome = outcome
        queue.remove(batch)
        self._accumulator.settled(queue, batch)
        count = batch.count
        if isinstance(outcome, Acknowledged):
            self.records_acknowledged += count
        else:
            self.records_failed += count
        bulk_count = count if batch.is_bulk else None
        self.settled.append(Settlement(*batch.topic_partition, batch.deliveries, batch.timestamps, outcome, bulk_count))
        del self._accumulator.unsettled[batch]

    def _split(self, queue: PartitionQueue, batch: ProducerBatch, now_ms: float) -> None:
        parts = list(batch.split())
        for part in parts:
            part.retry_ms = now_ms
        queue.replace(batch, parts)
        self._accumulator.replaced(batch, parts)
        log.info(
            "%s: %d records were too large a batch for the broker: split", batch.topic_partition, batch.record_count
        )

    def _refusal(self, batch: ProducerBatch, answer: BatchAnswer) -> Exception:
        code = named(answer.code)
        known = "may have been written" if batch.in_doubt else "not written"
        what = f"{batch.count} records to {batch.topic_partition} {known}"
        family = family_of(code)
        if family is Family.FATAL and code not in BATCH_FATAL:
            family = Family.ABORTABLE
        return client_error(code, f"{what}: the broker answered {_told(answer)}", family)

    def _expire(self, now_ms: float) -> None:
        limit_ms = self._config.delivery_timeout_ms
        for queue in tuple(self._accumulator.active):
            while not queue.is_empty and now_ms >= queue.oldest.created_ms + limit_ms:
                batch = queue.oldest
                known = "may have been written" if batch.on_wire or batch.in_doubt else "not written"
                last = "" if batch.last_answer is None else f"; the last one ended with {batch.last_answer}"
                self._fail(
                    queue,
                    batch,
                    TimedOut(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"{batch.count} records to {batch.topic_partition} {known}: not acknowledged within "
                        f"delivery.timeout.ms ({limit_ms} ms) and {batch.attempts} attempts{last}",
                    ),
                )


def _told(answer: BatchAnswer) -> str:
    """Return what a broker answered, with its message if it has one."""
    code = named(answer.code)
    return f"{code.name} ({answer.message})" if answer.message and answer.message != code.name else code.name
