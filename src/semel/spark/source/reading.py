"""Reads the records of splits as Arrow batches, with the columns of Spark's own Kafka source.

A split ends at its end offset. Markers, aborted records and records removed by compaction are skipped, so a split may
have no records at its end, or none at all. Missing data is an error, unless ``failOnDataLoss`` is false.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.client.admin.batches import RawBatches
from semel.client.arrow import decode
from semel.client.machine.consumer.fetched import visible_batches
from semel.errors import DecodeError, ErrorCode, KafkaError, SemelError
from semel.spark.cluster import Cluster
from semel.spark.source.splits import Split
from semel.types import Buffer, TopicPartition
from semel.wire.messages.fetch import AbortedTransaction
from semel.wire.records import BatchHeader, Headers, iterate_headers, verify_crc

log = logging.getLogger(__name__)

SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
)
HEADERS_SCHEMA: Final = "headers array<struct<key: string, value: binary>>"

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_MICROSECONDS: Final = pa.scalar(1000, pa.int64())
_EMPTY_ANSWERS_MAX: Final = 60
# The assumed sizes of a record and of a batch, until the first ones have been read.
_RECORD_BYTES_GUESSED: Final = 1024
_BATCH_BYTES_GUESSED: Final = 64 * 1024


class DataLost(RuntimeError):
    """The query needs offsets that are no longer in the log."""

    def __init__(self, topic_partition: TopicPartition, start: int, end: int, found: str) -> None:
        super().__init__(
            f"offsets {start} to {end} of {topic_partition} are not all there: {found}. "
            "failOnDataLoss=false would go on with what is left"
        )


def read_split(
    split: Split, cluster: Cluster, *, include_headers: bool, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    read = read_splits([split], cluster, include_headers=include_headers, fail_on_data_loss=fail_on_data_loss)
    return (rows for _, rows in read)


def read_splits(
    splits: Iterable[Split], cluster: Cluster, *, include_headers: bool, fail_on_data_loss: bool
) -> Iterator[tuple[Split, pa.RecordBatch]]:
    """Yield the records of one split after the other. The first records of a split are fetched while the split before
    is read."""
    begun: list[_Reading] = []
    for split in splits:
        begun.append(_Reading(split, cluster, fail_on_data_loss))
        if len(begun) > 1:
            yield from begun.pop(0).rows(include_headers)
    for reading in begun:
        yield from reading.rows(include_headers)


def new_partition_offsets(
    ends: Mapping[TopicPartition, int],
    start: Mapping[TopicPartition, int],
    cluster: Cluster,
    *,
    fail_on_data_loss: bool,
) -> dict[TopicPartition, int]:
    """Return where the partitions begin that are in ``ends`` and not in ``start``: they appeared while the query ran,
    and are read from their beginning.

    Raises ``DataLost`` if the first records of one are gone. Without ``fail_on_data_loss``, one whose topic was deleted
    since begins where it ends.
    """
    new = [topic_partition for topic_partition in ends if topic_partition not in start]
    try:
        found = cluster.beginning_offsets(new) if new else {}
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or fail_on_data_loss:
            raise
        gone = cluster.look_up({topic for topic, _ in new}).missing
        log.warning("topics that were to be read are gone: %s", ", ".join(gone))
        found = {tp: ends[tp] for tp in new if tp.topic in gone}
        found |= cluster.beginning_offsets([tp for tp in new if tp not in found])
    for topic_partition, first in found.items():
        if first and fail_on_data_loss:
            raise DataLost(topic_partition, 0, ends[topic_partition], f"the log begins at {first}")
    return found


def first_headers(splits: Sequence[Split], cluster: Cluster, *, count_max: int) -> list[Headers]:
    """Return the headers of the first records of the splits, of at most ``count_max`` records, divided evenly among the
    splits.

    There is one fetch for each split. Records that its response does not have are left out, and so are splits that
    cannot be read.
    """
    chosen = [split for split in splits if split.end > split.start][:count_max]
    if not chosen:
        return []
    share = count_max // len(chosen)
    wanted = [split._replace(end=min(split.end, split.start + share)) for split in chosen]
    answers = [cluster.fetch(split.topic_partition, split.start, _BATCH_BYTES_GUESSED) for split in wanted]
    found: list[Headers] = []
    for split, answer in zip(wanted, answers, strict=True):
        try:
            found += _headers_between(split, answer.result())
        except SemelError as error:
            log.debug("%s: the first records cannot be looked at: %s", split.topic_partition, error)
    return found


def _headers_between(split: Split, data: RawBatches) -> list[Headers]:
    batches = list(iterate_headers(data.records, allow_partial_tail=True))
    sound = _sound(split.topic_partition, data.records, batches, data, split.end)
    return [
        tuple((header["key"], header["value"]) for header in headers or ())
        for rows in decode(data.records, sound, include_headers=True)
        for headers in _between(rows, split.start, split.end).column("headers").to_pylist()
    ]


class _Reading:
    """The reading of one split. The fetch of its first records is sent at once."""

    def __init__(self, split: Split, cluster: Cluster, fail_on_data_loss: bool) -> None:
        self._split = split
        self._cluster = cluster
        self._fail_on_data_loss = fail_on_data_loss
        self._offset = split.start
        self._seen_offsets, self._seen_bytes, self._largest_bytes = 1, _RECORD_BYTES_GUESSED, _BATCH_BYTES_GUESSED
        self._fetch()

    def rows(self, include_headers: bool) -> Iterator[tuple[Split, pa.RecordBatch]]:
        split, end = self._split, self._split.end
        empty_answers = 0
        while self._offset < end:
            try:
                data = self._future.result()
            except KafkaError as error:
                if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._may_be_deleted():
                    log.warning("%s: offsets %d to %d are gone with it", split.topic_partition, self._offset, end)
                    return
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                self._offset = _after_loss(split, self._offset, self._cluster, self._fail_on_data_loss)
                self._fetch()
                continue
            headers = list(iterate_headers(data.records, allow_partial_tail=True))
            if not headers:
                # When the batch was planned, the last stable offset had reached the split's end. That of a new leader
                # may still be behind.
                empty_answers += 1
                if empty_answers > _EMPTY_ANSWERS_MAX:
                    found = f"the log is stable up to {data.last_stable_offset}"
                    if self._fail_on_data_loss:
                        raise DataLost(split.topic_partition, self._offset, end, found)
                    log.warning("%s: offsets %d to %d are gone: %s", split.topic_partition, self._offset, end, found)
                    return
                self._fetch()
                continue
            empty_answers = 0
            start, self._offset = self._offset, max(headers[-1][1].next_offset, self._offset)
            self._update_estimate(headers)
            if self._offset < end:
                self._fetch()  # The next fetch is in flight while these records are decoded.
            sound = _sound(split.topic_partition, data.records, headers, data, end)
            for rows in decode(data.records, sound, include_headers=include_headers):
                rows = _between(rows, start, end)
                if rows.num_rows:
                    yield split, _as_spark(rows, split.topic_partition)

    def _may_be_deleted(self) -> bool:
        """Whether the topic was deleted, and the query goes on without lost data."""
        topic = self._split.topic_partition.topic
        return not self._fail_on_data_loss and topic in self._cluster.look_up([topic]).missing

    def _fetch(self) -> None:
        """Send the next fetch. Its size is what the rest of the split should take, judged by the records read last, and
        one batch more: a batch that is cut off at its end would have to be fetched again."""
        left = self._split.end - self._offset
        wanted = left * self._seen_bytes // self._seen_offsets + self._largest_bytes
        self._future = self._cluster.fetch(self._split.topic_partition, self._offset, wanted)

    def _update_estimate(self, headers: list[tuple[int, BatchHeader]]) -> None:
        self._seen_offsets = max(headers[-1][1].next_offset - headers[0][1].base_offset, 1)
        self._seen_bytes = sum(header.size_bytes for _, header in headers)
        self._largest_bytes = max(header.size_bytes for _, header in headers)


def _sound(
    topic_partition: TopicPartition,
    records: Buffer,
    headers: list[tuple[int, BatchHeader]],
    data: RawBatches,
    end: int,
) -> Iterator[tuple[int, BatchHeader]]:
    aborted = [AbortedTransaction(*transaction) for transaction in data.aborted]
    for position, header in visible_batches(records, headers, aborted):
        if header.base_offset >= end:
            return
        if not verify_crc(records, position, header):
            raise DecodeError(f"{topic_partition}: the batch at offset {header.base_offset} fails its checksum")
        yield position, header


def _between(rows: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """Return the rows with offsets from ``start`` up to, and without, ``end``: a record batch may begin before the
    fetched offset, and end after the last one that is wanted."""
    offsets = rows.column("offset").to_numpy()
    low, high = np.searchsorted(offsets, (start, end))
    return rows.slice(int(low), int(high - low))


def _as_spark(rows: pa.RecordBatch, topic_partition: TopicPartition) -> pa.RecordBatch:
    count = rows.num_rows
    columns: Mapping[str, pa.Array] = {
        "key": rows.column("key"),
        "value": rows.column("value"),
        "topic": pa.repeat(pa.scalar(topic_partition.topic, pa.string()), count),
        "partition": pa.repeat(pa.scalar(topic_partition.partition, pa.int32()), count),
        "offset": rows.column("offset"),
        "timestamp": pc.multiply(rows.column("timestamp"), _MICROSECONDS).cast(_TIMESTAMP),
        "timestampType": rows.column("timestamp_type"),
    }
    if "headers" in rows.schema.names:
        columns = {**columns, "headers": rows.column("headers")}
    return pa.RecordBatch.from_pydict(dict(columns))


def _after_loss(split: Split, offset: int, cluster: Cluster, fail_on_data_loss: bool) -> int:
    topic_partition, _, end = split
    first = cluster.beginning_offsets([topic_partition])[topic_partition]
    if fail_on_data_loss:
        raise DataLost(topic_partition, offset, end, f"the log begins at {first}")
    log.warning("%s: offsets %d to %d are gone; going on at %d", topic_partition, offset, min(first, end), first)
    return first if first > offset else end
