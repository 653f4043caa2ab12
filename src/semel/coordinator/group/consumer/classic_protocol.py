"""Conversions between messages of the classic protocol and values of a consumer group."""

from __future__ import annotations

from collections.abc import Iterable

from semel.coordinator.group.classic.requests import Protocols
from semel.coordinator.group.consumer.records import (
    AssignedPartition,
    ClassicProtocols,
    ConsumerMember,
    Partitions,
)
from semel.coordinator.group.topics import TopicsView
from semel.errors import DecodeError
from semel.types import TopicPartition
from semel.wire.messages.consumer_protocol import (
    VERSION_MAX,
    ConsumerProtocolAssignment,
    ConsumerProtocolPartitions,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    grouped,
)


def classic_member(
    group_id: str,
    member_id: str,
    instance_id: str | None,
    *,
    client_id: str,
    client_host: str,
    rebalance_timeout_ms: int,
    session_timeout_ms: int,
    protocols: Protocols,
) -> ConsumerMember | None:
    """Return the member, or ``None`` if its subscription cannot be parsed."""
    subscription = subscription_of(protocols)
    if subscription is None:
        return None
    return ConsumerMember(
        group_id,
        member_id,
        instance_id,
        subscription.rack_id,
        client_id,
        client_host,
        tuple(sorted(set(subscription.topics))),
        None,
        rebalance_timeout_ms,
        None,
        ClassicProtocols(session_timeout_ms, tuple((offered.name, offered.metadata) for offered in protocols)),
    )


def subscription_of(protocols: Protocols) -> ConsumerProtocolSubscription | None:
    """Return the subscription for the preferred assignor; ``None`` if it cannot be parsed.

    Consumers send the same subscription for all their assignors.
    """
    try:
        return decode_subscription(protocols[0].metadata) if protocols else None
    except DecodeError:
        return None


def claimed_by(subscription: ConsumerProtocolSubscription, topics: TopicsView) -> Partitions:
    """Return the partitions that the member still owns: none, if it revokes all of them before it joins (eager).

    The generation in which it got them does not matter: it may still be reading any partition that it names, and must
    then revoke it.
    """
    return _partitions(subscription.owned_partitions, topics)


def assignment_of(data: bytes, topics: TopicsView) -> Partitions:
    """Return the partitions that a leader has assigned; none if the assignment cannot be parsed."""
    try:
        return _partitions(decode_assignment(data).assigned_partitions, topics)
    except DecodeError:
        return frozenset()


def has_user_data(data: bytes) -> bool:
    try:
        return bool(decode_assignment(data).user_data)
    except DecodeError:
        return True


def encoded_assignment(member: ConsumerMember, partitions: Partitions, topics: TopicsView) -> bytes:
    """Encode the assignment of a member, in the version of its subscription."""
    assert member.classic is not None, member
    version = int.from_bytes(member.classic.protocols[0][1][:2], "big", signed=True)
    named = []
    for partition in partitions:
        topic = topics.by_id(partition.topic_id)
        if topic is not None:
            named.append(TopicPartition(topic.name, partition.partition))
    return encode_assignment(ConsumerProtocolAssignment(grouped(named)), max(0, min(version, VERSION_MAX)))


def _partitions(named: Iterable[ConsumerProtocolPartitions], topics: TopicsView) -> Partitions:
    found: set[AssignedPartition] = set()
    for each in named:
        topic = topics.by_name(each.topic)
        if topic is not None:
            found.update(AssignedPartition(topic.topic_id, index) for index in each.partitions)
    return frozenset(found)
