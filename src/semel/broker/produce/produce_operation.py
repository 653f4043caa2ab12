"""One Produce request, from its batches to its answer: check, admit, append, wait, answer.

    check    check the records of the batches; on a worker if that takes long (``record_checks``)
    admit    for a transaction: the coordinator adds or verifies the partitions (``transaction_admission``)
    append   append each batch to its partition; the refusal of one batch does not affect the others
    wait     until the high watermark has passed every batch that was appended; with several replicas, and if a batch
             is refused because of its producer's state in the log, also until they confirm that this broker leads
    answer   once, in the order of the client's requests

For a partition with one replica ``acks`` 1 and -1 mean the same: a batch is acknowledged when the high watermark has
passed it. With several replicas ``acks`` 1 waits only for this broker's disk. With ``acks`` 0 there is no response; in
case of an error the connection is closed, as in Apache Kafka.

While a request is checked or admitted, the client's next requests are not served, so that the producer's batches stay
in order. The request's records are copied, because the buffer in which they arrived is needed for other requests. The
check comes before the admission, because an admission may be cancelled by a marker at any time. While a request waits,
the client's next ones are served, and share the next sync. A batch that is not committed at the deadline is answered
with REQUEST_TIMED_OUT, which tells the client that the outcome is unknown. In Kafka the timeout limits only the wait
for other replicas. So as long as none is waited for, 0 means ``NO_TIMEOUT_MS``.

``docs/design/produce.md`` describes for each stage the effect of a client that leaves, of the deadline and of a failed
disk.
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

NO_TIMEOUT_MS: Final = 30_000
"""How long a request without a timeout (0 or less) waits for this broker's disk: the usual timeout of clients."""

_ACKS_ALL: Final = -1
_NONE_REFUSED: Final[Refusals] = MappingProxyType({})

Respond: TypeAlias = Callable[[Request, Sequence[ProduceBatch]], None]
"""A function that responds to a request with the outcomes of its batches."""


class ProduceOperation:
    """The work on one Produce request. Once its batches are appended, it waits as a ``DelayedOperation``."""

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
        """Serve the request, until it is answered or has to wait. A callback continues it after a wait."""
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
        """Begin the checks of the batches, and return those that take long.

        Together they get the effort that one request may take on the event loop; then the remaining ones are not begun.
        """
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
        """Append, even if the client has left: its producer sent the records, and may still commit them."""
        self._go_on(lambda: self._append(refusals))

    def _hold(self) -> None:
        if not self._was_held:
            self._was_held = True
            for batch in self._batches:
                batch.keep()

    # Append

    def _append(self, refusals: Refusals) -> None:
        """Append all batches, then answer or wait. ``refusals`` are those of the coordinator."""
        uncommitted: dict[ProduceBatch, Appended | None] = {}
        has_failed = False
        for batch in self._batches:
            try:
                batch.outcome = appended = self._append_batch(batch, refusals)
            except (KafkaError, StorageError) as error:
                # Its traceback refers to this frame, and the frame to the batch. Only the garbage collector could free
                # this reference cycle, and it does not examine the objects of large requests.
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
        if self._was_held and partition.ended is not None:
            # Also if this broker leads the partition again, or a topic of the same name: the records were admitted and
            # checked for the term and the topic that have ended. A refusal of the coordinator comes too late as well:
            # no replica confirms such a term.
            if partition.ended is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and version >= TOPIC_IDS_SINCE:
                raise unknown_topic_id(partition.log.topic_id)
            raise KafkaError(partition.ended, f"the term of {partition.topic_partition} has ended")
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
            # CVE-2018-17196: without the id, no right to a transactional id would be checked.
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
        """Whether a refusal must wait until the other replicas confirm that this broker leads; asks them to confirm."""
        error, partition = batch.outcome, batch.partition
        if not isinstance(error, KafkaError) or error.code not in REFUSALS:
            return False
        if partition is None or partition.replicas is None:
            return False
        return partition.when_confirmed(self, batch)

    # Wait: called by the partitions, the deadline and the connection (``DelayedOperation``).

    def _wait(self, uncommitted: dict[ProduceBatch, Appended | None]) -> None:
        """Wait for the batches in ``uncommitted``: its values are the appends, and None for a refusal that must be
        confirmed."""
        self._uncommitted = uncommitted
        timeout_ms = self._timeout_ms
        if timeout_ms <= 0 and not any(map(self._awaits_replicas, uncommitted.items())):
            timeout_ms = NO_TIMEOUT_MS
        self._ticket = self._node.deadlines.add(self, timeout_ms)
        self._request.delay(self, hold=False)
        for batch, appended in uncommitted.items():
            if appended is not None:
                assert batch.partition is not None
                batch.partition.when_acknowledged(appended.last_offset, self, batch, by_all=self._acks == _ACKS_ALL)

    def _awaits_replicas(self, waiting: tuple[ProduceBatch, Appended | None]) -> bool:
        batch, appended = waiting
        assert batch.partition is not None
        return batch.partition.replicas is not None and (appended is None or self._acks == _ACKS_ALL)

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
        """Run a stage of a request whose handler has already returned."""
        try:
            stage()
        except Exception:
            self._request.give_up()
