"""The progress of a pipeline: the committed offsets of its groups and the lag; and what Spark's own progress lacks.

``progress_of`` reads the brokers, so it is right wherever the query runs, and also before its start and after its end.
Spark's progress is about one batch. Spark gets the latest offsets from a Python source, but neither its name nor
metrics, and nothing at all from a function for ``foreachBatch``: ``PipelineQuery`` adds these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from semel.spark.cluster import Cluster
from semel.spark.source.offsets import from_spark
from semel.spark.source.options import SourceOptions
from semel.types import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The progress in one partition that is read. ``committed`` is ``None`` until a first start has committed a
    starting offset for it."""

    group_id: str
    topic_partition: TopicPartition
    committed: int | None
    last_stable_offset: int

    @property
    def lag(self) -> int | None:
        """The number of offsets that are stable and not yet consumed. It counts markers and aborted records too."""
        return None if self.committed is None else max(0, self.last_stable_offset - self.committed)


def progress_of(sources: Iterable[SourceOptions], cluster: Cluster) -> list[PartitionProgress]:
    found = []
    for source in sources:
        partitions = source.subscription.partitions(cluster)
        group_id = source.group_id or ""
        # In this order, because in the other one a committed offset could be beyond the last stable offset.
        committed = cluster.committed(group_id, partitions)
        ends = cluster.end_offsets(partitions)
        for topic_partition in partitions:
            at = committed.get(topic_partition)
            offset = None if at is None else at.offset
            found.append(PartitionProgress(group_id, topic_partition, offset, ends[topic_partition]))
    return found


def total_lag(progress: Iterable[PartitionProgress]) -> int:
    return sum(one.lag or 0 for one in progress)


@dataclass(frozen=True, slots=True)
class BatchOutput:
    """What a batch has written. ``row_count``: the rows in the topic; ``None`` if there is no topic."""

    row_count: int | None
    metrics: Mapping[str, int]


class PipelineQuery(StreamingQuery):
    """Spark's query, with a progress that names sources and sink, and has the lag of the sources and the rows written.

    ``output`` returns what a batch has written. ``on_failure`` is called with an error that ends the query, before
    it is raised to the caller.
    """

    def __init__(
        self,
        query: StreamingQuery,
        *,
        sources: Sequence[str],
        sink: str,
        output: Callable[[int], BatchOutput],
        on_failure: Callable[[StreamingQueryException], None],
    ) -> None:
        super().__init__(query._jsq)
        self._sources = sources
        self._sink = sink
        self._output = output
        self._on_failure = on_failure

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802 (Spark's name)
        return [self._completed(progress) for progress in super().recentProgress]

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802
        last = super().lastProgress
        return None if last is None else self._completed(last)

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802
        try:
            return super().awaitTermination(timeout)
        except StreamingQueryException as error:
            self._on_failure(error)
            raise

    def processAllAvailable(self) -> None:  # noqa: N802
        try:
            super().processAllAvailable()
        except StreamingQueryException as error:
            self._on_failure(error)
            raise

    def _completed(self, progress: StreamingQueryProgress) -> StreamingQueryProgress:
        said: dict[str, Any] = json.loads(progress.json)
        if len(said["sources"]) == len(self._sources):
            for source, name in zip(said["sources"], self._sources, strict=True):
                source["description"] = name
                source["metrics"] = {**source.get("metrics", {}), **behind_latest(source)}
        output = self._output(said["batchId"])
        sink = said["sink"]
        sink["description"] = self._sink
        if output.row_count is not None:
            sink["numOutputRows"] = output.row_count
        sink["metrics"] = {**sink.get("metrics", {}), **{name: str(value) for name, value in output.metrics.items()}}
        return StreamingQueryProgress.fromJson(said)


def behind_latest(source: Mapping[str, Any]) -> dict[str, str]:
    """Return the lag of a source after a batch: the three metrics of Spark's own Kafka source, and as ``lag`` the sum
    over all partitions."""
    end, latest = source.get("endOffset"), source.get("latestOffset")
    if not isinstance(end, dict) or not isinstance(latest, dict):
        return {}
    ends = from_spark(end)
    behind = [max(0, offset - ends.get(topic_partition, 0)) for topic_partition, offset in from_spark(latest).items()]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
        "lag": str(sum(behind)),
    }
