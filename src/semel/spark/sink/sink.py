"""The sink's settings and the write job of one attempt: values that are sent to the tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructType

from semel.client.machine.producer.partitioner import Partitioner
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

_TYPES: Final = {
    "topic": "STRING",
    "key": "BINARY",
    "value": "BINARY",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "partition": "INT",
    "offset": "BIGINT",
}


def nothing_reached(point: str, batch_id: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Sink:
    settings: Mapping[str, Any] = field(repr=False)
    """Of the producer: Kafka's names with underscores; the servers, the transactional id and passwords among them."""
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


def sink_columns(names: Sequence[str], sink: Sink) -> list[str]:
    """SQL for the columns that are written, under the names and types that the tasks expect.

    Spark's own: key, value, headers, topic, partition; and timestamp. Others are left behind, but for ``offset``: it
    tells which row is meant if one is wrong. ``task`` tells rows without a key apart. As text, because to Spark a
    select is then one call, and a batch that is small is mostly calls.
    """
    present = {name.lower(): name for name in names}
    if "value" not in present:
        raise ValueError(f"the DataFrame has no column value to write; it has {', '.join(names)}")
    if sink.topic is None and "topic" not in present:
        raise ValueError("say which topic to write to: pipeline(topic=...), or a column topic")
    wanted = {name: f"`{present[name]}`" for name in _TYPES if name in present}
    wanted.setdefault("key", "NULL")
    if sink.topic is not None:
        wanted.pop("topic", None)  # The tasks know it.
    if sink.dead_letter_topic is not None:
        wanted.setdefault("headers", "NULL")
    columns = [f"CAST({said} AS {_TYPES[name]}) AS {name}" for name, said in wanted.items()]
    if "timestamp" in present:
        columns.append(f"unix_millis(CAST(`{present['timestamp']}` AS TIMESTAMP)) AS timestamp")
    return [*columns, "spark_partition_id() AS task"]


def partitioned_schema(names: Sequence[str], sink: Sink) -> StructType:
    """What ``placing`` makes of ``sink_columns``."""
    present = {name.lower() for name in names}
    schema = StructType().add("topic", StringType()).add("partition", IntegerType()).add("writer", IntegerType())
    schema = schema.add("key", BinaryType()).add("value", BinaryType())
    if "headers" in present or sink.dead_letter_topic is not None:
        header = StructType().add("key", StringType()).add("value", BinaryType())
        schema = schema.add("headers", ArrayType(header))
    return schema.add("timestamp", LongType()) if "timestamp" in present else schema
