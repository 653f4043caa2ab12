"""Spans of OpenTelemetry, as its conventions for messaging have them, and contexts that travel with records."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from semel import Consumer as AsyncConsumer
from semel import ConsumerRecord, blocking
from semel import Producer as AsyncProducer
from semel.errors import AbortableError
from semel.testing import Broker
from tools.patience import PATIENCE_MS, PATIENCE_S

READ = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=1, group_initial_rebalance_delay_ms=0) as running:
        yield running


class Traces:
    """A tracer provider, and what was exported of it."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("application")

    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        (span,) = [span for span in self.spans() if span.name == name]
        return span


@pytest.fixture
def traces() -> Traces:
    return Traces()


def read(broker: Broker, topic: str, count: int = 1, **settings: Any) -> list[ConsumerRecord]:
    with blocking.Consumer(bootstrap_servers=broker.bootstrap_servers, **{**READ, **settings}) as consumer:
        consumer.assign([(topic, 0)])
        records: list[ConsumerRecord] = []
        while len(records) < count:
            records += consumer.poll(PATIENCE_MS)
    return records


def traceparent(span: ReadableSpan) -> bytes:
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}".encode()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_send_is_a_span_until_its_acknowledgement_and_its_context_is_in_the_headers(
    broker: Broker, traces: Traces
) -> None:
    with (
        blocking.Producer(
            bootstrap_servers=broker.bootstrap_servers, client_id="shop", tracer_provider=traces.provider
        ) as producer,
        traces.tracer.start_as_current_span("order") as order,
    ):
        stale = [("traceparent", b"00-1-1-01"), ("from", b"shop")]
        producer.send("sent", b"1", headers=stale).result(PATIENCE_S)
    span = traces.named("send sent")
    assert span.kind is SpanKind.PRODUCER
    assert span.parent == order.get_span_context()
    assert attributes(span) == {
        "messaging.system": "kafka",
        "messaging.client.id": "shop",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "sent",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
    }
    (record,) = read(broker, "sent")
    assert record.headers == (("from", b"shop"), ("traceparent", traceparent(span)))


def test_a_trace_goes_on_behind_the_broker(broker: Broker, traces: Traces) -> None:
    async def run() -> None:
        servers, provider = broker.bootstrap_servers, traces.provider
        async with AsyncProducer(bootstrap_servers=servers, tracer_provider=provider) as producer:
            await producer.send("traced", None, b"k")
        async with AsyncConsumer(
            bootstrap_servers=servers, group_id="traced", tracer_provider=provider, **READ
        ) as consumer:
            consumer.assign([("traced", 0)])
            (record,) = await consumer.poll(PATIENCE_MS)
            with consumer.processing(record):
                traces.tracer.start_span("work").end()

    asyncio.run(run())
    sent, polled, processed = (traces.named(f"{name} traced") for name in ("send", "poll", "process"))
    assert polled.kind is SpanKind.CLIENT
    assert [link.context for link in polled.links] == [processed.parent]
    assert attributes(polled)["messaging.batch.message_count"] == 1
    assert attributes(polled)["messaging.consumer.group.name"] == "traced"
    assert processed.kind is SpanKind.CONSUMER
    assert processed.parent is not None
    assert (processed.parent.trace_id, processed.parent.span_id) == (sent.context.trace_id, sent.context.span_id)
    assert attributes(processed) == {
        "messaging.system": "kafka",
        "messaging.client.id": "semel",
        "messaging.consumer.group.name": "traced",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "traced",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
        "messaging.kafka.message.tombstone": True,
    }
    assert traces.named("work").parent == processed.context


def test_a_processing_within_a_span_is_its_child_and_links_to_the_sender(broker: Broker, traces: Traces) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, tracer_provider=traces.provider) as producer:
        producer.send("within", b"1")
    with (
        blocking.Consumer(
            bootstrap_servers=broker.bootstrap_servers, tracer_provider=traces.provider, **READ
        ) as consumer,
        traces.tracer.start_as_current_span("batch") as batch,
    ):
        consumer.assign([("within", 0)])
        (record,) = consumer.poll(PATIENCE_MS)
        with pytest.raises(KeyError), consumer.processing(record):
            raise KeyError("x")
    span = traces.named("process within")
    assert span.parent == batch.get_span_context()
    assert [link.context.span_id for link in span.links] == [traces.named("send within").context.span_id]
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error.type"] == "KeyError"


