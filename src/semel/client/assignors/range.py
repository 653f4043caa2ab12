"""The range assignor: of every topic, each member gets a run of adjacent partitions; the first members get one more.

The assignment is balanced per topic. Members that subscribe to the same topics get the same partition numbers of all
topics with equally many partitions, so records of one key reach one member if the topics are partitioned alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from semel.client.assignors.assignor import Assignment, RebalanceProtocol, Subscriptions, in_order
from semel.types import TopicPartition


class RangeAssignor:
    name: Final = "range"
    protocols: Final = (RebalanceProtocol.EAGER,)

    def subscription_user_data(self, topics: Collection[str]) -> None:
        return None

    def assign(self, partition_counts: Mapping[str, int], subscriptions: Subscriptions) -> dict[str, Assignment]:
        subscribers: dict[str, list[str]] = {}
        for member_id in in_order(subscriptions):
            for topic in dict.fromkeys(subscriptions[member_id].topics):
                subscribers.setdefault(topic, []).append(member_id)
        assigned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in subscriptions}
        for topic in sorted(subscribers):
            each, more = divmod(partition_counts.get(topic, 0), len(subscribers[topic]))
            start = 0
            for index, member_id in enumerate(subscribers[topic]):
                stop = start + each + (index < more)
                assigned[member_id] += (TopicPartition(topic, partition) for partition in range(start, stop))
                start = stop
        return {member_id: Assignment(tuple(partitions)) for member_id, partitions in assigned.items()}

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        pass
