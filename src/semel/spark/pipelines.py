"""``pipeline``: a streaming DataFrame, written to Kafka exactly once.

What a start and a batch go through is in docs/design/spark.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from semel.client.config.producer import ProducerConfig
from semel.client.machine.producer.partitioner import Partitioner
from semel.spark.batch import MicroBatches
from semel.spark.checkpoint import Checkpoint, JavaCheckpoint, RemoteCheckpoint
from semel.spark.cluster import Cluster, client_settings
from semel.spark.plan import QueryPlan
from semel.spark.progress import PartitionProgress, progress_of
from semel.spark.refusals import asked_of_spark, check_output_mode, check_plan, check_session, check_version
from semel.spark.remote import RemoteBatches, is_remote, plan_of
from semel.spark.sink.fused import Transform, check_fused
from semel.spark.sink.sink import Reached, Sink, nothing_reached, sink_columns
from semel.spark.source.source import SemelDataSource
from semel.spark.starting import Start

TRANSACTION_TIMEOUT_MS: Final = 300_000


def register(spark: SparkSession) -> None:
    """Make ``format("semel")`` known to this session."""
    check_version()
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
    writers: int | None = None,
    attempts: int = 3,
    reached: Reached = nothing_reached,
    **settings: Any,
) -> Pipeline:
    """A pipeline that writes ``df`` and commits what it consumed, in one transaction for each micro-batch.

    Columns: ``value``; ``key``, ``headers``, ``partition``, ``timestamp`` if there are any; ``topic``, unless the
    argument says it. ``arrow`` is a stateless transform of Arrow batches which runs in the tasks that read and write,
    for a ``df`` that is the source as it was loaded: see ``semel.spark.sink.fused``. ``trigger`` is what
    ``DataStreamWriter.trigger`` takes. ``writers`` is how many tasks write (default: one if the batch is small,
    else as many as there are slots; no more than partitions), ``attempts`` how often a batch is tried. Other
    ``settings`` are those of a producer, with underscores: ``compression_type="zstd"``.
    """
    settings.setdefault("transaction_timeout_ms", TRANSACTION_TIMEOUT_MS)
    sink = Sink(
        {**settings, "bootstrap_servers": servers, "transactional_id": transactional_id},
        topic,
        dead_letter_topic,
        partitioner,
        reached,
    )
    return Pipeline(df, sink, checkpoint, output_mode, dict(trigger or {}), query_name, writers, attempts, arrow)


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

    def start(self) -> StreamingQuery:
        """Take over, then start the query. Raises ``Refused``, with what to set, before anything is touched."""
        start = self._check_query()
        if is_remote(self.df):
            return self._query(RemoteBatches(start))
        batches = start.begin(self._opened_checkpoint())
        try:
            query = self._query(batches)
        except BaseException:
            batches.close(timeout_ms=0)
            raise
        threading.Thread(target=_close_after, args=(query, batches), name="semel-pipeline", daemon=True).start()
        return query

    def check(self) -> QueryPlan:
        """What would run. Raises what ``start`` would, which begins with the same checks. Nothing is changed."""
        start = self._check_query()
        with Cluster(**client_settings(self.sink.settings)) as cluster:
            start.check(cluster, self._opened_checkpoint())
        return start.plan

    def progress(self) -> list[PartitionProgress]:
        """For each partition that is read: how far it is committed, how far it is stable, and the lag between."""
        with Cluster(**client_settings(self.sink.settings)) as cluster:
            return progress_of(plan_of(self.df).sources, cluster)

    def _check_query(self) -> Start:
        check_version()
        plan = plan_of(self.df)
        check_plan(plan)
        sink_columns(self.df.columns, self.sink)
        if self.arrow is not None:
            check_fused(self.df, self.sink)
        ProducerConfig.load(self.sink.settings)
        self._writer()
        if not is_remote(self.df):
            check_output_mode(self.df, self.output_mode)
        slots = check_session(self.df.sparkSession, self.writers)
        return Start(
            plan, self.sink, self.checkpoint, self.df.columns, slots, self.writers, self.attempts, arrow=self.arrow
        )

    def _query(self, batches: Callable[[DataFrame, int], None]) -> StreamingQuery:
        return self._writer().foreachBatch(batches).start()

    def _writer(self) -> DataStreamWriter:
        """Raises ``Refused`` for settings of the query that Spark does not take."""
        writer = self.df.writeStream.option("checkpointLocation", self.checkpoint)
        asked_of_spark(f"output_mode={self.output_mode!r}", lambda: writer.outputMode(self.output_mode))
        if self.trigger:
            asked_of_spark(f"trigger={dict(self.trigger)}", lambda: writer.trigger(**self.trigger))
        if self.query_name is not None:
            name = self.query_name
            asked_of_spark(f"query_name={name!r}", lambda: writer.queryName(name))
        return writer

    def _opened_checkpoint(self) -> Checkpoint:
        checkpoint = RemoteCheckpoint if is_remote(self.df) else JavaCheckpoint
        return checkpoint(self.df.sparkSession, self.checkpoint)


def _close_after(query: StreamingQuery, batches: MicroBatches) -> None:
    """An open transaction is aborted when its query ends, so that no reader waits for its timeout."""
    try:
        query.awaitTermination()
    except Exception:
        pass  # The query itself tells the code that started it.
    finally:
        batches.close(timeout_ms=5_000)
