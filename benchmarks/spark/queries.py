"""The queries that are measured, as somebody would write them with either connector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

SPARK = "Spark's own"
SEMEL = "semel.spark"

COPY, FUSED, WINDOWED = "copy", "fused", "windowed"
"""The second is a copy too; Semel does it with ``arrow=``."""


@dataclass(frozen=True, slots=True)
class Query:
    """``rows_per_batch`` of ``None``: until it is stopped; else all that is there, in batches of so many."""

    kind: str
    servers: str
    source: str
    sink: str
    checkpoint: str
    rows_per_batch: int | None


def start(spark: SparkSession, connector: str, query: Query) -> StreamingQuery:
    return _START[connector](spark, query)


def _spark(spark: SparkSession, query: Query) -> StreamingQuery:
    """At-least-once."""
    rows = _read(spark, "kafka", query)
    writer = (
        _transformed(rows, query)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", query.servers)
        .option("topic", query.sink)
        .option("checkpointLocation", query.checkpoint)
        .outputMode(_output_mode(query))
    )
    trigger = _trigger(query)
    return (writer.trigger(**trigger) if trigger else writer).start()


def _semel(spark: SparkSession, query: Query) -> StreamingQuery:
    """Exactly-once."""
    from semel.spark import pipeline, register

    register(spark)
    rows = _read(spark, "semel", query, group_id=query.sink)
    return pipeline(
        rows if query.kind == FUSED else _transformed(rows, query),
        topic=query.sink,
        transactional_id=query.sink,
        servers=query.servers,
        checkpoint=query.checkpoint,
        output_mode=_output_mode(query),
        trigger=_trigger(query),
        arrow=_key_and_value if query.kind == FUSED else None,
    ).start()


_START = {SPARK: _spark, SEMEL: _semel}


def _read(spark: SparkSession, name: str, query: Query, group_id: str | None = None) -> DataFrame:
    reader = (
        spark.readStream.format(name)
        .option("kafka.bootstrap.servers", query.servers)
        .option("subscribe", query.source)
        .option("startingOffsets", "earliest")
    )
    if group_id is not None:
        reader = reader.option("kafka.group.id", group_id)
    if query.rows_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", query.rows_per_batch)
    return reader.load()


def _transformed(rows: DataFrame, query: Query) -> DataFrame:
    if query.kind != WINDOWED:
        return rows.select("key", "value")
    counted = (
        rows.withWatermark("timestamp", "10 seconds")
        .groupBy("key", sf.window("timestamp", "10 seconds"))
        .agg(sf.count("*").alias("count"), sf.sum(sf.length("value")).alias("size"))
    )
    return counted.select("key", sf.to_json(sf.struct("window.start", "count", "size")).alias("value"))


def _key_and_value(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select(["key", "value"])


def _output_mode(query: Query) -> str:
    return "update" if query.kind == WINDOWED else "append"


def _trigger(query: Query) -> dict[str, Any]:
    return {} if query.rows_per_batch is None else {"availableNow": True}
