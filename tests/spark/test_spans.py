"""The span of a micro-batch: it links to those that sent the batch's records."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider, StatusCode
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from semel.blocking import Producer
from semel.spark.cluster import Cluster
from semel.spark.source.reading import first_headers
from semel.spark.source.splits import Split
from semel.testing import Broker
from semel.types import TopicPartition
from tests.spark.jobs import copied, fails_at, run, source
from tests.spark.topics import create, values


class Traces:
    """A tracer provider, and what was exported of it."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


def test_a_batch_is_a_span_that_links_its_inputs(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    traces = Traces()
    create(broker, "in", "out")
    with Producer(bootstrap_servers=broker.bootstrap_servers, tracer_provider=traces.provider) as producer:
        for number in range(4):
            producer.send("in", b"%d" % number, partition=number % 2).result()
    with pytest.raises(StreamingQueryException, match="failed at 'written' of batch 0"):
        run(
            copied(source(spark, broker)),
            broker,
            tmp_path / "checkpoint",
            tracer_provider=traces.provider,
            reached=fails_at("written", 0),
            attempts=1,
        )
    run(copied(source(spark, broker)), broker, tmp_path / "checkpoint", tracer_provider=traces.provider)
    assert values(broker, "out") == [0, 1, 2, 3]
    failed, done = traces.named("process in")
    assert failed.status.status_code is StatusCode.ERROR
    assert done.status.status_code is StatusCode.UNSET
    attributes = dict(done.attributes or {})
    assert attributes["messaging.consumer.group.name"] == "jobs"
    assert (attributes["messaging.batch.message_count"], attributes["semel.batch.id"]) == (4, 0)
    sent = {span.context.span_id for span in traces.named("send in")}
    assert len(sent) == 4
    assert {link.context.span_id for link in done.links} == {link.context.span_id for link in failed.links} == sent


def test_a_provider_that_makes_no_spans_turns_them_off(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    create(broker, "in", "out")
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("in", b"1").result()
    run(copied(source(spark, broker)), broker, tmp_path / "checkpoint", tracer_provider=NoOpTracerProvider())
    assert values(broker, "out") == [1]


def test_the_first_records_of_all_partitions_are_looked_at_alike_and_their_number_is_bounded(broker: Broker) -> None:
    create(broker, "in")
    first, second = TopicPartition("in", 0), TopicPartition("in", 1)
    servers = broker.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer, Cluster(bootstrap_servers=servers) as cluster:
        for number in range(20):
            producer.send("in", b"v", partition=0, headers={"number": b"%d" % number}).result()
        producer.send("in", b"v", partition=1, headers={"other": None}).result()
        splits = [Split(first, 5, 20), Split(second, 0, 1), Split(second, 1, 1), Split(first, 90, 99)]
        found = first_headers(splits, cluster, count_max=9)
        assert found == [*((("number", b"%d" % number),) for number in (5, 6, 7)), (("other", None),)]
        assert len(first_headers(splits, cluster, count_max=2)) == 2
        assert first_headers([], cluster, count_max=9) == []


def test_a_pipeline_without_a_provider_imports_nothing_of_opentelemetry() -> None:
    program = """
import sys
import semel.spark.pipelines
assert not any(name.startswith("opentelemetry") for name in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
