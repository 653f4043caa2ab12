"""``pipeline``: a streaming DataFrame, written to Kafka exactly once.

``start`` takes over the transactional id first and reads the group's offsets then: in this order nothing that an older
driver does can come in between. What a start and a batch go through is in docs/design/spark.md.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from semel.blocking import Producer
from semel.client.machine.partitioner import Partitioner
from semel.client.values import OffsetAndMetadata
from semel.errors import ErrorCode, KafkaError
from semel.spark.batch import MicroBatches
from semel.spark.checkpoint import Checkpoint
from semel.spark.cluster import Cluster, client_settings
from semel.spark.decision import Note, Place
from semel.spark.fused import Transform, check_fused
from semel.spark.plan import QueryPlan
from semel.spark.progress import PartitionProgress, progress_of
from semel.spark.refusals import (
    Refused,
    check_classic,
    check_clusters,
    check_group_is_free,
    check_plan,
    check_session,
    check_version,
)
from semel.spark.sink import Reached, Sink, nothing_reached, sink_columns
from semel.spark.source import SemelDataSource, starting_offsets

TRANSACTION_TIMEOUT_MS: Final = 300_000

_FIRST_BATCH: Final = -1


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
    for a ``df`` that is the source as it was loaded: see ``semel.spark.fused``. ``trigger`` is what
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
        plan = self._check_query()
        slots = check_session(self.df.sparkSession, self.writers)
        cluster = Cluster(**client_settings(self.sink.settings))
        owner: Producer | None = None
        try:
            self._check_cluster(plan, cluster)
            owner = self._take_over()
            checkpoint = Checkpoint(self.df.sparkSession, self.checkpoint)
            committed = self._committed(plan, cluster, checkpoint, owner)
            batches = MicroBatches(
                plan=plan,
                sink=self.sink,
                owner=owner,
                cluster=cluster,
                checkpoint=checkpoint,
                committed=committed,
                columns=self.df.columns,
                slots=slots,
                writers=self.writers,
                attempts=self.attempts,
                arrow=self.arrow,
            )
            query: StreamingQuery = self._writer(batches).start()
        except BaseException:
            if owner is not None:
                owner.close(timeout_ms=0)
            cluster.close()
            raise
        threading.Thread(target=_close_after, args=(query, owner, cluster), name="semel-pipeline", daemon=True).start()
        return query

    def check(self) -> QueryPlan:
        """What would run. Raises ``Refused`` as ``start`` would, as far as that can be seen without taking over."""
        plan = self._check_query()
        check_session(self.df.sparkSession, self.writers)
        with Cluster(**client_settings(self.sink.settings)) as cluster:
            self._check_cluster(plan, cluster)
        return plan

    def progress(self) -> list[PartitionProgress]:
        """For each partition that is read: how far it is committed, how far it is stable, and the lag between."""
        sources = QueryPlan.of(self.df).sources
        with Cluster(**client_settings(self.sink.settings)) as cluster:
            return progress_of(sources, cluster)

    def _check_query(self) -> QueryPlan:
        check_version()
        check_classic(self.df)
        plan = QueryPlan.of(self.df)
        check_plan(plan)
        sink_columns(self.df.columns, self.sink)
        if self.arrow is not None:
            check_fused(self.df, self.sink)
        return plan

    def _check_cluster(self, plan: QueryPlan, cluster: Cluster) -> None:
        check_clusters(plan.sources, cluster)
        wanted = [name for name in (self.sink.topic, self.sink.dead_letter_topic) if name is not None]
        missing = cluster.topics(wanted).missing if wanted else ()
        if missing:
            raise Refused(f"there is no topic {', '.join(map(repr, missing))} to write to: create it first")
        for group_id in {source.group_id for source in plan.sources if source.group_id is not None}:
            check_group_is_free(group_id, cluster)

    def _take_over(self) -> Producer:
        owner = Producer(**self.sink.settings)
        try:
            owner.init()
        except KafkaError as error:
            owner.close(timeout_ms=0)
            if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise Refused(
                    f"transaction_timeout_ms={self.sink.settings['transaction_timeout_ms']} is more than the broker's "
                    "transaction.max.timeout.ms: lower the one, or raise the other"
                ) from error
            raise
        except BaseException:
            owner.close(timeout_ms=0)
            raise
        return owner

    def _committed(
        self, plan: QueryPlan, cluster: Cluster, checkpoint: Checkpoint, owner: Producer
    ) -> dict[Place, OffsetAndMetadata]:
        """C; and if no batch was planned yet, with where batch 0 begins noted for all partitions that are there."""
        last_batch_id = checkpoint.last_batch_id()
        committed: dict[Place, OffsetAndMetadata] = {}
        adopted: dict[Place, OffsetAndMetadata] = {}
        for source in plan.sources:
            group_id = source.group_id
            assert group_id is not None, "check_plan has seen to it"
            partitions = source.subscription.partitions(cluster)
            found = cluster.committed(group_id, partitions)
            committed.update({Place(group_id, partition): at for partition, at in found.items()})
            notes = [Note.parse(at.metadata) for at in found.values()]
            if last_batch_id is None:
                self._check_state_is_there(plan, group_id, notes)
                starts = starting_offsets(source, partitions, cluster)
                for partition, offset in starts.items():
                    note = Note("", _FIRST_BATCH, begin=offset)
                    adopted[Place(group_id, partition)] = OffsetAndMetadata(offset, str(note))
            elif not found:
                raise Refused(
                    f"{checkpoint.location} is at batch {last_batch_id}, and group {group_id!r} has no offsets: they "
                    "expired or were deleted, and nothing says whether that batch was written. Begin with a new "
                    "checkpoint and with startingOffsets, knowing what may be doubled or missing"
                )
        if adopted:
            _commit_offsets(owner, adopted)
        return {**committed, **adopted}

    def _check_state_is_there(self, plan: QueryPlan, group_id: str, notes: list[Note | None]) -> None:
        if plan.is_stateful and any(note is not None and note.batch_id > _FIRST_BATCH for note in notes):
            raise Refused(
                f"group {group_id!r} has offsets of an earlier run, and {self.checkpoint} has no state: what was "
                "counted up to there would be missing. Restore the checkpoint, or begin with a new group and a new sink"
            )

    def _writer(self, batches: MicroBatches) -> Any:
        writer = self.df.writeStream.foreachBatch(batches).option("checkpointLocation", self.checkpoint)
        writer = writer.outputMode(self.output_mode)
        if self.trigger:
            writer = writer.trigger(**self.trigger)
        return writer if self.query_name is None else writer.queryName(self.query_name)


def _commit_offsets(owner: Producer, offsets: Mapping[Place, OffsetAndMetadata]) -> None:
    with owner.transaction():
        for group_id in sorted({place.group_id for place in offsets}):
            own = {place.topic_partition: at for place, at in offsets.items() if place.group_id == group_id}
            owner.send_offsets(own, group_id)


def _close_after(query: StreamingQuery, owner: Producer, cluster: Cluster) -> None:
    """An open transaction is aborted when its query ends, so that nobody waits for its timeout."""
    try:
        query.awaitTermination()
    except Exception:
        pass  # Whoever started the query hears of it from the query.
    finally:
        owner.close(timeout_ms=5_000)
        cluster.close()
