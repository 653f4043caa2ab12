"""The sink's settings and the write job of one attempt: values that Spark sends to the tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructType

from semel.client.config.producer import ProducerConfig
from semel.client.machine.producer.partitioner import Partitioner
from semel.client.values import ProducerIdentity
from semel.wire.records import HEADER_SIZE

StepHook: TypeAlias = Callable[[str, int], None]
"""A function that is called at every step, with the step and the batch id. Tests use it to kill a process there. See
``POINTS``."""

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
"""The steps of a batch, in order. Those in ``TASK_POINTS`` happen in tasks, the others in the driver."""

TASK_POINTS: Final = ("fetched", "producing", "produced")

_TYPES: Final = {
    "topic": "STRING",
    "key": "BINARY",
    "value": "BINARY",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "partition": "INT",
    "offset": "BIGINT",
}


# The lengths, deltas and attributes of a record take at most so many bytes.
_RECORD_OVERHEAD_BYTES: Final = 32


def record_size_bytes_max(settings: Mapping[str, Any]) -> int:
    """Return how many bytes key, value and headers of a record may have with these settings of a producer."""
    return ProducerConfig.load(dict(settings)).max_request_size - HEADER_SIZE - _RECORD_OVERHEAD_BYTES


def no_step_hook(point: str, batch_id: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Sink:
    settings: Mapping[str, Any] = field(repr=False)
    """The producer's settings, with underscores in Kafka's names. They include the servers, the transactional id and
    passwords."""
    topic: str | None
    dead_letter_topic: str | None
    partitioner: Partitioner | None
    reached: StepHook


@dataclass(frozen=True, slots=True)
class WriteJob:
    """The work of one attempt at one batch, as the tasks get it."""

    sink: Sink
    identity: ProducerIdentity
    batch_id: int
    now_ms: int
    writers: int
    partition_counts: Mapping[str, int]
    """The number of partitions of each topic that the driver knows. It is not read again during the batch, even if the
    topic gets more partitions."""


def sink_columns(names: Sequence[str], sink: Sink) -> list[str]:
    """Return SQL for the columns that the tasks get, under the names and types that they expect.

    These are the columns of Spark's own Kafka sink (key, value, headers, topic, partition), and timestamp. Others are
    left out, except ``offset``, by which an error names a bad row. ``task`` is added: by it the partition of rows
    without a key is chosen. The columns are text because a select is then one call to the JVM, and such calls take most
    of the time of a small batch. Raises ``ValueError`` if there is no value or no topic.
    """
    present = {name.lower(): name for name in names}
    if "value" not in present:
        raise ValueError(f"the DataFrame has no column value to write; it has {', '.join(names)}")
    if sink.topic is None and "topic" not in present:
        raise ValueError("say which topic to write to: pipeline(topic=...), or a column topic")
    wanted = {name: f"`{present[name]}`" for name in _TYPES if name in present}
    wanted.setdefault("key", "NULL")
    if sink.topic is not None:
        wanted.pop("topic", None)  # The tasks have it in their job.
    if sink.dead_letter_topic is not None:
        wanted.setdefault("headers", "NULL")
    columns = [f"CAST({said} AS {_TYPES[name]}) AS {name}" for name, said in wanted.items()]
    if "timestamp" in present:
        columns.append(f"unix_millis(CAST(`{present['timestamp']}` AS TIMESTAMP)) AS timestamp")
    return [*columns, "spark_partition_id() AS task"]


def partitioned_schema(names: Sequence[str], sink: Sink) -> StructType:
    """Return the schema of the rows that ``RowPartitioner`` makes of the columns of ``sink_columns``."""
    present = {name.lower() for name in names}
    schema = StructType().add("topic", StringType()).add("partition", IntegerType()).add("writer", IntegerType())
    schema = schema.add("key", BinaryType()).add("value", BinaryType())
    if "headers" in present or sink.dead_letter_topic is not None:
        header = StructType().add("key", StringType()).add("value", BinaryType())
        schema = schema.add("headers", ArrayType(header))
    return schema.add("timestamp", LongType()) if "timestamp" in present else schema
