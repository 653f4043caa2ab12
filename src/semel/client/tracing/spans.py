"""The spans of a client, with the names and attributes of OpenTelemetry's conventions for messaging and Kafka.

    send TOPIC      from send to the acknowledgement; its context travels in the record's headers (traceparent)
    poll TOPIC      a poll that returned records; it links to those that sent them
    process TOPIC   the processing of one record; it links to the one that sent it, and is its child where no span is
                    current. Or of a micro-batch: it links to those that sent its first records

Keys and values are in no span. Only ``tracer_provider`` imports this module.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.util.types import AttributeValue

from semel import __version__
from semel.client.values import BulkMetadata, ConsumerRecord, RecordMetadata
from semel.wire.records import Headers

log = logging.getLogger(__name__)

# As many links as an SDK keeps by default.
_LINKS_MAX: Final = 128

_BATCH_COUNT: Final = "messaging.batch.message_count"
_BATCH_ID: Final = "semel.batch.id"
_CLIENT_ID: Final = "messaging.client.id"
_DESTINATION: Final = "messaging.destination.name"
_ERROR_TYPE: Final = "error.type"
_GROUP: Final = "messaging.consumer.group.name"
_OFFSET: Final = "messaging.kafka.offset"
_PARTITION: Final = "messaging.destination.partition.id"
_TOMBSTONE: Final = "messaging.kafka.message.tombstone"


class SendSpan:
    """The span from a send to its acknowledgement. ``told`` is a hook of the delivery, and ends the span."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def injected(self, headers: Headers) -> Headers:
        """Return the headers with this span's context in the place of any other."""
        return _injected(headers, trace.set_span_in_context(self._span))

    @contextmanager
    def ended_by_error(self) -> Iterator[None]:
        """End the span if this context raises: then the record was not sent."""
        try:
            yield
        except BaseException as error:
            self.told(None, error)
            raise

    def told(self, written: RecordMetadata | BulkMetadata | None, error: BaseException | None) -> None:
        if error is not None:
            _fail(self._span, error)
        elif isinstance(written, RecordMetadata):
            self._span.set_attribute(_PARTITION, str(written.partition))
            if written.offset is not None:
                self._span.set_attribute(_OFFSET, written.offset)
        self._span.end()


class Spans:
    def __init__(self, provider: TracerProvider, *, client_id: str, group_id: str | None) -> None:
        self._tracer = provider.get_tracer("semel", __version__)
        self._of_client: dict[str, AttributeValue] = {"messaging.system": "kafka", _CLIENT_ID: client_id}
        if group_id is not None:
            self._of_client[_GROUP] = group_id

    def begin_send(self, topic: str, *, is_tombstone: bool = False, record_count: int | None = None) -> SendSpan:
        """Begin the span of a send. ``record_count`` is for records that are sent together."""
        attributes = self._attributes("send", "send", {_DESTINATION: topic})
        if is_tombstone:
            attributes[_TOMBSTONE] = True
        if record_count is not None:
            attributes[_BATCH_COUNT] = record_count
        return SendSpan(self._tracer.start_span(f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes))

    def injected(self, headers: Headers) -> Headers:
        """Return the headers with the current context."""
        return _injected(headers)

    def received(self, records: Sequence[ConsumerRecord[Any, Any]], began_ns: int) -> None:
        """Record a poll that began at ``began_ns`` and has returned these records."""
        if not records:
            return
        topics = {record.topic for record in records}
        attributes = self._attributes("poll", "receive", {_BATCH_COUNT: len(records)})
        name = "poll"
        if len(topics) == 1:
            name, attributes[_DESTINATION] = f"poll {records[0].topic}", records[0].topic
        links = (Link(sender) for sender in (_sender_of(record.headers) for record in records) if sender.is_valid)
        self._tracer.start_span(
            name,
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=list(islice(links, _LINKS_MAX)),
            start_time=began_ns,
        ).end()

    @contextmanager
    def processing(self, record: ConsumerRecord[Any, Any]) -> Iterator[None]:
        attributes = self._attributes("process", "process", {_DESTINATION: record.topic})
        attributes |= {_PARTITION: str(record.partition), _OFFSET: record.offset}
        if record.value is None:
            attributes[_TOMBSTONE] = True
        context = _context_of(record.headers)
        sender = trace.get_current_span(context).get_span_context()
        is_within = trace.get_current_span().get_span_context().is_valid
        with (
            self._tracer.start_as_current_span(
                f"process {record.topic}",
                context=None if is_within else context,
                kind=SpanKind.CONSUMER,
                attributes=attributes,
                links=[Link(sender)] if sender.is_valid else [],
                record_exception=False,
                set_status_on_exception=False,
            ) as span,
            _failing(span),
        ):
            yield

    @contextmanager
    def processing_batch(
        self, batch_id: int, topics: Collection[str], record_count: int, senders: Iterable[Headers]
    ) -> Iterator[None]:
        """The span of a micro-batch.

        ``senders`` are headers of some of its records: each context in them is linked once.
        """
        attributes = self._attributes("process", "process", {_BATCH_COUNT: record_count, _BATCH_ID: batch_id})
        name = "process"
        if len(topics) == 1:
            (topic,) = topics
            name, attributes[_DESTINATION] = f"process {topic}", topic
        contexts = {(sender.trace_id, sender.span_id): sender for sender in map(_sender_of, senders) if sender.is_valid}
        with (
            self._tracer.start_as_current_span(
                name,
                kind=SpanKind.CONSUMER,
                attributes=attributes,
                links=[Link(context) for context in islice(contexts.values(), _LINKS_MAX)],
                record_exception=False,
                set_status_on_exception=False,
            ) as span,
            _failing(span),
        ):
            yield

    def _attributes(self, name: str, kind: str, more: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
        return {**self._of_client, "messaging.operation.name": name, "messaging.operation.type": kind, **more}


def _injected(headers: Headers, context: Context | None = None) -> Headers:
    """Return the headers with a context, by default the current one, instead of any other; without one, unchanged."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    if not carrier:
        return headers
    kept = (header for header in headers if header[0] not in carrier)
    return (*kept, *((name, text.encode()) for name, text in carrier.items()))


def _context_of(headers: Headers) -> Context:
    """Return the context in the headers of a record; an empty one if there is none that can be read."""
    carrier = {name: text.decode(errors="replace") for name, text in headers if text is not None}
    try:
        return propagate.extract(carrier, Context())
    except Exception:
        # A propagator may raise at what other producers have written, and the record must be returned all the same.
        log.debug("the context in the headers of a record cannot be read", exc_info=True)
        return Context()


def _sender_of(headers: Headers) -> trace.SpanContext:
    return trace.get_current_span(_context_of(headers)).get_span_context()


@contextmanager
def _failing(span: Span) -> Iterator[None]:
    """Record an exception that is raised in this context in the span."""
    try:
        yield
    except BaseException as error:
        _fail(span, error)
        raise


def _fail(span: Span, error: BaseException) -> None:
    span.set_attribute(_ERROR_TYPE, type(error).__qualname__)
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, str(error)))
