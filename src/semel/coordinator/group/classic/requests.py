"""The requests of members of the classic protocol, as values. ``None`` represents Kafka's -1 and null."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

# How much of a client id or instance id is used in a member id: as much as the longest name of a topic.
MEMBER_NAME_CHARACTERS_MAX: Final = 249


class OfferedProtocol(NamedTuple):
    """A protocol (an assignor) that a member supports, and the member's metadata for it, such as its subscription."""

    name: str
    metadata: bytes


Protocols: TypeAlias = tuple[OfferedProtocol, ...]
"""The protocols that a member offers, the preferred one first."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    group_id: str
    member_id: str
    """Empty for a new member, and for a static member that does not know its member id any more."""
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    uuid: UUID
    """A new UUID, which becomes part of the id of a new member."""
    knows_required_id: bool = True
    """From version 4 on a new member first receives its member id, so that it is not counted twice if it retries."""
    knows_skipped_assignment: bool = True
    """From version 9 on the response can tell a static leader not to compute an assignment."""

    def new_member_id(self) -> str:
        """Return an id for a new member: the beginning of its client id or instance id, and the UUID.

        Only the beginning, because a client may send an id as long as the protocol's strings can be.
        """
        name = self.client_id if self.instance_id is None else self.instance_id
        return f"{name[:MEMBER_NAME_CHARACTERS_MAX]}-{self.uuid}"


@dataclass(frozen=True, slots=True)
class SyncRequest:
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: tuple[tuple[str, bytes], ...]
    """Sent by the leader: pairs of a member id and its assignment."""


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int


class LeavingMember(NamedTuple):
    """A member that leaves. An administrator removes a static member by its instance id alone."""

    member_id: str
    instance_id: str | None = None
