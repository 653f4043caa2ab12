"""The ``range`` assignor: every subscriber of a topic gets one range of its partitions.

Members have one order for all topics, so topics with the same subscribers and as many partitions are split in the same
places: in a join of two such topics by key, one member gets the records of a key from both. A new member shifts the
ranges; the assignor is not sticky. Static members are sorted by their instance id, which a restart does not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from semel.coordinator.group.consumer.assignor import Subscriber, partitions_of, subscribers_of_topics
from semel.coordinator.group.consumer.records import AssignedPartition, Partitions


def assign_range(subscribers: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int]) -> dict[str, Partitions]:
    assigned: dict[str, list[AssignedPartition]] = {member_id: [] for member_id in subscribers}
    order = sorted(subscribers, key=lambda member_id: _place(member_id, subscribers[member_id]))
    for topic_id, members in subscribers_of_topics(subscribers, partition_counts, order).items():
        partitions = partitions_of(topic_id, partition_counts[topic_id])
        size, larger = divmod(len(partitions), len(members)) if members else (0, 0)
        first = 0
        for number, member_id in enumerate(members):
            end = first + size + (number < larger)
            assigned[member_id] += partitions[first:end]
            first = end
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def _place(member_id: str, subscriber: Subscriber) -> tuple[bool, str, str]:
    if subscriber.instance_id is not None:
        return False, subscriber.instance_id, member_id
    return True, "", member_id
