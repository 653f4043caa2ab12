"""The progress of a pipeline: the committed offsets of its groups, and how much is left to read.

It is read from the brokers, so it is right wherever the query runs, and also before its start and after its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from semel.spark.cluster import Cluster
from semel.spark.source.options import SourceOptions
from semel.types import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """One partition that is read. ``committed`` is ``None`` before the first start has taken note of it."""

    group_id: str
    topic_partition: TopicPartition
    committed: int | None
    last_stable_offset: int

    @property
    def lag(self) -> int | None:
        """Offsets that are stable and not yet consumed. Markers and aborted records take offsets, too."""
        return None if self.committed is None else max(0, self.last_stable_offset - self.committed)


def progress_of(sources: Iterable[SourceOptions], cluster: Cluster) -> list[PartitionProgress]:
    found = []
    for source in sources:
        partitions = source.subscription.partitions(cluster)
        group_id = source.group_id or ""
        # In this order: asked the other way round, what is committed could be ahead of what was stable.
        committed = cluster.committed(group_id, partitions)
        ends = cluster.end_offsets(partitions)
        for topic_partition in partitions:
            at = committed.get(topic_partition)
            offset = None if at is None else at.offset
            found.append(PartitionProgress(group_id, topic_partition, offset, ends[topic_partition]))
    return found


def total_lag(progress: Iterable[PartitionProgress]) -> int:
    return sum(one.lag or 0 for one in progress)
