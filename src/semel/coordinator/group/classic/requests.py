"""The requests of members of the classic protocol, as values. ``None`` stands for Kafka's -1 and null."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

# As long as the name of a topic may be.
MEMBER_NAME_CHARACTERS_MAX: Final = 249


class OfferedProtocol(NamedTuple):
    """An assignor that a member can work with, and what it has to say to it."""

    name: str
    metadata: bytes


Protocols: TypeAlias = tuple[OfferedProtocol, ...]
"""The ones a member offers, the preferred one first."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    group_id: str
    member_id: str
    """Empty: a new member, or a static one that has lost it."""
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    uuid: UUID
    """Never seen before: what a new member's id is made of."""
    knows_required_id: bool = True
    """From version 4 on a new member is first told its id, so that one that joins again is not one more member."""
    knows_skipped_assignment: bool = True
    """From version 9 on a static leader can be told that there is nothing to assign."""

    def new_member_id(self) -> str:
        """The id of a new member. Only the beginning of the client's is part of it: that may be as long as a string."""
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
    """The leader's: a member id and what is assigned to it."""


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
