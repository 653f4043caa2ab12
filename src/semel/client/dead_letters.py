"""Dead letters: records whose processing raised, sent to a topic of their own in the transaction that read them.

The law: the transaction has all outputs of a record, or its dead letter and none of its outputs. So outputs are checked
when they are given, where a wrong one still counts as an error of the record, and sent when its processing has ended.

A record may be tried several times before it is a dead letter, in the same transaction: each attempt begins without the
outputs of the one before.

Errors of the client itself are not errors of the record: a transaction that failed, a producer that was fenced. They
are raised, and the transaction is aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from semel.client.arguments import HeadersLike
from semel.client.send_queue import SendQueue
from semel.client.values import ConsumerRecord, ProducerRecord
from semel.errors import ErrorCode, KafkaError, SemelError, StateError
from semel.wire.records import Headers

if TYPE_CHECKING:
    from semel.client.tracing.spans import Spans

# The first two are those of the Spark pipeline.
REASON_HEADER: Final = "semel-error"
OFFSET_HEADER: Final = "semel-offset"
TOPIC_HEADER: Final = "semel-topic"
PARTITION_HEADER: Final = "semel-partition"
ATTEMPTS_HEADER: Final = "semel-attempts"

_REASON_LENGTH_MAX: Final = 1_000

Raised: TypeAlias = type[Exception] | tuple[type[Exception], ...]


class Output:
    """Collects what the processing of one record sends. Nothing is sent before the processing has succeeded.

    ``attempt`` counts the attempts at this record, from 1.
    """

    def __init__(self, send_queue: SendQueue, attempt: int) -> None:
        self.attempt = attempt
        self._send_queue = send_queue
        self._records: list[ProducerRecord] = []

    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: HeadersLike = (),
        timestamp: int | None = None,
    ) -> None:
        """Send a record as ``Producer.send`` does, but without a future: the commit tells whether it was written.

        output.send("invoices", b"{...}", key=record.key)
        """
        self._records.append(self._send_queue.prepared(topic, value, key, partition, headers, timestamp))

    def taken(self) -> list[ProducerRecord]:
        records, self._records = self._records, []
        return records


class Processing(AbstractContextManager[Output]):
    """The processing of one record, or one of several attempts at it: ``with producer.processing(record) as output``.

    ``send`` is called with records that the queue has prepared. ``on`` are the exceptions that make the record a dead
    letter, if this is the last attempt.
    """

    def __init__(
        self,
        record: ConsumerRecord,
        *,
        dead_letter_topic: str,
        send_queue: SendQueue,
        send: Callable[[ProducerRecord], object],
        on: Raised,
        spans: Spans | None = None,
        attempt: int = 1,
        attempts: int = 1,
    ) -> None:
        self._record = record
        self._topic = dead_letter_topic
        self._send_queue = send_queue
        self._send = send
        self._on = on
        self._attempt = attempt
        self._is_last = attempt == attempts
        self._output = Output(send_queue, attempt)
        self._span: AbstractContextManager[None] = nullcontext() if spans is None else spans.processing(record)
        self.has_ended = False
        self.is_settled = False
        """Whether the record has been processed, or is a dead letter: no further attempt."""

    def __enter__(self) -> Output:
        self._span.__enter__()
        return self._output

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            return self._ended(error)
        finally:
            # After the outputs are sent, so that their spans are its children. It also records an error that is
            # suppressed here.
            self._span.__exit__(kind, error, traceback)

    def _ended(self, error: BaseException | None) -> bool:
        """Send the outputs, or the dead letter. Returns whether the error is suppressed."""
        outputs = self._output.taken()
        self.has_ended = True
        if error is None:
            for output in outputs:
                self._send(output)
            self.is_settled = True
            return False
        if not isinstance(error, self._on) or _is_the_clients(error):
            return False
        if self._is_last:
            self._send(self._letter(error))
            self.is_settled = True
        return True

    def _letter(self, error: Exception) -> ProducerRecord:
        """Return the record as it was read, with the reason, and without what makes it too large to be sent."""
        record, told = self._record, _told(self._record, error, self._attempt)
        whole = ProducerRecord(
            self._topic,
            record.value,
            record.key,
            headers=(*record.headers, *told),
            timestamp=record.timestamp if record.timestamp >= 0 else None,
        )
        for letter in (whole, whole._replace(value=None)):
            try:
                return self._send_queue.checked(letter)
            except KafkaError as refused:
                if refused.code is not ErrorCode.MESSAGE_TOO_LARGE:
                    raise
        return self._send_queue.checked(whole._replace(value=None, key=None, headers=told))


def attempts_at(attempt_number: Callable[[int], Processing], count: int) -> Iterator[Processing]:
    """Yield attempts at one record, up to ``count``, until one of them has settled it."""
    for number in range(1, count + 1):
        attempt = attempt_number(number)
        yield attempt
        if not attempt.has_ended:
            raise StateError("attempts: an attempt was passed over. Each is a block: with attempt as output")
        if attempt.is_settled:
            return


def _is_the_clients(error: Exception) -> bool:
    """Whether an error is the client's own. An output that is too large is the record's error: nothing was sent."""
    is_too_large = isinstance(error, KafkaError) and error.code is ErrorCode.MESSAGE_TOO_LARGE
    return isinstance(error, SemelError) and not is_too_large


def _told(record: ConsumerRecord, error: Exception, attempts: int) -> Headers:
    text = str(error)
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return (
        (REASON_HEADER, reason[:_REASON_LENGTH_MAX].encode(errors="replace")),
        (TOPIC_HEADER, record.topic.encode()),
        (PARTITION_HEADER, str(record.partition).encode()),
        (OFFSET_HEADER, str(record.offset).encode()),
        (ATTEMPTS_HEADER, str(attempts).encode()),
    )
