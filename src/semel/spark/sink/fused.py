"""The fused path: one task fetches, decodes, transforms, encodes and writes, and no row passes through the JVM.

It is for stateless transforms of Arrow batches. Each sink partition must have one writer. Here that needs no shuffle: a
record goes to the sink partition with the number of its source partition, and one task reads all source partitions with
that number. So the records of a source partition stay together, and in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from semel.client.arrow.encoding import OversizedRecord
from semel.spark.cluster import Cluster
from semel.spark.decision import Batch
from semel.spark.refusals import Refused
from semel.spark.sink.row_partitioning import BadRow
from semel.spark.sink.sink import Sink, WriteJob
from semel.spark.sink.writing import WRITTEN_SCHEMA, Writer, counts_of
from semel.spark.source.options import SourceOptions
from semel.spark.source.reading import new_partition_offsets, read_splits
from semel.spark.source.source import cluster_of
from semel.spark.source.splits import Split
from semel.spark.task_process import prepare_process
from semel.types import TopicPartition

Transform: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
"""A function that takes an Arrow batch with the source's columns and returns one with ``value`` and optionally ``key``,
``headers`` and ``timestamp``."""


def check_fused(df: DataFrame, sink: Sink) -> None:
    """Raises ``Refused`` if the fused path cannot run this DataFrame or write to this sink."""
    if not hasattr(df, "_jdf"):
        raise Refused("arrow= looks at the plan in the driver's Java, which Spark Connect hides: use a classic session")
    plan = df._jdf.queryExecution().analyzed()
    if not plan.children().isEmpty():
        raise Refused(
            "arrow= transforms what the source reads, so the DataFrame must be the source as load() returned it; what "
            "Spark is to do with the rows, and what arrow= does, cannot be mixed"
        )
    if sink.topic is None:
        raise Refused("arrow= writes to one topic: say which, with topic=")
    if sink.dead_letter_topic is not None or sink.partitioner is not None:
        raise Refused(
            "arrow= has neither a dead-letter topic nor a partitioner: records go to the partition of their number"
        )


def write_fused(
    spark: SparkSession,
    job: WriteJob,
    transform: Transform,
    source: SourceOptions,
    batch: Batch,
    cluster: Cluster,
) -> list[Row]:
    """Run the barrier stage of one attempt, in which the same tasks read and write the records of the batch.

    Returns the number of records for each partition.
    """
    start = {partition.topic_partition: offset for partition, offset in batch.start.items()}
    end = {partition.topic_partition: offset for partition, offset in batch.end.items()}
    check_numbers(job, end)
    begins = {**start, **new_partition_offsets(end, start, cluster, fail_on_data_loss=source.fail_on_data_loss)}
    shares = shared([Split(tp, begins[tp], end[tp]) for tp in end], job.writers)
    task = _task(job, transform, source, shares)
    tasks = spark.range(0, job.writers, 1, job.writers)
    return list(tasks.mapInArrow(task, WRITTEN_SCHEMA, barrier=True).collect())


def check_numbers(job: WriteJob, read: Mapping[TopicPartition, int]) -> None:
    topic = job.sink.topic
    assert topic is not None, "check_fused has seen to it"
    count = job.partition_counts.get(topic)
    if count is None:
        raise BadRow(f"there is no topic {topic!r} to write to")
    for source_topic, number in read:
        if number >= count:
            raise BadRow(
                f"{source_topic} has a partition {number}, and {topic}, to which arrow= writes under the same number, "
                f"has {count} partitions: give it more"
            )


def shared(splits: Sequence[Split], tasks: int) -> list[list[Split]]:
    """Return the splits of each task. All partitions with one number are read by one task, whatever their topic."""
    shares: list[list[Split]] = [[] for _ in range(tasks)]
    for split in splits:
        if split.end > split.start:
            shares[split.topic_partition.partition % tasks].append(split)
    return shares


def fuse(
    splits: Sequence[Split], job: WriteJob, transform: Transform, source: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """Read, transform and write the splits of one task.

    Like ``write``, it returns when every record is acknowledged, and begins and ends no transaction.
    """
    job.sink.reached("fetched", job.batch_id)
    topic = job.sink.topic
    assert topic is not None, "check_fused has seen to it"
    writer: Writer | None = None
    for split, rows in read_splits(
        splits,
        cluster_of(source),
        include_headers=source.include_headers,
        fail_on_data_loss=source.fail_on_data_loss,
    ):
        made = transform(rows)
        if made.num_rows:
            writer = writer or Writer(job)
            job.sink.reached("producing", job.batch_id)
            _append(writer, topic, split.topic_partition, made)
    if writer is not None:
        job.sink.reached("produced", job.batch_id)
        writer.finish()
        yield counts_of(writer)


def _append(writer: Writer, topic: str, source: TopicPartition, made: pa.RecordBatch) -> None:
    try:
        writer.append(topic, source.partition, as_records(made))
    except OversizedRecord as error:
        at = made.column("offset")[error.row].as_py() if "offset" in made.schema.names else "unknown"
        raise BadRow(f"a row of {source} from source offset {at} cannot be written: {error}") from error


def as_records(made: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows that a transform returned, with the columns and types that ``encode`` takes.

    Raises ``BadRow`` if there is no column ``value``.
    """
    names = made.schema.names
    if "value" not in names:
        raise BadRow(f"arrow= made rows without a column value; they have {', '.join(names)}")
    columns: dict[str, Any] = {
        "key": made.column("key") if "key" in names else pa.nulls(made.num_rows, pa.binary()),
        "value": made.column("value"),
    }
    if "headers" in names:
        columns["headers"] = made.column("headers")
    if "timestamp" in names:
        timestamps = made.column("timestamp")
        if pa.types.is_timestamp(timestamps.type):
            # Timestamps in Kafka are milliseconds: smaller units are cut off.
            timestamps = timestamps.cast(pa.timestamp("ms", timestamps.type.tz), safe=False)
        columns["timestamp"] = timestamps.cast(pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def _task(job: WriteJob, transform: Transform, source: SourceOptions, shares: Sequence[Sequence[Split]]) -> Any:
    def task(batches: Any) -> Any:
        from pyspark import TaskContext

        prepare_process()
        deque(batches, maxlen=0)  # A process that leaves its input unread is not used for another task.
        context = TaskContext.get()
        assert context is not None, "this runs in a task"
        return fuse(shares[context.partitionId()], job, transform, source)

    return task
