"""The spans of a poll and of a micro-batch, as OpenTelemetry's conventions for messaging have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from opentelemetry import propagate
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from semel.client.tracing.tracer_provider import spans_of
from semel.client.values import ConsumerRecord
from semel.wire.records import Headers


def sent_by(span_id: int) -> Headers:
    return (("traceparent", f"00-{7:032x}-{span_id:016x}-01".encode()),)


def batch_span(senders: Iterable[Headers], *, topics: Iterable[str] = ("orders",), fails: bool = False) -> ReadableSpan:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = spans_of(provider, client_id="job", group_id="totals")
    assert spans is not None
    try:
        with spans.processing_batch(3, set(topics), 10, senders):
            if fails:
                raise KeyError("x")
    except KeyError:
        pass
    (span,) = exporter.get_finished_spans()
    return span


def links(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def test_a_batch_is_named_after_its_topic_and_links_each_sender_once() -> None:
    span = batch_span([sent_by(1), sent_by(2), (), sent_by(1), (("traceparent", b"\xff"),)])
    expected: dict[str, Any] = {
        "messaging.system": "kafka",
        "messaging.client.id": "job",
        "messaging.consumer.group.name": "totals",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.batch.message_count": 10,
        "messaging.destination.name": "orders",
        "semel.batch.id": 3,
    }
    assert (span.name, span.kind, dict(span.attributes or {})) == ("process orders", SpanKind.CONSUMER, expected)
    assert links(span) == [1, 2]
    assert span.status.status_code is StatusCode.UNSET


def test_the_links_of_a_batch_are_bounded() -> None:
    assert links(batch_span(sent_by(number) for number in range(1, 1_000))) == list(range(1, 129))


@pytest.mark.parametrize("topics", [(), ("orders", "returns")])
def test_a_batch_of_several_topics_has_the_name_of_none(topics: tuple[str, ...]) -> None:
    span = batch_span([], topics=topics)
    assert span.name == "process"
    assert "messaging.destination.name" not in (span.attributes or {})


def test_a_batch_that_fails_says_so() -> None:
    span = batch_span([], fails=True)
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "KeyError"


class Raising(TextMapPropagator):
    """A propagator that cannot read what it is given."""

    def extract(self, carrier: Any, context: Any = None, getter: Any = None) -> Any:
        raise ValueError("not a trace id")

    def inject(self, carrier: Any, context: Any = None, setter: Any = None) -> None:
        pass

    @property
    def fields(self) -> set[str]:
        return set()


@pytest.fixture
def raising_propagator() -> Iterator[None]:
    usual = propagate.get_global_textmap()
    propagate.set_global_textmap(Raising())
    yield
    propagate.set_global_textmap(usual)


@pytest.mark.usefixtures("raising_propagator")
def test_headers_that_a_propagator_cannot_read_do_not_keep_a_record_from_the_application() -> None:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = spans_of(provider, client_id="job", group_id="totals")
    assert spans is not None
    record = ConsumerRecord("orders", 0, 7, 0, b"k", b"v", (("uber-trace-id", b"x"),))
    spans.received([record], 1)
    with spans.processing(record):
        pass
    assert [span.name for span in exporter.get_finished_spans()] == ["poll orders", "process orders"]
