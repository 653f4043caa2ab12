"""The page of all topics, with the groups that read each topic and their lag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from semel.admin import TopicListing
from semel.console import cached_requests
from semel.console.connections import Connection
from semel.console.lags import Lag, LagCounter
from semel.console.pages import Page, Visit
from semel.console.paging import matches, sliced
from semel.errors import KafkaError
from semel.types import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupOfTopic:
    group_id: str
    lag: Lag


@dataclass(frozen=True, slots=True)
class TopicRow:
    listing: TopicListing
    offsets: int
    unstable_count: int
    size_bytes: int | None
    rate: float | None
    groups: Sequence[GroupOfTopic]


def topics(visit: Visit) -> Page:
    connection = visit.connection
    with_internal = visit.query.get("internal") == "1"
    every = cached_requests.topics(connection)
    listed = [
        topic
        for _, topic in sorted(every.items())
        if (with_internal or not topic.is_internal) and matches(visit, topic.name)
    ]
    part = sliced(visit, "topics", listed)
    partitions = [TopicPartition(topic.name, index) for topic in part.rows for index in range(topic.partitions)]
    ends = cached_requests.ends(connection, partitions)
    committed = cached_requests.committed(connection)
    sizes = sizes_of(connection, partitions)
    measured = cached_requests.sample_rates(connection)
    counter = LagCounter(connection)
    rows = []
    for topic in part.rows:
        own = [TopicPartition(topic.name, index) for index in range(topic.partitions)]
        rows.append(
            TopicRow(
                topic,
                sum(ends[one].end - ends[one].start for one in own if one in ends),
                sum(ends[one].unstable_count for one in own if one in ends),
                None if sizes is None else sum(sizes.get(one, 0) for one in own),
                connection.rates.now(topic.name) if measured and not topic.is_internal else None,
                groups_of(counter, own, ends, committed or {}),
            )
        )
    values = {
        "part": part,
        "rows": rows,
        "query": visit.query.get("q", ""),
        "with_internal": with_internal,
        "topic_count": len(every),
        "knows_groups": committed is not None,
    }
    return Page("topics.html", "Topics", "topics", values)


def groups_of(
    counter: LagCounter,
    partitions: Sequence[TopicPartition],
    ends: Mapping[TopicPartition, cached_requests.Ends],
    committed: Mapping[str, Mapping[TopicPartition, int]],
) -> list[GroupOfTopic]:
    """Return the groups that have offsets in these partitions, those with the largest lag first."""
    found = []
    for group_id, offsets in committed.items():
        own = {partition: offsets[partition] for partition in partitions if partition in offsets}
        if own:
            found.append(GroupOfTopic(group_id, counter.group_lag(own, ends)))
    return sorted(found, key=lambda group: (-group.lag.records, group.group_id))


def sizes_of(connection: Connection, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
    """Return the size of the largest replica of each partition; ``None`` if this user may not see it."""
    wanted = tuple(partitions)

    def ask() -> dict[TopicPartition, int] | None:
        try:
            answers = connection.admin.cluster.log_dirs(partitions=wanted).succeeded
        except KafkaError:
            return None
        found: dict[TopicPartition, int] = {}
        for log_dirs in answers.values():
            for log_dir in log_dirs.values():
                for partition, replica in log_dir.replicas.items():
                    found[partition] = max(found.get(partition, 0), replica.size_bytes)
        return found or None

    return connection.answers.get(("sizes", wanted), cached_requests.CALM_S * 2, ask)
