"""What the leader of a generation does for the others: it knows what all members want, and assigns the partitions."""

from __future__ import annotations

from semel.client.assignors import Assignor, Subscription
from semel.client.assignors.assignor import Subscriptions
from semel.client.machine.connection.cluster_view import ClusterView
from semel.wire.messages.join_group import JoinGroupResponse
from semel.wire.messages.sync_group import SyncGroupRequestAssignment


class Leadership:
    """Of one generation. ``topics`` are those that any member wants."""

    def __init__(self, members: Subscriptions) -> None:
        self._members = members
        self._assigned: dict[str, int] | None = None
        """The partitions that there were when they were assigned."""
        self.topics = tuple(sorted({topic for member in members.values() for topic in member.topics}))

    @classmethod
    def of(cls, response: JoinGroupResponse) -> Leadership:
        """Raises ``DecodeError`` if a member has said what cannot be read."""
        return cls(
            {
                member.member_id: Subscription.from_bytes(member.metadata, member.group_instance_id)
                for member in response.members
            }
        )

    def knows_topics(self, view: ClusterView) -> bool:
        """Whether it is known of every topic what there is of it, even if that is nothing."""
        return all(topic in view.topics for topic in self.topics)

    def assign(self, assignor: Assignor, view: ClusterView) -> list[SyncGroupRequestAssignment]:
        self.watch(view)
        assigned = assignor.assign(self._counts(view), self._members)
        return [SyncGroupRequestAssignment(member_id, part.to_bytes()) for member_id, part in assigned.items()]

    def watch(self, view: ClusterView) -> None:
        """The assignment is about what there is now."""
        self._assigned = self._counts(view)

    def is_outdated(self, view: ClusterView) -> bool:
        """Whether topics or partitions have come or gone since."""
        return self._assigned is not None and self._assigned != self._counts(view)

    def _counts(self, view: ClusterView) -> dict[str, int]:
        """How many partitions the topics have; those that do not exist are not in it."""
        known = view.topics
        return {
            topic: len(known[topic].partitions) for topic in self.topics if topic in known and known[topic].partitions
        }
