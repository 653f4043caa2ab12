"""What is written and how, as values that travel to the tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from semel.client.machine.partitioner import Partitioner
from semel.client.values import ProducerIdentity

Reached: TypeAlias = Callable[[str, int], None]
"""Told of every step, with the batch id: for tests that end a process there. See ``POINTS``."""

POINTS: Final = (
    "planned",
    "begun",
    "fetched",
    "producing",
    "produced",
    "written",
    "offsets sent",
    "committed",
    "done",
)
"""The steps of a batch in order. Those of ``TASK_POINTS`` are reached in tasks, the others in the driver."""

TASK_POINTS: Final = ("fetched", "producing", "produced")

_HEADERS: Final = "array<struct<key: string, value: binary>>"


def nothing_reached(point: str, batch_id: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Sink:
    settings: Mapping[str, Any]
    """Of the producer: Kafka's names with underscores, the servers and the transactional id among them."""
    topic: str | None
    dead_letter_topic: str | None
    partitioner: Partitioner | None
    reached: Reached


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One attempt at one batch."""

    sink: Sink
    identity: ProducerIdentity
    batch_id: int
    now_ms: int
    writers: int
    partition_counts: Mapping[str, int]
    """Of the topics that the driver knows of. They hold for the batch, whatever happens to the topic meanwhile."""


def sink_rows(df: DataFrame, sink: Sink) -> DataFrame:
    """The columns that are written, under the names and types that the tasks expect.

    Spark's own: key, value, headers, topic, partition; and timestamp. Others are left behind, but for ``offset``: it
    tells which row is meant if one is wrong.
    """
    present = {name.lower(): name for name in df.columns}
    if "value" not in present:
        raise ValueError(f"the DataFrame has no column value to write; it has {', '.join(df.columns)}")
    if sink.topic is None and "topic" not in present:
        raise ValueError("say which topic to write to: pipeline(topic=...), or a column topic")
    columns: list[Column] = [
        (sf.lit(sink.topic) if sink.topic is not None else sf.col(present["topic"])).cast("string").alias("topic"),
        (sf.col(present["key"]) if "key" in present else sf.lit(None)).cast("binary").alias("key"),
        sf.col(present["value"]).cast("binary").alias("value"),
    ]
    if "headers" in present:
        columns.append(sf.col(present["headers"]).cast(_HEADERS).alias("headers"))
    elif sink.dead_letter_topic is not None:
        columns.append(sf.lit(None).cast(_HEADERS).alias("headers"))
    if "partition" in present:
        columns.append(sf.col(present["partition"]).cast("int").alias("partition"))
    if "timestamp" in present:
        columns.append(sf.unix_millis(sf.col(present["timestamp"]).cast("timestamp")).alias("timestamp"))
    if "offset" in present:
        columns.append(sf.col(present["offset"]).cast("long").alias("offset"))
    return df.select(*columns)


def placed_schema(rows: DataFrame) -> str:
    """What ``placing`` makes of ``sink_rows``."""
    names = rows.columns
    schema = "topic string, partition int, writer int, key binary, value binary"
    if "headers" in names:
        schema += f", headers {_HEADERS}"
    if "timestamp" in names:
        schema += ", timestamp long"
    return schema
