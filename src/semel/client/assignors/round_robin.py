"""The round-robin assignor: all partitions of all topics are dealt out in turn.

The assignment is balanced if all members subscribe to the same topics.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import cycle
from typing import Final

from semel.client.assignors.assignor import Assignment, RebalanceProtocol, Subscriptions, in_order
from semel.types import TopicPartition


class RoundRobinAssignor:
    name: Final = "roundrobin"
    protocols: Final = (RebalanceProtocol.EAGER,)

    def subscription_user_data(self, topics: Collection[str]) -> None:
        return None

    def assign(self, partition_counts: Mapping[str, int], subscriptions: Subscriptions) -> dict[str, Assignment]:
        wanted = {member_id: frozenset(subscription.topics) for member_id, subscription in subscriptions.items()}
        assigned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in subscriptions}
        turn = cycle(in_order(subscriptions))
        for topic in sorted(frozenset().union(*wanted.values())):
            for partition in range(partition_counts.get(topic, 0)):
                # This ends, because at least one member subscribes to the topic.
                member_id = next(member_id for member_id in turn if topic in wanted[member_id])
                assigned[member_id].append(TopicPartition(topic, partition))
        return {member_id: Assignment(tuple(partitions)) for member_id, partitions in assigned.items()}

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        pass
