"""The memory that a member may take: what it offers or subscribes to, and what it is assigned.

A member keeps it for as long as its session lasts, which may be half an hour. Kafka has no limit of its own: there the
record that holds a group must fit ``max.message.bytes`` (1 MB), and what does not is UNKNOWN_SERVER_ERROR. Here a
member is refused with INVALID_REQUEST, and one that would make its group too large with GROUP_MAX_SIZE_REACHED; neither
code makes a client try again. A member that leaves, or whose session ends, gives back what it took.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from semel.coordinator.group.classic.member import ClassicMember
from semel.coordinator.group.classic.requests import JoinRequest, Protocols, SyncRequest
from semel.coordinator.group.consumer.records import ConsumerMember
from semel.errors import ErrorCode

MEMBER_BYTES_MAX: Final = 1024 * 1024
GROUP_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of what its members offer, and again of what they are assigned."""
COUNTED_FROM_BYTES: Final = 8 * 1024
"""A member smaller than this may always join: a thousand of them are no more than a group may have."""


def refusal_of_join(members: Collection[ClassicMember], request: JoinRequest) -> ErrorCode:
    size_bytes = _protocols_bytes(request.protocols)
    if size_bytes <= COUNTED_FROM_BYTES:
        return ErrorCode.NONE
    if size_bytes > MEMBER_BYTES_MAX:
        return ErrorCode.INVALID_REQUEST
    others = (member for member in members if member.member_id != request.member_id)
    taken = sum(_protocols_bytes(member.protocols) for member in others)
    return ErrorCode.GROUP_MAX_SIZE_REACHED if taken + size_bytes > GROUP_BYTES_MAX else ErrorCode.NONE


def refusal_of_sync(request: SyncRequest) -> ErrorCode:
    sizes = [len(assignment) for _, assignment in request.assignments]
    too_large = max(sizes, default=0) > MEMBER_BYTES_MAX or sum(sizes) > GROUP_BYTES_MAX
    return ErrorCode.INVALID_REQUEST if too_large else ErrorCode.NONE


def refusal_of_subscription(
    members: Iterable[ConsumerMember], member_id: str, topic_names: Collection[str]
) -> tuple[ErrorCode, str] | None:
    """Why a member of the consumer protocol may not subscribe to so many names."""
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


def _protocols_bytes(protocols: Protocols) -> int:
    return sum(len(offered.name) + len(offered.metadata) for offered in protocols)
