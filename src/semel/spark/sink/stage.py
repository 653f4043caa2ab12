"""The barrier stage of one attempt: Spark moves the rows of each sink partition to one task, and that task writes them.

The rows of a large batch are partitioned by the tasks that produced them, so that several tasks can write. A small
batch has one writer: its rows are partitioned by the task that writes them, and pass through one Python process less.
If one task also produced all rows, no rows are moved, and the barrier stage is the only one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from semel.spark.sink.row_partitioning import RowPartitioner
from semel.spark.sink.sink import WriteJob, partitioned_schema, sink_columns
from semel.spark.sink.writing import WRITTEN_SCHEMA, write
from semel.spark.task_process import prepare_process

_ADAPTIVE: Final = "spark.sql.adaptive.enabled"
# Spark's error for a barrier stage whose parts have different numbers of tasks names this issue.
_NO_BARRIER: Final = "SPARK-24820"


def write_rows(df: DataFrame, names: list[str], job: WriteJob) -> list[Row]:
    """Write the rows. Returns the number of records for each partition.

    ``names`` are the columns of ``df``, passed because ``df.columns`` is slow.
    """
    rows = df.selectExpr(*sink_columns(names, job.sink))
    with _as_one_job(df.sparkSession):
        if job.writers == 1:
            return _write_alone(df, rows, job)
        partitioned = rows.mapInArrow(PartitionRows(job), partitioned_schema(names, job.sink))
        moved = partitioned.repartitionById(job.writers, sf.col("writer"))
        return list(moved.mapInArrow(WriteRows(job), WRITTEN_SCHEMA, barrier=True).collect())


def _write_alone(df: DataFrame, rows: DataFrame, job: WriteJob) -> list[Row]:
    if _is_one_task(df):
        try:
            return list(rows.mapInArrow(PartitionAndWriteRows(job), WRITTEN_SCHEMA, barrier=True).collect())
        except (PySparkException, Py4JError) as error:
            # Another part of the stage has more tasks, as in a union with an empty part. No task has run yet.
            if _NO_BARRIER not in str(error):
                raise
    return list(rows.repartition(1).mapInArrow(PartitionAndWriteRows(job), WRITTEN_SCHEMA, barrier=True).collect())


def _is_one_task(df: DataFrame) -> bool:
    """Whether one task produces all rows. It is known only if the whole query is one leaf in the plan of the batch;
    otherwise the rows are moved."""
    if not hasattr(df, "_jdf"):
        return False  # With Spark Connect it is not known.
    leaf = df._jdf.queryExecution().logical()
    return leaf.getClass().getSimpleName() == "LogicalRDD" and int(leaf.rdd().getNumPartitions()) == 1


@contextmanager
def _as_one_job(spark: SparkSession) -> Iterator[None]:
    """Disable adaptive query execution within this block, so that the batch runs as one Spark job.

    Adaptive execution would run each stage as a job, to optimize the next one by its result; here there is nothing to
    optimize. The plan of the user's query is a leaf of the batch's DataFrame, and is not affected.
    """
    adaptive = spark.conf.get(_ADAPTIVE) or "true"
    spark.conf.set(_ADAPTIVE, "false")
    try:
        yield
    finally:
        spark.conf.set(_ADAPTIVE, adaptive)


# The functions that run in tasks. They are classes and not closures, because an object of a class is pickled with the
# name of its class, and a closure with all its code.


@dataclass(frozen=True, slots=True)
class PartitionRows:
    job: WriteJob

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_process()
        return RowPartitioner(self.job).partitioned(batches)


@dataclass(frozen=True, slots=True)
class WriteRows:
    """Writes rows that an earlier stage has partitioned."""

    job: WriteJob

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_process()
        return write(batches, self.job)


@dataclass(frozen=True, slots=True)
class PartitionAndWriteRows:
    """Partitions and writes the rows of a batch with one writer."""

    job: WriteJob

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_process()
        return write(RowPartitioner(self.job).partitioned(batches), self.job)
