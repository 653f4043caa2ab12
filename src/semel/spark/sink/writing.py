"""Writing in one task: rows become record batches, which are sent under the producer id and epoch of the batch.

The law: when this returns, every row is acknowledged; otherwise it raises, and the driver aborts. A task never begins
or ends a transaction and never asks for an epoch: a task that is still running after its batch is fenced by the broker.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from time import monotonic, sleep
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from semel.blocking import Producer
from semel.blocking.producer import send_batch
from semel.client.arrow import encode
from semel.client.config.producer import ProducerConfig
from semel.errors import SemelError, StateError
from semel.spark.cluster import naming_this_machine, outages_of_process
from semel.spark.sink.sink import WriteJob

WRITTEN_SCHEMA: Final = (
    StructType().add("topic", StringType()).add("partition", IntegerType()).add("records", LongType())
)

# A request costs the same time whatever its size, and a broker by default accepts batches of up to 1 MiB.
_BATCH_BYTES: Final = 1_000_000
_UNSETTLED_BYTES_MAX: Final = 16 * 2**20
_NEW_PARTITION_S: Final = 30.0
_PAUSE_S: Final = 0.05


def write(batches: Iterator[pa.RecordBatch], job: WriteJob) -> Iterator[pa.RecordBatch]:
    """Write the rows of one task. Yields one row for each partition, with the number of records written to it."""
    job.sink.reached("fetched", job.batch_id)
    writer: Writer | None = None
    for rows in batches:
        if rows.num_rows:
            writer = writer or Writer(job)
            job.sink.reached("producing", job.batch_id)
            writer.add(rows)
    if writer is None:
        return
    job.sink.reached("produced", job.batch_id)
    writer.finish()
    yield counts_of(writer)


def counts_of(writer: Writer) -> pa.RecordBatch:
    """Return the result of a task: the number of records for each partition."""
    topics, partitions = zip(*writer.counts, strict=True)
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array(topics, pa.string()),
            "partition": pa.array(partitions, pa.int32()),
            "records": pa.array(writer.counts.values(), pa.int64()),
        }
    )


class Writer:
    def __init__(self, job: WriteJob) -> None:
        self.counts: dict[tuple[str, int], int] = {}
        self._job = job
        self._config = ProducerConfig.load(dict(job.sink.settings))
        self._producer = attached_producer(job)
        self._unsettled: deque[tuple[Future[Any], int]] = deque()
        self._unsettled_bytes = 0
        self._known: set[str] = set()

    def add(self, rows: pa.RecordBatch) -> None:
        """Send rows that have columns for their topic and partition."""
        for (topic, partition), chosen in _by_partition(rows):
            self.append(topic, partition, chosen)

    def append(self, topic: str, partition: int, rows: pa.RecordBatch) -> None:
        """Send rows to one partition. Raises ``OversizedRecord``."""
        for batch in encode(
            _with_timestamps(rows, self._job.now_ms),
            size_bytes_max=min(_BATCH_BYTES, self._config.max_request_size),
            record_size_bytes_max=self._config.max_request_size,
            codec=self._config.compression_type,
            compression_level=self._config.compression_level,
            is_transactional=True,
        ):
            self._make_room()
            self._send(topic, partition, batch.records, batch.record_count)
        place = (topic, partition)
        self.counts[place] = self.counts.get(place, 0) + rows.num_rows

    def finish(self) -> None:
        self._producer.flush()  # Raises if any record batch has failed.
        while self._unsettled:
            self._unsettled.popleft()[0].result()

    def _make_room(self) -> None:
        while self._unsettled_bytes > _UNSETTLED_BYTES_MAX:
            future, size_bytes = self._unsettled.popleft()
            future.result()
            self._unsettled_bytes -= size_bytes

    def _send(self, topic: str, partition: int, records: bytes, count: int) -> None:
        deadline = monotonic() + _NEW_PARTITION_S
        if topic not in self._known:
            self._producer.partitions_for(topic)
            self._known.add(topic)
        while True:
            try:
                future = send_batch(self._producer, topic, partition, records, count)
                break
            except StateError:
                # The partition may be newer than this producer's metadata. The failed call makes it refresh them.
                if monotonic() >= deadline:
                    raise
                sleep(_PAUSE_S)
                self._producer.partitions_for(topic)
        self._unsettled.append((future, len(records)))
        self._unsettled_bytes += len(records)


def _by_partition(rows: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """Yield the rows of each partition, in the order in which they came."""
    topics = pc.dictionary_encode(rows.column("topic"))
    partitions = rows.column("partition").to_numpy(zero_copy_only=False).astype(np.int64)
    places = topics.indices.to_numpy(zero_copy_only=False).astype(np.int64) << 32 | partitions
    order = np.argsort(places, kind="stable")
    ends = np.flatnonzero(np.diff(places[order])) + 1
    for chosen in np.split(order, ends):
        place = int(places[chosen[0]])
        yield (topics.dictionary[place >> 32].as_py(), place & 0xFFFFFFFF), rows.take(pa.array(chosen))


def _with_timestamps(rows: pa.RecordBatch, now_ms: int) -> pa.RecordBatch:
    if "timestamp" not in rows.schema.names:
        return rows.append_column("timestamp", pa.repeat(pa.scalar(now_ms, pa.int64()), rows.num_rows))
    timestamps = rows.column("timestamp")
    if not timestamps.null_count:
        return rows
    return rows.set_column(rows.schema.get_field_index("timestamp"), "timestamp", timestamps.fill_null(now_ms))


# A worker process runs many tasks, and keeps its producer for all of them. A forked process makes its own.
_producers: dict[tuple[int, str], Producer] = {}


def attached_producer(job: WriteJob) -> Producer:
    # Functions are not part of the key, because each task gets its own copy of them.
    texts = {name: value for name, value in job.sink.settings.items() if not callable(value)}
    key = (os.getpid(), repr(sorted(texts.items())))
    known = _producers.pop(key, None)
    if known is not None:
        try:
            known.attach(*job.identity)
            _producers[key] = known
            return known
        except SemelError:
            known.close(timeout_ms=0)  # An earlier task was interrupted while it was writing.
    with naming_this_machine():
        producer = Producer(**{"outages": outages_of_process(), **job.sink.settings})
    producer.attach(*job.identity)
    _producers[key] = producer
    return producer
