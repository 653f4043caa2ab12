"""``pipeline``: a streaming DataFrame, written to Kafka exactly once.

What a start and a batch go through is in docs/design/spark.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from semel.client.config.producer import ProducerConfig
from semel.client.machine.producer.partitioner import Partitioner
from semel.spark.batch import MicroBatches
from semel.spark.checkpoint import Checkpoint, JavaCheckpoint, RemoteCheckpoint
from semel.spark.cluster import Cluster, client_settings
from semel.spark.plan import QueryPlan
from semel.spark.progress import PartitionProgress, PipelineQuery, progress_of
from semel.spark.recovery import Recovery
from semel.spark.redaction import hide_secrets
from semel.spark.refusals import (
    Refused,
    asked_of_spark,
    check_output_mode,
    check_plan,
    check_protocols,
    check_session,
    check_version,
)
from semel.spark.remote import RemoteBatches, is_remote, plan_of
from semel.spark.rewinding import Rewind
from semel.spark.sink.fused import Transform, check_fused
from semel.spark.sink.sink import Reached, Sink, nothing_reached, sink_columns
from semel.spark.sinks.other_sinks import OtherSinks, SinkProgress
from semel.spark.sinks.protocol import BatchSink
from semel.spark.source.options import OUTAGE_TIMEOUT_MS, PREFIX
from semel.spark.source.source import SemelDataSource
from semel.spark.starting import Start

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

TRANSACTION_TIMEOUT_MS: Final = 300_000
# The least that a task waits for brokers: the default of a producer.
_DELIVERY_TIMEOUT_MS: Final = 120_000


def register(spark: SparkSession) -> None:
    """Make ``format("semel")`` known to this session, and keep the secrets of its options out of plans."""
    check_version()
    hide_secrets(spark)
    spark.dataSource.register(SemelDataSource)


def pipeline(
    df: DataFrame,
    *,
    transactional_id: str,
    servers: str,
    checkpoint: str,
    topic: str | None = None,
    output_mode: str = "append",
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    dead_letter_topic: str | None = None,
    partitioner: Partitioner | None = None,
    arrow: Transform | None = None,
    also: Sequence[BatchSink] = (),
    writers: int | None = None,
    attempts: int = 3,
    outage_timeout_ms: int = OUTAGE_TIMEOUT_MS,
    tracer_provider: TracerProvider | None = None,
    reached: Reached = nothing_reached,
    **settings: Any,
) -> Pipeline:
    """A pipeline that writes ``df`` and commits what it consumed, in one transaction for each micro-batch.

    Columns: ``value``; ``key``, ``headers``, ``partition``, ``timestamp`` if there are any; ``topic``, unless the
    argument says it. ``arrow`` is a stateless transform of Arrow batches which runs in the tasks that read and write,
    for a ``df`` that is the source as it was loaded: see ``semel.spark.sink.fused``. ``also`` are sinks beside the
    topic, or instead of it if there is no ``topic``: see ``semel.spark.sinks``. ``trigger`` is what
    ``DataStreamWriter.trigger`` takes. ``writers`` is how many tasks write (default: one if the batch is small,
    else as many as there are slots; no more than partitions), ``attempts`` how often a batch is tried.
    ``outage_timeout_ms`` is how long the pipeline waits for brokers that are away; the source has an option
    ``outageTimeoutMs`` for itself. ``tracer_provider`` is for the span of each batch, instead of OpenTelemetry's global
    one. Other ``settings`` are those of a producer, with underscores:
    ``compression_type="zstd"``; or with Kafka's names behind ``kafka.``, as the source has them:
    ``**{"kafka.security.protocol": "SASL_SSL"}``.
    """
    if "restart_from" in settings:
        raise Refused(
            "there is no restart_from=, which would begin again at every restart of the program. Say it once: "
            "rewind(to) of the pipeline, or semel pipeline rewind FILE --to PLACE"
        )
    settings = {name.removeprefix(PREFIX).replace(".", "_"): value for name, value in settings.items()}
    settings.setdefault("transaction_timeout_ms", TRANSACTION_TIMEOUT_MS)
    settings.setdefault("max_block_ms", outage_timeout_ms)
    settings.setdefault("delivery_timeout_ms", max(outage_timeout_ms, _DELIVERY_TIMEOUT_MS))
    sink = Sink(
        {**settings, "bootstrap_servers": servers, "transactional_id": transactional_id},
        topic,
        dead_letter_topic,
        partitioner,
        reached,
    )
    return Pipeline(
        df,
        sink,
        checkpoint,
        output_mode,
        dict(trigger or {}),
        query_name,
        writers,
        attempts,
        arrow,
        OtherSinks(also),
        tracer_provider,
    )


@dataclass(frozen=True, slots=True)
class Pipeline:
    df: DataFrame
    sink: Sink
    checkpoint: str
    output_mode: str
    trigger: Mapping[str, Any]
    query_name: str | None
    writers: int | None
    attempts: int
    arrow: Transform | None = None
    also: OtherSinks = field(default_factory=OtherSinks)
    tracer_provider: TracerProvider | None = None

    def start(self) -> StreamingQuery:
        """Take over, then start the query. Raises ``Refused``, with what to set, before anything is touched.

        The query's progress names sources and sink: see ``PipelineQuery``. With Spark Connect it is as Spark has it.
        """
        if is_remote(self.df):
            return self._query(RemoteBatches(self._check_query()), self.checkpoint)
        start = self._located()
        batches = start.begin(self._opened_checkpoint(start.checkpoint_location), self.tracer_provider)
        try:
            query = PipelineQuery(
                self._query(batches, start.checkpoint_location),
                sources=[f"semel[{source.subscription}]" for source in start.plan.sources],
                sink=self._sink_name,
                output=batches.output,
                told=batches.tell,
            )
        except BaseException:
            batches.close(timeout_ms=0)
            raise
        threading.Thread(target=_close_after, args=(query, batches), name="semel-pipeline", daemon=True).start()
        return query

    def check(self) -> QueryPlan:
        """What would run. Raises what ``start`` would, which begins with the same checks. Nothing is changed."""
        start = self._located()
        with Cluster(**client_settings(self.sink.settings)) as cluster:
            start.check(cluster, self._opened_checkpoint(start.checkpoint_location))
        return start.plan

    def recover(self, *, is_written: bool | None = None) -> Recovery:
        """What is known of a pipeline that does not start because of its checkpoint and its group's offsets.

        ``is_written`` says whether the last batch was written, if only the user can know: then the offsets are set, and
        the next start goes on. Nothing is changed without it.
        """
        start = self._located()
        return start.recover(self._opened_checkpoint(start.checkpoint_location), is_written=is_written)

    def rewind(self, to: str, *, is_confirmed: bool = False) -> Rewind:
        """What would be read and written again if the pipeline began again at ``to``; with ``is_confirmed`` it does so.

        ``to`` is ``earliest``, ``latest``, a time (``2026-01-31T12:00:00Z``) or offsets as ``startingOffsets`` has
        them. The next start begins a new generation: a new checkpoint, and ledgers that know of nothing written. A
        driver that still runs is superseded.
        """
        if is_remote(self.df):
            raise Refused("rewind is not there with Spark Connect: use a classic session")
        return self._check_query().rewind(self._opened_checkpoint(self.checkpoint), to, is_confirmed=is_confirmed)

    def progress(self) -> list[PartitionProgress]:
        """For each partition that is read: how far it is committed, how far it is stable, and the lag between."""
        with Cluster(**client_settings(self.sink.settings)) as cluster:
            return progress_of(plan_of(self.df).sources, cluster)

    def sink_progress(self) -> list[SinkProgress]:
        """For each of the last batches here, and each sink of ``also``: rows, time, and whether it was skipped."""
        return self.also.recent

    def metrics(self) -> dict[str, float]:
        """Totals of each sink of ``also``, since this pipeline was made: see docs/spark.md.

        print(report.metrics()["sink.postgres:totals.rows-total"])
        """
        return self.also.metrics()

    def _located(self) -> Start:
        """The start in the generation in which the pipeline is."""
        start = self._check_query()
        return start if is_remote(self.df) else start.in_generation(self._opened_checkpoint(self.checkpoint))

    def _check_query(self) -> Start:
        check_version()
        plan = plan_of(self.df)
        check_plan(plan)
        if self._writes_topic:
            sink_columns(self.df.columns, self.sink)
        if self.arrow is not None:
            check_fused(self.df, self.sink)
        ProducerConfig.load(self.sink.settings)
        check_protocols(plan.sources, self.sink.settings)
        self._writer(self.checkpoint)
        if not is_remote(self.df):
            check_output_mode(self.df, self.output_mode)
        slots = check_session(self.df.sparkSession, self.writers)
        self._check_sinks()
        if self.tracer_provider is not None and is_remote(self.df):
            raise Refused("tracer_provider= is not there with Spark Connect: use a classic session")
        return Start(
            plan, self.sink, self.checkpoint, self.df.columns, slots, self.writers, self.attempts, self.arrow, self.also
        )

    @property
    def _sink_name(self) -> str:
        """What Spark's progress calls the sink."""
        names = [name for name in (self.sink.topic, *self.also.names) if name is not None]
        return f"semel[{', '.join(names)}]" if names else "semel"

    @property
    def _writes_topic(self) -> bool:
        """Rows choose their topic only if there are no other sinks: a stray column ``topic`` is no wish to write."""
        return self.sink.topic is not None or not self.also

    def _check_sinks(self) -> None:
        if not self.also:
            return
        if self.arrow is not None:
            raise Refused("arrow= writes to a topic alone: leave out also=, or transform with Spark's functions")
        if is_remote(self.df):
            raise Refused("also= is not there with Spark Connect: use a classic session")
        self.also.check(self.df, has_topic=self._writes_topic)

    def _query(self, batches: Callable[[DataFrame, int], None], location: str) -> StreamingQuery:
        return self._writer(location).foreachBatch(batches).start()

    def _writer(self, location: str) -> DataStreamWriter:
        """Raises ``Refused`` for settings of the query that Spark does not take."""
        writer = self.df.writeStream.option("checkpointLocation", location)
        asked_of_spark(f"output_mode={self.output_mode!r}", lambda: writer.outputMode(self.output_mode))
        if self.trigger:
            asked_of_spark(f"trigger={dict(self.trigger)}", lambda: writer.trigger(**self.trigger))
        if self.query_name is not None:
            name = self.query_name
            asked_of_spark(f"query_name={name!r}", lambda: writer.queryName(name))
        return writer

    def _opened_checkpoint(self, location: str) -> Checkpoint:
        checkpoint = RemoteCheckpoint if is_remote(self.df) else JavaCheckpoint
        return checkpoint(self.df.sparkSession, location)


def _close_after(query: StreamingQuery, batches: MicroBatches) -> None:
    """An open transaction is aborted when its query ends, so that no reader waits for its timeout."""
    try:
        query.awaitTermination()
    except Exception:
        pass  # The query itself tells the code that started it.
    finally:
        batches.close(timeout_ms=5_000)
