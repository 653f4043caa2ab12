"""The public interface of pipelines: ``pipeline`` writes a streaming DataFrame to Kafka exactly once.

docs/design/spark.md has the steps of a start and of a batch.
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
from semel.settings import SettingError
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
    check_query_name,
    check_session,
    check_trigger,
    check_version,
    refusing,
)
from semel.spark.remote import RemoteBatches, is_remote, plan_of
from semel.spark.rewinding import Rewind
from semel.spark.sink.fused import Transform, check_fused
from semel.spark.sink.sink import Sink, StepHook, no_step_hook, sink_columns
from semel.spark.sinks.protocol import BatchSink
from semel.spark.sinks.side_sinks import SideSinks, SinkProgress
from semel.spark.source.options import OUTAGE_TIMEOUT_MS, PREFIX
from semel.spark.source.source import SemelDataSource
from semel.spark.starting import Start

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

TRANSACTION_TIMEOUT_MS: Final = 300_000
# A task waits for brokers at least as long as a producer does by default.
_DELIVERY_TIMEOUT_MS: Final = 120_000


def register(spark: SparkSession) -> None:
    """Register ``format("semel")`` with this session, and hide the secrets among its options in plans."""
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
    reached: StepHook = no_step_hook,
    **settings: Any,
) -> Pipeline:
    """A pipeline that writes ``df`` and commits what it consumed, in one transaction for each micro-batch.

    ``df`` has a column ``value``; optional columns ``key``, ``headers``, ``partition``, ``timestamp``; and a column
    ``topic`` if the argument ``topic`` is not set. ``arrow`` is a stateless transform of Arrow batches which runs in
    the tasks that read and write. It requires a ``df`` that is the source as it was loaded: see
    ``semel.spark.sink.fused``. ``also`` are sinks beside the topic, or instead of it if there is no ``topic``: see
    ``semel.spark.sinks``. ``trigger`` has the arguments of ``DataStreamWriter.trigger``. ``writers`` is how many tasks
    write (default: one if the batch is small, else as many as there are slots; no more than partitions), ``attempts``
    how often a batch is tried. ``outage_timeout_ms`` is how long the pipeline waits for brokers that are away; the
    source has its own option ``outageTimeoutMs``. ``tracer_provider`` makes the span of each batch, instead of
    OpenTelemetry's global one. ``reached`` is called at each step of a batch, for tests. Other ``settings`` are those
    of a producer, with underscores: ``compression_type="zstd"``; or with Kafka's names behind ``kafka.``, as the source
    has them: ``**{"kafka.security.protocol": "SASL_SSL"}``.
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
        SideSinks(also),
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
    also: SideSinks = field(default_factory=SideSinks)
    tracer_provider: TracerProvider | None = None

    @refusing(SettingError)
    def start(self) -> StreamingQuery:
        """Take over the transactional id and the groups, then start the query.

        Raises ``Refused``, with what to set: all checks are made before anything is changed, and those of the
        checkpoint and the offsets once more after the take-over. Raises ``KafkaError`` for what the brokers refuse, and
        if they do not answer. The query's progress names sources and sink: see ``PipelineQuery``. With Spark Connect
        the progress is Spark's own, and so is the error if the server's process refuses the start.
        """
        check_query_name(self.df.sparkSession, self.query_name)
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
                on_failure=batches.log_failure,
            )
        except BaseException:
            batches.close(timeout_ms=0)
            raise
        threading.Thread(target=_close_after, args=(query, batches), name="semel-pipeline", daemon=True).start()
        return query

    @refusing(SettingError)
    def check(self) -> QueryPlan:
        """Check the pipeline as ``start`` does, and return the plan of its query. Nothing is changed.

        Raises what these checks would raise in ``start``.
        """
        check_query_name(self.df.sparkSession, self.query_name)
        start = self._located()
        with Cluster(**client_settings(self.sink.settings)) as cluster:
            start.check(cluster, self._opened_checkpoint(start.checkpoint_location))
        return start.plan

    @refusing(SettingError)
    def recover(self, *, is_written: bool | None = None) -> Recovery:
        """Return what is known of a pipeline that does not start because of its checkpoint and its group's offsets.

        ``is_written`` is the user's answer to whether the last batch was written: with it the offsets are set, and the
        next start continues from them. Without it nothing is changed.
        """
        start = self._located()
        return start.recover(self._opened_checkpoint(start.checkpoint_location), is_written=is_written)

    @refusing(SettingError)
    def rewind(self, to: str, *, is_confirmed: bool = False) -> Rewind:
        """Return what would be read and written again if the pipeline began again at ``to``. With ``is_confirmed`` the
        pipeline is rewound to there.

        ``to`` is ``earliest``, ``latest``, a time (``2026-01-31T12:00:00Z``) or offsets as in ``startingOffsets``. The
        start after a rewind begins a new generation, with a new checkpoint, in which the ledgers count no batch as
        written. A driver that still runs is superseded.
        """
        if is_remote(self.df):
            raise Refused("rewind is not there with Spark Connect: use a classic session")
        return self._check_query().rewind(self._opened_checkpoint(self.checkpoint), to, is_confirmed=is_confirmed)

    def progress(self, *, timeout_ms: int | None = None) -> list[PartitionProgress]:
        """Return, for each partition that is read, the committed offset, the last stable offset and the lag.

        Raises ``TimedOut`` if brokers do not answer for so long, by default for ``outage_timeout_ms``.
        """
        settings = client_settings(self.sink.settings)
        if timeout_ms is not None:
            settings["default_api_timeout_ms"] = timeout_ms
        with Cluster(**settings) as cluster:
            return progress_of(plan_of(self.df).sources, cluster)

    def sink_progress(self) -> list[SinkProgress]:
        """Return, for each of the last batches that ran here and each sink of ``also``, the number of rows, the time,
        and whether the batch was skipped."""
        return self.also.recent

    def metrics(self) -> dict[str, float]:
        """Return totals of each sink of ``also``, since this object was created: see docs/spark.md.

        print(report.metrics()["sink.postgres:totals.rows-total"])
        """
        return self.also.metrics()

    def _located(self) -> Start:
        """Return the start of this pipeline in its present generation."""
        start = self._check_query()
        return start if is_remote(self.df) else start.in_generation(self._opened_checkpoint(self.checkpoint))

    def _check_query(self) -> Start:
        check_version()
        with refusing(ValueError):
            plan = plan_of(self.df)
        check_plan(plan)
        if self._writes_topic:
            with refusing(ValueError):
                sink_columns(self.df.columns, self.sink)
        if self.attempts < 1:
            raise Refused(f"attempts={self.attempts}; it is at least 1")
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
        """The name of the sink in Spark's progress."""
        names = [name for name in (self.sink.topic, *self.also.names) if name is not None]
        return f"semel[{', '.join(names)}]" if names else "semel"

    @property
    def _writes_topic(self) -> bool:
        """Whether the pipeline writes to Kafka topics at all.

        If there are other sinks, only the argument ``topic`` says so: a column ``topic`` may be data for them.
        """
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
        """Return a writer with the query's settings. Raises ``Refused`` for settings that Spark does not accept."""
        writer = self.df.writeStream.option("checkpointLocation", location)
        asked_of_spark(f"output_mode={self.output_mode!r}", lambda: writer.outputMode(self.output_mode))
        if self.trigger:
            check_trigger(self.trigger)
            asked_of_spark(f"trigger={dict(self.trigger)}", lambda: writer.trigger(**self.trigger))
        if self.query_name is not None:
            name = self.query_name
            asked_of_spark(f"query_name={name!r}", lambda: writer.queryName(name))
        return writer

    def _opened_checkpoint(self, location: str) -> Checkpoint:
        checkpoint = RemoteCheckpoint if is_remote(self.df) else JavaCheckpoint
        return checkpoint(self.df.sparkSession, location)


def _close_after(query: StreamingQuery, batches: MicroBatches) -> None:
    """Wait until the query ends, then close its clients.

    This aborts an open transaction at once, so that readers do not wait for its timeout.
    """
    try:
        query.awaitTermination()
    except Exception:
        pass  # The code that started the query gets the error from the query.
    finally:
        batches.close(timeout_ms=5_000)
