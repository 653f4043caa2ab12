"""The membership of a group, as far as its offsets must know it.

An offset may be committed by a member of the current generation, or, while the group has no members, by a client that
claims to be none; and it stays for as long as a member may come back for it. Both depend on the group, so the offset
shard asks: ``Groups`` finds a group, ``Membership`` answers for it. Group coordination implements the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from semel.coordinator.group.records import GroupRecord
from semel.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Retention:
    """From when on the retention time of a group's offsets runs."""

    since_ms: int | None = None
    """``None``: of each offset, from its own commit."""


@dataclass(frozen=True, slots=True)
class Committer:
    """The member that commits offsets, as OffsetCommit and TxnOffsetCommit name it."""

    member_id: str = ""
    generation: int | None = None
    """A member epoch in KIP-848's protocol; ``None``: the client is in no generation."""
    instance_id: str | None = None


NO_MEMBER: Final = Committer()


class Membership(Protocol):
    """One group that exists."""

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    def validate_offset_commit(self, committer: Committer, *, transactional: bool, api_version: int) -> ErrorCode:
        """Whether this member, in this generation, may commit offsets for the group."""

    def validate_offset_fetch(self, *, member_id: str | None, member_epoch: int | None) -> ErrorCode:
        """Whether this member may read offsets. Members of the classic protocol are not named."""

    def validate_offset_delete(self) -> ErrorCode:
        """Whether offsets of topics that ``is_subscribed`` denies may be deleted."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads the topic: its offsets are then neither deleted nor do they expire."""

    def retention(self) -> Retention | None:
        """``None``: no offset expires as long as the group is as it is."""


class Groups(Protocol):
    """The groups of one shard that have, or had, members."""

    def membership(self, group_id: str) -> Membership | None: ...

    def tombstones(self, group_id: str) -> tuple[GroupRecord, ...]:
        """The records that make it forgotten; none if it is not known."""
