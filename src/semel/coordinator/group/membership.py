"""The interface through which the offset shard looks at a group's members.

An offset may be committed by a member of the current generation, or, while the group has no members, by a client that
names no member; and it does not expire while a member may still need it. Both depend on the group, so the offset
shard uses this interface: ``Groups`` finds a group, ``Membership`` checks what is allowed. The group directory
implements ``Groups``, and the groups implement ``Membership``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from semel.coordinator.group.records import GroupRecord
from semel.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Retention:
    """The time from which the retention time of a group's offsets is counted."""

    since_ms: int | None = None
    """``None``: each offset's retention time is counted from its own commit."""


@dataclass(frozen=True, slots=True)
class Committer:
    """The member that commits offsets, as OffsetCommit and TxnOffsetCommit name it."""

    member_id: str = ""
    generation: int | None = None
    """The member epoch in the consumer protocol (KIP-848). ``None``: the client names no generation."""
    instance_id: str | None = None


NO_MEMBER: Final = Committer()


class Membership(Protocol):
    """A group, as far as the offset shard uses it."""

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    def validate_offset_commit(self, committer: Committer, *, transactional: bool, api_version: int) -> ErrorCode:
        """Whether this member, in this generation, may commit offsets for the group."""

    def validate_offset_fetch(self, *, member_id: str | None, member_epoch: int | None) -> ErrorCode:
        """Whether this member may fetch offsets. Members of the classic protocol do not name themselves here."""

    def validate_offset_delete(self) -> ErrorCode:
        """Whether offsets of the group may be deleted, for topics where ``is_subscribed`` is false."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member subscribes to the topic: its offsets then neither expire nor may be deleted."""

    def retention(self) -> Retention | None:
        """From when the offsets' retention time is counted. ``None``: none expires in the group's present state."""


class Groups(Protocol):
    """The groups of one shard that have members, or had members before."""

    def membership(self, group_id: str) -> Membership | None: ...

    def tombstones(self, group_id: str) -> tuple[GroupRecord, ...]:
        """The records that delete the group; empty if the group is not known."""
