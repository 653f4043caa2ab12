"""The results of requests of the classic protocol, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from semel.errors import ErrorCode


class JoinedMember(NamedTuple):
    """A member, as the leader receives it with the response to JoinGroup."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    error: ErrorCode
    member_id: str
    generation: int | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    """Filled for the leader only."""
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncResult:
    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    error: ErrorCode


class LeftMember(NamedTuple):
    member_id: str
    instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeaveResult:
    error: ErrorCode
    members: tuple[LeftMember, ...] = ()
    """The members that were to leave, in the order of the request."""


ALIVE: Final = HeartbeatResult(ErrorCode.NONE)
REBALANCING: Final = HeartbeatResult(ErrorCode.REBALANCE_IN_PROGRESS)
