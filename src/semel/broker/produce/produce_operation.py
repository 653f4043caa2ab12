"""One Produce request, from its batches to its answer: check, admit, append, wait, answer.

    check    the look into the batches; where it takes long, on a worker (``record_checks``)
    admit    for a transaction: the coordinator adds or verifies the partitions (``transaction_admission``)
    append   each batch to its partition; one that is refused leaves the others alone
    wait     until the high watermark has passed every batch that was appended; with several replicas, also until
             they have confirmed that this broker leads, where it refuses a batch for what its log knows of the producer
    answer   once, in the order in which the client asked

``acks`` 1 and -1 mean the same for a partition with one replica: acknowledged is what the high watermark has passed.
With several replicas ``acks`` 1 waits for this broker's disk alone. With ``acks`` 0 there is no answer; the client
learns of an error by losing its connection, as in Apache Kafka.

While a request is checked or admitted, the client's next requests are held back, so that the producer's batches stay in
order; its records are copied, because the buffer that they arrived in is needed for others. What the coordinator says
is good only at the moment it is said, so the check comes first. While a request waits, the next ones are served, and
share the next sync. What is not safe at the deadline is answered REQUEST_TIMED_OUT: "unknown", never "no".

``docs/design/produce.md`` says what a client that leaves, a deadline and a failed disk do at each stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.broker.produce.produce_batch import (
    TOPIC_IDS_SINCE,
    TRANSACTIONS_V2_SINCE,
    ZSTD_SINCE,
    ProduceBatch,
    Uncommitted,
    unknown_topic_id,
)
from semel.broker.produce.transaction_admission import Refusals, admit, refusal
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.log.batch_check import EFFORT_AT_ONCE_MAX, BatchCheck
from semel.log.outcomes import Appended
from semel.log.producers.producer_state import REFUSALS
from semel.types import ProducerIdentity, TopicPartition
from semel.wire.records import CODEC_MASK, TRANSACTIONAL_BIT, Codec

_ACKS_ALL: Final = -1
_NONE_REFUSED: Final[Refusals] = MappingProxyType({})

Respond: TypeAlias = Callable[[Request, Sequence[ProduceBatch]], None]
"""Answers a request with the outcomes of its batches."""


class ProduceOperation:
    """A ``DelayedOperation`` once its batches are appended."""

    __slots__ = (
        "_acks",
        "_batches",
        "_node",
        "_request",
        "_respond",
        "_ticket",
        "_timeout_ms",
        "_transactional_id",
        "_uncommitted",
        "_was_held",
    )

    def __init__(
        self,
        node: Node,
        request: Request,
        transactional_id: str | None,
        acks: int,
        timeout_ms: int,
        batches: Sequence[ProduceBatch],
        respond: Respond,
    ) -> None:
        self._node = node
        self._request = request
        self._transactional_id = transactional_id
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._batches = batches
        self._respond = respond
        self._was_held = False

    def serve(self) -> None:
        """Serve the request as far as it goes now. What it waits for takes it further."""
        batches = self._batches
        if len(batches) == 1 and batches[0].is_brief:
            long = None
        else:
            long = self._begin_checks()
        if long:
            self._check(long)
        else:
            self._admit()

    def refuse(self, error: KafkaError) -> None:
        """Refuse all batches with this error."""
        for batch in self._batches:
            batch.outcome = error
        if self._acks == 0:
            self._request.refuse()
        else:
            self._respond(self._request, self._batches)

    # Check

    def _begin_checks(self) -> list[BatchCheck]:
        """The looks into the batches, and those that take long. Together they get the time that one request may take;
        the others are not begun."""
        long: list[BatchCheck] = []
        effort_left = EFFORT_AT_ONCE_MAX
        for batch in self._batches:
            if batch.partition is not None and batch.records is not None:
                check = batch.check = batch.partition.log.begin_check(batch.records, effort_left, batch.header)
                effort_left -= check.effort + 1
                if check.is_long:
                    long.append(check)
        return long

    def _check(self, long: list[BatchCheck]) -> None:
        checks = self._node.record_checks
        size_bytes = sum(len(batch.records or b"") for batch in self._batches)
        try:
            checks.check_room(size_bytes)
        except KafkaError as error:
            self.refuse(error)
            return
        self._hold()
        self._request.delay(None, hold=True)
        checks.run(long, size_bytes, self._checked)

    def _checked(self, error: BaseException | None) -> None:
        def admit_unless_failed() -> None:
            if error is not None:
                raise error
            self._admit()

        self._go_on(admit_unless_failed)

    # Admit

    def _admit(self) -> None:
        """Append; for a transaction, ask the coordinator first, unless the partitions' gates are open for the producer.

        All transactional batches of a request come from one producer id and epoch.
        """
        transactional_id = self._transactional_id
        if transactional_id is None:
            self._append(_NONE_REFUSED)
            return
        producers: dict[ProducerIdentity, None] = {}
        partitions: dict[Partition, None] = {}
        for batch in self._batches:
            producer = batch.producer
            if producer is not None and batch.partition is not None:
                producers[producer] = None
                partitions[batch.partition] = None
        if len(producers) != 1:
            self._append({each.topic_partition: ErrorCode.INVALID_PRODUCER_ID_MAPPING for each in partitions})
            return
        (producer,) = producers
        delayed = admit(
            self._node,
            transactional_id,
            producer,
            list(partitions),
            adds=self._request.version >= TRANSACTIONS_V2_SINCE,
            respond=self._admitted,
        )
        if delayed is not None:
            self._hold()
            self._request.delay(delayed, hold=True)

    def _admitted(self, refusals: Refusals) -> None:
        """Append, also for a client that has left: it sent the records, and may ask the coordinator about them."""
        self._go_on(lambda: self._append(refusals))

    def _hold(self) -> None:
        if not self._was_held:
            self._was_held = True
            for batch in self._batches:
                batch.keep()

    # Append

    def _append(self, refusals: Refusals) -> None:
        """Append all batches, and answer or wait. ``refusals`` are those of the coordinator."""
        uncommitted: dict[ProduceBatch, Appended | None] = {}
        has_failed = False
        for batch in self._batches:
            try:
                batch.outcome = appended = self._append_batch(batch, refusals)
            except (KafkaError, StorageError) as error:
                # Its traceback leads to this frame, and from here to the batch: such a circle is freed by the garbage
                # collector only, which does not look at the objects of large requests.
                batch.outcome = error.with_traceback(None)
                has_failed = True
                if self._acks != 0 and self._awaits_confirmation(batch):
                    uncommitted[batch] = None
                continue
            assert batch.partition is not None
            if not batch.partition.is_acknowledged(appended.last_offset, by_all=self._acks == _ACKS_ALL):
                uncommitted[batch] = appended
        if self._acks == 0:
            if has_failed:
                self._request.refuse()
            else:
                self._request.answer_nothing()
        elif uncommitted:
            self._wait(uncommitted)
        else:
            self._respond(self._request, self._batches)

    def _append_batch(self, batch: ProduceBatch, refusals: Refusals) -> Appended:
        node, version = self._node, self._request.version
        partition, header, records = batch.partition, batch.header, batch.records
        if partition is None:
            raise cast(KafkaError, batch.outcome)
        if not records:
            raise KafkaError(ErrorCode.INVALID_RECORD, "no record batch; a produce request has one for every partition")
        attributes = 0 if header is None else header.attributes
        if version < ZSTD_SINCE and attributes & CODEC_MASK == Codec.ZSTD:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"zstd in a produce request of version {version}; it needs version {ZSTD_SINCE}",
            )
        if partition.replicas is not None and self._acks == _ACKS_ALL:
            partition.check_enough_replicas()
        require_zero_first = False
        if attributes & TRANSACTIONAL_BIT:
            self._check_admitted(batch, partition.topic_partition, refusals)
            require_zero_first = version >= TRANSACTIONS_V2_SINCE
        if self._was_held and node.partitions.get(*partition.topic_partition) is not partition:
            # Also where it was created again under the same name: the records were meant for the old one, and what was
            # found out about them went by its settings.
            if version >= TOPIC_IDS_SINCE:
                raise unknown_topic_id(partition.log.topic_id)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition.topic_partition} does not exist")
        appended = partition.append(records, node.clock.now_ms(), header, batch.check, require_zero_first)
        base_offset, last_offset, _, _, duplicate = appended
        metrics = node.metrics
        if duplicate:
            metrics.duplicate_batches.value += 1
        else:
            metrics.appended_batches.value += 1
            metrics.appended_records.value += last_offset - base_offset + 1
            metrics.appended_bytes.value += len(records)
        return appended

    def _check_admitted(self, batch: ProduceBatch, topic_partition: TopicPartition, refusals: Refusals) -> None:
        """Raise KafkaError unless a transactional batch may be appended."""
        transactional_id = self._transactional_id
        if transactional_id is None:
            # CVE-2018-17196: without the id, the transaction would be one of any producer.
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                f"a transactional batch for {topic_partition} in a request without a transactional id",
            )
        if batch.producer is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"the batch for {topic_partition} names no producer")
        error = refusal(topic_partition, refusals, transactional_id, self._request.version)
        if error is not None:
            raise error

    def _awaits_confirmation(self, batch: ProduceBatch) -> bool:
        """Whether a refusal is to be confirmed by the other replicas. They are asked, and then say so."""
        error, partition = batch.outcome, batch.partition
        if not isinstance(error, KafkaError) or error.code not in REFUSALS:
            return False
        if partition is None or partition.replicas is None:
            return False
        return partition.when_confirmed(self, batch)

    # Wait: what the partitions, the deadline and the connection say (``DelayedOperation``).

    def _wait(self, uncommitted: dict[ProduceBatch, Appended | None]) -> None:
        """``uncommitted`` has what was appended, and None for a refusal."""
        self._uncommitted = uncommitted
        self._ticket = self._node.deadlines.add(self, self._timeout_ms)
        self._request.delay(self, hold=False)
        for batch, appended in uncommitted.items():
            if appended is not None:
                assert batch.partition is not None
                batch.partition.when_acknowledged(appended.last_offset, self, batch, by_all=self._acks == _ACKS_ALL)

    def committed(self, token: object) -> None:
        uncommitted = self._uncommitted
        if token in uncommitted:
            del uncommitted[token]
            if not uncommitted:
                self._finish()

    def failed(self, token: object, code: ErrorCode) -> None:
        if token in self._uncommitted:
            self._is_unknown(token, code)
            self.committed(token)

    def expired(self) -> None:
        for batch in self._uncommitted:
            self._is_unknown(batch, ErrorCode.REQUEST_TIMED_OUT)
        self._uncommitted.clear()
        self._finish()

    def abandoned(self) -> None:
        self._uncommitted.clear()
        self._node.deadlines.discard(self, self._ticket)

    def _is_unknown(self, batch: ProduceBatch, code: ErrorCode) -> None:
        appended = self._uncommitted[batch]
        if appended is None:
            batch.outcome = KafkaError(code, "the batch was refused, and the other replicas did not confirm it")
        else:
            batch.outcome = Uncommitted(code, appended.log_start_offset)

    def _finish(self) -> None:
        self._node.deadlines.discard(self, self._ticket)
        try:
            self._respond(self._request, self._batches)
        except Exception:
            self._request.give_up()

    def _go_on(self, stage: Callable[[], None]) -> None:
        """Run a stage from outside the handler."""
        try:
            stage()
        except Exception:
            self._request.give_up()
