"""The subscriptions of consumers of the classic protocol.

To the coordinator it is bytes that clients send each other, and it need not understand them. It looks all the same: so
offsets of a topic that no member reads any more can go, a static member that comes back with other topics is noticed,
and so is a cooperative rebalance of which only the first half was done.
"""

from __future__ import annotations

from collections.abc import Iterable

from semel.errors import DecodeError
from semel.types import TopicPartition
from semel.wire.messages.consumer_protocol import decode_assignment, decode_subscription, flattened


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all of them; ``None`` if one cannot be read, since then any topic may be meant."""
    topics: set[str] = set()
    for data in subscriptions:
        try:
            topics.update(decode_subscription(data).topics)
        except DecodeError:
            return None
    return frozenset(topics)


def partitions_in_passing(members: Iterable[tuple[bytes, bytes]]) -> frozenset[TopicPartition]:
    """What members had when they joined, and no member was assigned: their next owner gets it when they join once more.

    ``members``: the subscription and the assignment of each. What cannot be read says nothing.
    """
    had: set[TopicPartition] = set()
    assigned: set[TopicPartition] = set()
    for subscription, assignment in members:
        try:
            had.update(flattened(decode_subscription(subscription).owned_partitions))
            assigned.update(flattened(decode_assignment(assignment).assigned_partitions))
        except DecodeError:
            return frozenset()
    return frozenset(had - assigned)
