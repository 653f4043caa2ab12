"""The records that were fetched from several partitions, as one Arrow table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from semel.client.arrow.decoding import HEADERS_TYPE, decode
from semel.types import Buffer, TopicPartition
from semel.wire.records import BatchHeader

SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
    ]
)


def decode_rows(buffer: Buffer, batches: Iterable[tuple[int, BatchHeader]]) -> Iterator[pa.RecordBatch]:
    return decode(buffer, batches, include_headers=True)


def as_table(parts: Sequence[tuple[TopicPartition, pa.RecordBatch]]) -> pa.Table:
    """Return all parts as one table. Nothing is copied: each part stays a chunk of its own."""
    return pa.Table.from_batches([_with_place(partition, rows) for partition, rows in parts], SCHEMA)


def _with_place(partition: TopicPartition, rows: pa.RecordBatch) -> pa.RecordBatch:
    count = rows.num_rows
    columns = {
        "topic": pa.repeat(pa.scalar(partition.topic, pa.string()), count),
        "partition": pa.repeat(pa.scalar(partition.partition, pa.int32()), count),
        "timestamp": rows.column("timestamp").cast(SCHEMA.field("timestamp").type),
    }
    arrays = [columns[name] if name in columns else rows.column(name) for name in SCHEMA.names]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