def test_many_at_once_are_one_span_and_carry_the_callers_context(broker: Broker, traces: Traces) -> None:
    with (
        blocking.Producer(bootstrap_servers=broker.bootstrap_servers, tracer_provider=traces.provider) as producer,
        traces.tracer.start_as_current_span("batch"),
    ):
        producer.send_many("bulk", (value for value in (b"1", b"2")), headers=[{"a": b"b"}, {}]).result(PATIENCE_S)
        producer.send_many("bulk", [b"3"]).result(PATIENCE_S)
    spans = [span for span in traces.spans() if span.name == "send bulk"]
    assert [attributes(span)["messaging.batch.message_count"] for span in spans] == [2, 1]
    context = ("traceparent", traceparent(traces.named("batch")))
    assert [record.headers for record in read(broker, "bulk", 3)] == [(("a", b"b"), context), (context,), (context,)]


def test_what_was_not_sent_ends_its_span_with_the_error(broker: Broker, traces: Traces) -> None:
    with blocking.Producer(
        bootstrap_servers=broker.bootstrap_servers, tracer_provider=traces.provider, max_request_size=1_000
    ) as producer:
        with pytest.raises(AbortableError):
            producer.send("failed", bytes(2_000))
        with pytest.raises(TypeError):
            producer.send("failed", 7)
        producer.send("failed", b"1", partition=9).exception(PATIENCE_S)
    failed = [span for span in traces.spans() if span.name == "send failed"]
    assert [attributes(span)["error.type"] for span in failed] == ["AbortableError", "TypeError", "AbortableError"]
    assert {span.status.status_code for span in failed} == {StatusCode.ERROR}


def test_outputs_of_a_processing_are_its_children_and_a_dead_letter_keeps_its_context(
    broker: Broker, traces: Traces
) -> None:
    servers, provider = broker.bootstrap_servers, traces.provider
    with blocking.Producer(bootstrap_servers=servers, tracer_provider=provider) as producer:
        producer.send_many("numbers", [b"1"])
        producer.send("numbers", b"two")
    with (
        blocking.Producer(bootstrap_servers=servers, transactional_id="traced", tracer_provider=provider) as producer,
        blocking.Consumer(bootstrap_servers=servers, group_id="numbers", **READ) as consumer,
    ):
        consumer.assign([("numbers", 0)])
        records: list[ConsumerRecord] = []
        while len(records) < 2:
            records += consumer.poll(PATIENCE_MS)
        with producer.transaction(consumer=consumer, dead_letter="numbers.dlq"):
            for record in records:
                with producer.processing(record) as output:
                    output.send("doubled", str(2 * int(record.value or b"")).encode())
    good, bad = [span for span in traces.spans() if span.name == "process numbers"]
    assert traces.named("send doubled").parent == good.context
    assert traces.named("send numbers.dlq").parent == bad.context
    assert attributes(bad)["error.type"] == "ValueError"
    assert good.status.status_code is StatusCode.UNSET
    (output_record,) = read(broker, "doubled", isolation_level="read_committed")
    assert output_record.headers == (("traceparent", traceparent(good)),)
    (letter,) = read(broker, "numbers.dlq", isolation_level="read_committed")
    assert dict(letter.headers)["traceparent"] == dict(records[1].headers)["traceparent"]


@pytest.mark.parametrize("headers", [{}, {"traceparent": b"\xff\xfe"}, {"traceparent": None}])
def test_a_record_without_a_context_that_can_be_read_begins_a_trace(
    broker: Broker, traces: Traces, headers: dict[str, bytes | None], request: pytest.FixtureRequest
) -> None:
    topic = f"without-{request.node.callspec.indices['headers']}"
    with blocking.Producer(
        bootstrap_servers=broker.bootstrap_servers, tracer_provider=trace.NoOpTracerProvider()
    ) as producer:
        producer.send(topic, b"1", headers=headers)
    with blocking.Consumer(
        bootstrap_servers=broker.bootstrap_servers, tracer_provider=traces.provider, **READ
    ) as consumer:
        consumer.assign([(topic, 0)])
        (record,) = consumer.poll(PATIENCE_MS)
        assert dict(record.headers) == headers
        with consumer.processing(record):
            pass
    assert [(span.parent, list(span.links)) for span in traces.spans()] == [(None, [])] * 2


def test_an_application_without_a_provider_imports_nothing_and_has_no_spans() -> None:
    program = """
import sys
from semel.blocking import Consumer, Producer
with Producer(bootstrap_servers="127.0.0.1:1") as producer, Consumer(bootstrap_servers="127.0.0.1:1") as consumer:
    assert producer._send_queue._spans is consumer._session.spans is None
assert not any(name.startswith("opentelemetry") for name in sys.modules)
from opentelemetry import trace
with Producer(bootstrap_servers="127.0.0.1:1") as producer:
    assert producer._send_queue._spans is None and not producer._send_queue._has_hooks
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
with Producer(bootstrap_servers="127.0.0.1:1") as producer:
    assert producer._send_queue._spans is not None
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
