"""One member of a classic group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semel.coordinator.decision import Waiter
from semel.coordinator.group.classic.requests import Protocols
from semel.coordinator.group.records import Member


@dataclass(frozen=True, slots=True)
class ClassicMember:
    member_id: str
    instance_id: str | None
    """Set for a static member (KIP-345): it may go away and come back within its session without a rebalance."""
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """Whether its first JoinGroup is not answered yet. Until then it sends no heartbeats, and instead of its session
    timeout ``NEW_MEMBER_JOIN_TIMEOUT_MS`` applies."""
    joining: Waiter[Any] | None = None
    syncing: Waiter[Any] | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """Whether a request of the member is deferred: it then counts as alive without heartbeats."""
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol: str | None) -> bytes:
        """The metadata that the member offers with the protocol, such as its subscription; empty if it offers none."""
        return next((offered.metadata for offered in self.protocols if offered.name == protocol), b"")

    def recorded(self, protocol: str | None) -> Member:
        return Member(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=self.assignment,
        )
