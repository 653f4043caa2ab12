"""Partitioning of rows: chooses the partition of each row and the task that writes it, and finds rows that cannot be
written.

The law: all rows of one partition go to one writer, so that a partition has one sequence under the batch's epoch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.client.arrow.decoding import HEADERS_TYPE
from semel.client.arrow.murmur2 import positive_murmur2_column
from semel.client.arrow.varints import Int64s
from semel.spark.cluster import Cluster, client_settings
from semel.spark.sink.sink import WriteJob, record_size_bytes_max

REASON_HEADER: Final = "semel-error"
OFFSET_HEADER: Final = "semel-offset"

_NO_TIMESTAMP: Final = -1
_AHEAD_MS: Final = 60_000
"""How far ahead of the driver's clock a timestamp may be before the topic's limit is looked up. Clocks differ, and the
time at which a task computes a row is later than the driver's."""


class BadRow(ValueError):
    """A row that cannot be written. The batch fails, unless there is a dead-letter topic."""


class RowPartitioner:
    """Partitions the rows of one task of one batch.

    The rows of the task that have no key go to one partition, so they stay in order. In the next batch they go to
    another one: otherwise a query with one task would write all of them to a single partition.
    """

    def __init__(self, job: WriteJob) -> None:
        self._job = job
        self._counts: dict[str, int] = dict(job.partition_counts)
        self._unwritable: dict[str, str] = {}
        """Why rows cannot be written to a topic, for topics that are not just missing."""
        self._ahead_ms_max: dict[str, int | None] = {}
        self._size_bytes_max = record_size_bytes_max(job.sink.settings)

    def partitioned(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            if rows.num_rows:
                yield self._partition(rows)

    def _partition(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns: dict[str, pa.Array] = {name: rows.column(name) for name in rows.schema.names}
        if self._job.sink.topic is not None:
            columns["topic"] = pa.repeat(pa.scalar(self._job.sink.topic, pa.string()), rows.num_rows)
        self._load_partition_counts(columns["topic"])
        reasons = self._reasons(columns)
        if reasons:
            self._divert(columns, reasons)
        topics = pc.dictionary_encode(columns["topic"])
        partitions = self._partitions(columns, _by_topic(topics, self._counts), reasons)
        firsts = _by_topic(topics, {topic: zlib.crc32(topic.encode()) for topic in self._counts})
        columns["partition"] = pa.array(partitions.astype(np.int32))
        columns["writer"] = pa.array(((firsts + partitions) % self._job.writers).astype(np.int32))
        order = ["topic", "partition", "writer", "key", "value"]
        order += [name for name in ("headers", "timestamp") if name in columns]
        return pa.RecordBatch.from_pydict({name: columns[name] for name in order})

    def _load_partition_counts(self, topics: pa.Array) -> None:
        wanted = [name for name in pc.unique(topics).to_pylist() if name is not None]
        if self._job.sink.dead_letter_topic is not None:
            wanted.append(self._job.sink.dead_letter_topic)
        new = [name for name in wanted if name and name not in self._counts]
        if new:
            with Cluster(**client_settings(self._job.sink.settings)) as cluster:
                found = cluster.look_up(new)
            for name in found.internal:
                self._unwritable[name] = f"{name!r} is an internal topic, to which only brokers write"
            self._unwritable.update({name: str(error) for name, error in found.refused.items()})
            writable = {name: count for name, count in found.partition_counts.items() if name not in found.internal}
            self._counts.update(writable)

    # Rows that cannot be written

    def _reasons(self, columns: dict[str, pa.Array]) -> dict[int, str]:
        """Return the rows that cannot be written, by their index, with the reason."""
        found: dict[int, str] = {}
        topics = columns["topic"]
        known = pc.is_in(topics, value_set=pa.array(list(self._counts), pa.string()))
        for row in np.flatnonzero(~known.to_numpy(zero_copy_only=False)):
            name = topics[int(row)].as_py()
            found[int(row)] = self._why_not(name)
        sizes = _sizes(columns)
        for row in np.flatnonzero(sizes > self._size_bytes_max):
            found.setdefault(
                int(row), f"it takes {sizes[row]} bytes; max.request.size leaves {self._size_bytes_max} for a record"
            )
        if "timestamp" in columns:
            # -1 is Kafka's value for no timestamp, which a copy of the source's column has.
            is_early = pc.fill_null(pc.less(columns["timestamp"], _NO_TIMESTAMP), False)
            for row in np.flatnonzero(is_early.to_numpy(zero_copy_only=False)):
                found.setdefault(int(row), "its timestamp is before 1970")
            self._find_late_timestamps(topics, columns["timestamp"], found)
        if "partition" in columns:
            for number, partition in enumerate(columns["partition"].to_pylist()):
                if partition is not None and number not in found:
                    name = topics[number].as_py()
                    if not 0 <= partition < self._counts[name]:
                        found[number] = f"partition {partition} of {name!r}, which has {self._counts[name]}"
        return found

    def _find_late_timestamps(self, topics: pa.Array, timestamps: pa.Array, found: dict[int, str]) -> None:
        is_ahead = pc.fill_null(pc.greater(timestamps, self._job.now_ms + _AHEAD_MS), False)
        for row in map(int, np.flatnonzero(is_ahead.to_numpy(zero_copy_only=False))):
            if row in found:
                continue
            topic, ahead_ms = topics[row].as_py(), timestamps[row].as_py() - self._job.now_ms
            most = self._ahead_ms_max_of(topic)
            if most is not None and ahead_ms > most:
                found[row] = (
                    f"its timestamp is {ahead_ms} ms in the future; message.timestamp.after.max.ms of {topic!r} "
                    f"allows {most}"
                )

    def _ahead_ms_max_of(self, topic: str) -> int | None:
        """Return how far in the future the timestamps of this topic's records may be; ``None`` if that is not known,
        or if the broker replaces the timestamps by its own time."""
        if topic not in self._ahead_ms_max:
            with Cluster(**client_settings(self._job.sink.settings)) as cluster:
                settings = cluster.topic_settings(topic)
            most = settings.get("message.timestamp.after.max.ms")
            is_own = settings.get("message.timestamp.type") != "LogAppendTime"
            self._ahead_ms_max[topic] = int(most) if most is not None and is_own else None
        return self._ahead_ms_max[topic]

    def _why_not(self, topic: str | None) -> str:
        """Return why rows cannot be written to this topic."""
        if topic is None:
            return "its topic is null"
        return self._unwritable.get(topic, f"there is no topic {topic!r}")

    def _divert(self, columns: dict[str, pa.Array], reasons: dict[int, str]) -> None:
        """Change bad rows into records for the dead-letter topic, with the reason as a header and without what makes
        them too large.

        Raises ``BadRow`` if the pipeline has no dead-letter topic, or if that topic cannot be written to.
        """
        offsets = columns["offset"].to_pylist() if "offset" in columns else None
        dead_letter_topic = self._job.sink.dead_letter_topic
        if dead_letter_topic is None:
            row, reason = min(reasons.items())
            at = "" if offsets is None else f" from source offset {offsets[row]}"
            key = columns["key"][row].as_py()
            raise BadRow(f"a row{at} with key {key!r} cannot be written: {reason}. A dead-letter topic would take it")
        if dead_letter_topic not in self._counts:
            raise BadRow(f"the dead-letter topic cannot be written to: {self._why_not(dead_letter_topic)}")
        topics, values = columns["topic"].to_pylist(), columns["value"].to_pylist()
        keys, headers = columns["key"].to_pylist(), columns["headers"].to_pylist()
        for row, reason in reasons.items():
            topics[row] = dead_letter_topic
            told = [{"key": REASON_HEADER, "value": reason.encode()}]
            if offsets is not None and offsets[row] is not None:
                told.append({"key": OFFSET_HEADER, "value": str(offsets[row]).encode()})
            headers[row] = [*(headers[row] or ()), *told]
            if _size(keys[row], values[row], headers[row]) > self._size_bytes_max:
                values[row] = None
            if _size(keys[row], values[row], headers[row]) > self._size_bytes_max:
                keys[row], headers[row] = None, told
        columns["topic"] = pa.array(topics, pa.string())
        columns["key"], columns["value"] = pa.array(keys, pa.binary()), pa.array(values, pa.binary())
        columns["headers"] = pa.array(headers, HEADERS_TYPE)
        if "timestamp" in columns:
            timestamps = columns["timestamp"].to_pylist()
            for row in reasons:
                if timestamps[row] is not None and not _NO_TIMESTAMP <= timestamps[row] <= self._job.now_ms + _AHEAD_MS:
                    timestamps[row] = None
            columns["timestamp"] = pa.array(timestamps, pa.int64())

    # Partitions

    def _partitions(self, columns: dict[str, pa.Array], counts: Int64s, diverted: dict[int, str]) -> Int64s:
        """Return the partition of each row. ``counts`` has, for each row, the number of partitions of its topic."""
        partitioner = self._job.sink.partitioner
        if partitioner is not None:
            topics, keys, values = (columns[name].to_pylist() for name in ("topic", "key", "value"))
            chosen = [
                partitioner(topic, key, value, self._counts[topic])
                for topic, key, value in zip(topics, keys, values, strict=True)
            ]
            partitions = np.array(chosen, dtype=np.int64)
            if ((partitions < 0) | (partitions >= counts)).any():
                raise BadRow("the partitioner gave a partition that the topic does not have")
        else:
            partitions = positive_murmur2_column(columns["key"].cast(pa.binary())) % counts
            is_null = columns["key"].is_null().to_numpy(zero_copy_only=False)
            keyless = (columns["task"].to_numpy() + self._job.batch_id) % counts
            partitions = np.where(is_null, keyless, partitions)
        if "partition" in columns:
            said = columns["partition"].cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False).copy()
            said[list(diverted)] = -1
            partitions = np.where(said >= 0, said, partitions)
        return partitions


def _by_topic(topics: pa.DictionaryArray, numbers: Mapping[str, int]) -> Int64s:
    """Return, for each row, the number that ``numbers`` has for its topic."""
    of_each = np.array([numbers[name] for name in topics.dictionary.to_pylist()], dtype=np.int64)
    found: Int64s = of_each[topics.indices.to_numpy(zero_copy_only=False)]
    return found


def _sizes(columns: dict[str, pa.Array]) -> Int64s:
    sizes = np.zeros(len(columns["topic"]), dtype=np.int64)
    for name in ("key", "value"):
        sizes += pc.binary_length(columns[name]).fill_null(0).to_numpy(zero_copy_only=False)
    if "headers" in columns and columns["headers"].null_count < len(columns["headers"]):
        sizes += np.array([_headers_size(row) for row in columns["headers"].to_pylist()], dtype=np.int64)
    return sizes


def _size(key: bytes | None, value: bytes | None, headers: list[Any] | None) -> int:
    return len(key or b"") + len(value or b"") + _headers_size(headers)


def _headers_size(headers: list[Any] | None) -> int:
    return sum(len(one["key"]) * 3 + len(one["value"] or b"") + 10 for one in headers or ())
