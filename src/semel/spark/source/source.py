"""The data source "semel": topics as streaming and batch DataFrames, with the columns of Spark's own Kafka source.

A streaming query begins at the committed offsets of ``kafka.group.id``, else at ``startingOffsets``. A pipeline commits
the starting offsets before its query starts, so it always begins at committed offsets. Partitions that appear while a
query runs are read from their beginning.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from semel.client.config.consumer import IsolationLevel
from semel.client.values import OffsetAndMetadata
from semel.errors import ErrorCode, KafkaError, TimedOut
from semel.spark.cluster import Cluster
from semel.spark.decision import SourcePartition, batch_zero_offsets
from semel.spark.errors import BrokersAway
from semel.spark.refusals import check_servers, check_version
from semel.spark.source.offsets import Offsets, from_spark, resolve, to_spark
from semel.spark.source.options import SourceOptions
from semel.spark.source.reading import HEADERS_SCHEMA, SCHEMA, DataLost, new_partition_offsets, read_splits
from semel.spark.source.splits import Split, limited, shares_of, split
from semel.spark.task_process import prepare_process
from semel.types import TopicPartition

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    check_version()  # For an old version of Spark this error is clearer than the one about a missing name.
    raise


class SemelDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "semel"

    def schema(self) -> str:
        given = {name.lower(): value for name, value in self.options.items()}
        return f"{SCHEMA}, {HEADERS_SCHEMA}" if given.get("includeheaders", "false").lower() == "true" else SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(SourceOptions.parse(self.options, is_streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        return StreamReader(SourceOptions.parse(self.options, is_streaming=True))


class SplitsPartition(InputPartition):
    """The splits that one task reads, one after the other."""

    def __init__(self, splits: list[Split]) -> None:
        self.splits = splits


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The streaming reader. The planner calls it for offsets and splits; a task calls only ``read``, on a copy."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._latest: Offsets = {}
        self._end: Offsets | None = None
        self._topic_ids: dict[str, UUID] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle the reader, which happens in a task before the task reads its input: see ``prepare_process``."""
        prepare_process()
        self.__dict__.update(state)

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802
        check_servers(self._options.settings["bootstrap_servers"])
        cluster = cluster_of(self._options)
        with _naming_the_option(self._options):
            partitions = self._options.subscription.partitions(cluster)
            return to_spark(initial_offsets(self._options, partitions, cluster))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        count = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if count is None else ReadMaxRows(count)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with _naming_the_option(self._options):
            self._end = self._end_offsets()

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802
        return to_spark(self._latest) if self._latest else None

    def latestOffset(self, start: dict[str, dict[str, int]], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        with _naming_the_option(self._options):
            return self._planned(start, limit)

    def _planned(self, start: dict[str, dict[str, int]], limit: ReadLimit) -> dict[str, Any]:
        self._latest = latest = self._end_offsets() if self._end is None else self._end
        begins = from_spark(start)
        self._check_nothing_is_lost(begins, latest)
        # With failOnDataLoss=false, a partition that has vanished keeps its offset: it may only be gone for a moment.
        ends = {**begins, **{tp: max(end, begins.get(tp, 0)) for tp, end in latest.items()}}
        if isinstance(limit, ReadMaxRows):
            ends = limited({**begins, **self._new(ends, begins)}, ends, limit.max_rows)
        return to_spark(ends)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begins, ends = from_spark(start), from_spark(end)
        with _naming_the_option(self._options):
            begins.update(self._new(ends, begins))
        ranges = [Split(tp, begins[tp], offset) for tp, offset in ends.items()]
        return [SplitsPartition(share) for share in shares_of(ranges, self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)

    def _new(self, ends: Offsets, start: Offsets) -> Offsets:
        lost = self._options.fail_on_data_loss
        return new_partition_offsets(ends, start, cluster_of(self._options), fail_on_data_loss=lost)

    def _end_offsets(self) -> Offsets:
        cluster = cluster_of(self._options)
        partitions = self._looked_up(cluster)
        try:
            return cluster.end_offsets(partitions)
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            # A topic was deleted after the topics were looked up.
            return cluster.end_offsets(self._looked_up(cluster))

    def _looked_up(self, cluster: Cluster) -> list[TopicPartition]:
        partitions, topic_ids = self._options.subscription.look_up(cluster)
        if all(topic_id.int for topic_id in topic_ids.values()):  # An older broker has none.
            self._check_topics_are_the_same(partitions, topic_ids)
        return partitions

    def _check_topics_are_the_same(self, partitions: Sequence[TopicPartition], topic_ids: Mapping[str, UUID]) -> None:
        """Raises ``DataLost`` if a topic that had records was deleted and created again while the query runs: the
        records at its offsets are others now."""
        for partition in partitions:
            is_same = self._topic_ids.get(partition.topic) in (None, topic_ids[partition.topic])
            end = self._latest.get(partition, 0)
            if not is_same and end and self._options.fail_on_data_loss:
                raise DataLost(partition, 0, end, "the topic was deleted, and created again under the same name")
        self._topic_ids.update(topic_ids)

    def _check_nothing_is_lost(self, begins: Offsets, latest: Offsets) -> None:
        if not self._options.fail_on_data_loss:
            return
        for tp, begin in begins.items():
            if tp not in latest:
                raise DataLost(tp, begin, begin, "there is no such partition any more")
            if latest[tp] < begin:
                raise DataLost(tp, begin, begin, f"its last stable offset is {latest[tp]}")


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def __setstate__(self, state: dict[str, Any]) -> None:
        prepare_process()
        self.__dict__.update(state)

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        check_servers(options.settings["bootstrap_servers"])
        cluster = cluster_of(options)
        wanted = options.subscription.partitions(cluster)
        begins = resolve(options.starting, wanted, cluster, option="startingOffsets")
        ends = resolve(options.ending, wanted, cluster, option="endingOffsets")
        ranges = [Split(tp, begins[tp], ends[tp]) for tp in wanted]
        return [SplitsPartition([one]) for one in split(ranges, options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


def initial_offsets(options: SourceOptions, partitions: Sequence[TopicPartition], cluster: Cluster) -> Offsets:
    """Return where batch 0 begins. The result is the same whenever Spark asks again.

    A pipeline has noted this beside the group's offsets. A partition without a note has appeared since then: it is left
    out of the result, so Spark sees it as new, and it is read from its beginning.
    """
    committed: Mapping[TopicPartition, OffsetAndMetadata] = {}
    if options.group_id is not None:
        committed = cluster.committed(options.group_id, partitions)
        noted = batch_zero_offsets(
            {SourcePartition(options.group_id, partition): at for partition, at in committed.items()}
        )
        if noted:
            return {partition.topic_partition: offset for partition, offset in noted.items()}
    return starting_offsets(options, partitions, committed, cluster)


def starting_offsets(
    options: SourceOptions,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    cluster: Cluster,
) -> Offsets:
    """Return where a query without a checkpoint begins: at its group's committed offsets, else as its options say."""
    if len(committed) == len(partitions):
        return {tp: at.offset for tp, at in committed.items()}
    told = resolve(options.starting, partitions, cluster, option="startingOffsets")
    return {tp: committed[tp].offset if tp in committed else offset for tp, offset in told.items()}


def _read(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, SplitsPartition)
    read = read_splits(
        partition.splits,
        cluster_of(options),
        include_headers=options.include_headers,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    return (rows for _, rows in read)


@contextmanager
def _naming_the_option(options: SourceOptions) -> Iterator[None]:
    """Turn a timeout within this block into ``BrokersAway``, which names the source's option for the timeout."""
    try:
        yield
    except TimedOut as error:
        raise BrokersAway(error, "outageTimeoutMs", options.settings.get("default_api_timeout_ms")) from error


# A worker process runs many tasks, and keeps its connections for all of them. A forked process makes its own.
_clusters: dict[tuple[int, bool, tuple[tuple[str, str], ...]], Cluster] = {}


def cluster_of(options: SourceOptions) -> Cluster:
    key = (os.getpid(), options.reads_committed, tuple(sorted(options.settings.items())))
    if key not in _clusters:
        level = IsolationLevel.READ_COMMITTED if options.reads_committed else IsolationLevel.READ_UNCOMMITTED
        _clusters[key] = Cluster(isolation_level=level, **dict[str, Any](options.settings))
    return _clusters[key]
