"""The input and the output of a server-side assignor.

The laws, for the result of every assignor: complete (each partition of a subscribed topic has an owner), disjoint (no
partition has two), allowed (an owner subscribes to the topic), and a function of the arguments only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from semel.coordinator.group.consumer.records import NO_PARTITIONS, AssignedPartition, Partitions


@dataclass(frozen=True, slots=True)
class Subscriber:
    topics: frozenset[UUID]
    target: Partitions = NO_PARTITIONS
    """The member's previous target: a sticky assignor keeps as much of it as it can."""
    instance_id: str | None = None


class Assignor(Protocol):
    def __call__(
        self, subscribers: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int]
    ) -> dict[str, Partitions]:
        """Return each member's target. ``partition_counts`` has every topic that exists and is subscribed to."""


def subscribers_of_topics(
    subscribers: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int], member_ids: Iterable[str]
) -> dict[UUID, list[str]]:
    """Return the subscribers of each topic that exists: topics sorted by id, members in the order given."""
    by_topic: dict[UUID, list[str]] = {topic_id: [] for topic_id in sorted(partition_counts, key=lambda each: each.int)}
    for member_id in member_ids:
        for topic_id in subscribers[member_id].topics:
            if topic_id in by_topic:
                by_topic[topic_id].append(member_id)
    return by_topic


def partitions_of(topic_id: UUID, count: int) -> list[AssignedPartition]:
    return [AssignedPartition(topic_id, index) for index in range(count)]
