"""Limits on the memory of a group member: its offered protocols or subscribed topics, and its assignment.

This memory is held while the member's session lasts, which may be half an hour without a request. Kafka has no such
limit: there the record of a classic group must fit ``max.message.bytes`` (1 MB), and a larger one results in
UNKNOWN_SERVER_ERROR. Here a member that is too large is refused with INVALID_REQUEST, and one that would make its group
too large with GROUP_MAX_SIZE_REACHED; clients do not retry after either code. The memory is freed when the member
leaves or its session ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.classic.requests import JoinRequest, SyncRequest
from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.records import ConsumerMember
from semel.coordinator.group.directory import Group
from semel.errors import ErrorCode

MEMBER_BYTES_MAX: Final = 1024 * 1024
GROUP_BYTES_MAX: Final = 8 * 1024 * 1024
"""The limit for what all members of a group offer or subscribe to, and separately for what they are assigned."""
COUNTED_FROM_BYTES: Final = 8 * 1024
"""A member up to this size may always join: a thousand such members are not more than ``GROUP_BYTES_MAX``."""


def refusal_of_join(group: Group | None, request: JoinRequest) -> ErrorCode:
    size_bytes = _protocols_bytes(request.protocols)
    if size_bytes <= COUNTED_FROM_BYTES:
        return ErrorCode.NONE
    if size_bytes > MEMBER_BYTES_MAX:
        return ErrorCode.INVALID_REQUEST
    taken = sum(_protocols_bytes(offered) for member_id, offered in _offered(group) if member_id != request.member_id)
    return ErrorCode.GROUP_MAX_SIZE_REACHED if taken + size_bytes > GROUP_BYTES_MAX else ErrorCode.NONE


def refusal_of_sync(request: SyncRequest) -> ErrorCode:
    sizes = [len(assignment) for _, assignment in request.assignments]
    too_large = max(sizes, default=0) > MEMBER_BYTES_MAX or sum(sizes) > GROUP_BYTES_MAX
    return ErrorCode.INVALID_REQUEST if too_large else ErrorCode.NONE


def refusal_of_subscription(
    members: Iterable[ConsumerMember], member_id: str, topic_names: Collection[str]
) -> tuple[ErrorCode, str] | None:
    """Return why a member of the consumer protocol may not subscribe to these names, or ``None`` if it may."""
    size_bytes = sum(map(len, topic_names))
    if size_bytes <= COUNTED_FROM_BYTES:
        return None
    if size_bytes > MEMBER_BYTES_MAX:
        return ErrorCode.INVALID_REQUEST, f"SubscribedTopicNames are {size_bytes} bytes; at most {MEMBER_BYTES_MAX}"
    taken = sum(sum(map(len, member.topic_names)) for member in members if member.member_id != member_id)
    if taken + size_bytes <= GROUP_BYTES_MAX:
        return None
    return (
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"SubscribedTopicNames are {size_bytes} bytes, those of the other members {taken}; at most {GROUP_BYTES_MAX}",
    )


def _offered(group: Group | None) -> Iterator[tuple[str, Iterable[tuple[str, bytes]]]]:
    """Yield the protocols that each member offers. KIP-848 members of a consumer group offer none."""
    if isinstance(group, ClassicGroup):
        for member in group.members.values():
            yield member.member_id, member.protocols
    elif isinstance(group, ConsumerGroup):
        for consumer in group.members.values():
            if consumer.classic is not None:
                yield consumer.member_id, consumer.classic.protocols


def _protocols_bytes(protocols: Iterable[tuple[str, bytes]]) -> int:
    return sum(len(name) + len(metadata) for name, metadata in protocols)
