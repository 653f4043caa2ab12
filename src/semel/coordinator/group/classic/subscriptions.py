"""The subscriptions of consumers of the classic protocol.

A subscription is bytes that the clients of a group send each other, and the protocol works without a coordinator that
understands them. The coordinator parses them nevertheless, to find out which topics no member reads any more, so that
their offsets may expire; whether a static member came back with other topics; and whether a cooperative rebalance is
half done.
"""

from __future__ import annotations

from collections.abc import Iterable

from semel.errors import DecodeError
from semel.types import TopicPartition
from semel.wire.messages.consumer_protocol import decode_assignment, decode_subscription, flattened


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all subscriptions; ``None`` if one cannot be parsed, since it may contain any topic."""
    topics: set[str] = set()
    for data in subscriptions:
        try:
            topics.update(decode_subscription(data).topics)
        except DecodeError:
            return None
    return frozenset(topics)


def partitions_awaiting_rejoin(members: Iterable[tuple[bytes, bytes]]) -> frozenset[TopicPartition]:
    """Return the partitions that members owned when they joined and that were assigned to no member.

    In a cooperative rebalance their next owner gets them when the members join again. ``members``: the subscription and
    the assignment of each member. The result is empty if one of them cannot be parsed.
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
