"""The work of the leader of a generation, which knows the subscriptions of all members and assigns the partitions."""

from __future__ import annotations

from semel.client.assignors import Assignor, Subscription
from semel.client.assignors.assignor import Subscriptions
from semel.client.machine.connection.cluster_view import ClusterView
from semel.wire.messages.join_group import JoinGroupResponse
from semel.wire.messages.sync_group import SyncGroupRequestAssignment


class Leadership:
    """The subscriptions of all members in one generation. ``topics`` are those that any member subscribes to."""

    def __init__(self, members: Subscriptions) -> None:
        self._members = members
        self._assigned: dict[str, int] | None = None
        """The number of partitions of each topic when the assignment was made."""
        self.topics = tuple(sorted({topic for member in members.values() for topic in member.topics}))

    @classmethod
    def of(cls, response: JoinGroupResponse) -> Leadership:
        """Return the leadership after a JoinGroup. Raises ``DecodeError`` if a subscription cannot be decoded."""
        return cls(
            {
                member.member_id: Subscription.from_bytes(member.metadata, member.group_instance_id)
                for member in response.members
            }
        )

    def knows_topics(self, view: ClusterView) -> bool:
        """Whether the metadata has an answer for every topic, even if it is that the topic does not exist."""
        return all(topic in view.topics for topic in self.topics)

    def assign(self, assignor: Assignor, view: ClusterView) -> list[SyncGroupRequestAssignment]:
        self.watch(view)
        assigned = assignor.assign(self._counts(view), self._members)
        return [SyncGroupRequestAssignment(member_id, part.to_bytes()) for member_id, part in assigned.items()]

    def watch(self, view: ClusterView) -> None:
        """Note the current numbers of partitions as those that the assignment was made for."""
        self._assigned = self._counts(view)

    def is_outdated(self, view: ClusterView) -> bool:
        """Whether topics or partitions were added or removed since the assignment."""
        return self._assigned is not None and self._assigned != self._counts(view)

    def _counts(self, view: ClusterView) -> dict[str, int]:
        """Return the number of partitions of each topic that exists."""
        known = view.topics
        return {
            topic: len(known[topic].partitions) for topic in self.topics if topic in known and known[topic].partitions
        }
