"""The groups of one shard, of every kind, in one dict; and their deadlines.

The law: state that is in the log is changed by ``replay``, all other state by a ``Change`` of a decision, and nothing
else changes any of it. A group is of one kind at a time. It is converted to another kind by records only: a tombstone
of the old kind, then the first record of the new kind, in one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from semel.coordinator.deadlines import Deadlines
from semel.coordinator.decision import Waiter
from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.records import ConsumerGroupRecord, ConsumerGroupTombstone
from semel.coordinator.group.kinds import GroupKind
from semel.coordinator.group.membership import Membership
from semel.coordinator.group.records import (
    GroupMetadata,
    GroupRecord,
    GroupTombstone,
    MembershipRecord,
)


class Group(Membership, Protocol):
    """A group of any kind that has members, or had members before."""

    @property
    def group_id(self) -> str: ...

    @property
    def kind(self) -> GroupKind: ...

    @property
    def members(self) -> Mapping[str, object]:
        """The members, by member id."""

    @property
    def protocol_type(self) -> str:
        """``consumer``, ``connect``, ..., or empty for a group that never had a member."""

    @property
    def state_name(self) -> str:
        """Kafka's name for the group's state."""

    def tombstones(self) -> tuple[GroupRecord, ...]:
        """The records that delete the group."""

    def waiters(self) -> Iterable[Waiter[Any]]:
        """The deferred requests of the group's members."""


class Deadline(IntEnum):
    """The purpose of a deadline: what must have happened before it."""

    SESSION = 0
    """The member must send a request. Also in the classic protocol: a member id that was handed out must be used."""
    REBALANCE = 1
    """Classic: the members must join. KIP-848: the member must revoke its partitions."""
    SYNC = 2
    """Classic: the members must send SyncGroup."""


class DeadlineKey(NamedTuple):
    group_id: str
    deadline: Deadline
    member_id: str = ""


class GroupDirectory:
    """Implements ``membership.Groups``."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.deadlines: Deadlines[DeadlineKey] = Deadlines()

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups.values())

    def membership(self, group_id: str) -> Group | None:
        return self.groups.get(group_id)

    def tombstones(self, group_id: str) -> tuple[GroupRecord, ...]:
        group = self.groups.get(group_id)
        return () if group is None else group.tombstones()

    def replay(self, record: MembershipRecord) -> None:
        """Change the group by a record that is in the log."""
        match record:
            case GroupMetadata():
                self.groups[record.group_id] = ClassicGroup.of_record(record)
            case GroupTombstone():
                self._forget(record.group_id, GroupKind.CLASSIC)
            case _:
                self._replay_consumer(record)

    def _replay_consumer(self, record: ConsumerGroupRecord | ConsumerGroupTombstone) -> None:
        group = self.groups.get(record.group_id)
        if not isinstance(group, ConsumerGroup):
            if isinstance(record, ConsumerGroupTombstone):
                return  # The group has been converted to another kind, or is deleted.
            group = self.groups[record.group_id] = ConsumerGroup(record.group_id)
        group.replay(record)
        if group.is_forgotten:
            del self.groups[record.group_id]

    def _forget(self, group_id: str, kind: GroupKind) -> None:
        group = self.groups.get(group_id)
        if group is not None and group.kind is kind:
            del self.groups[group_id]


class Change(Protocol):
    """A change of state that is not in the log. It is applied after the decision's records were replayed."""

    def apply(self, directory: GroupDirectory) -> None: ...


@dataclass(frozen=True, slots=True)
class SetDeadline:
    key: DeadlineKey
    due_ms: float
    """The time of the deadline on the monotonic clock."""

    def apply(self, directory: GroupDirectory) -> None:
        directory.deadlines.set(self.key, self.due_ms)


@dataclass(frozen=True, slots=True)
class DiscardDeadline:
    key: DeadlineKey

    def apply(self, directory: GroupDirectory) -> None:
        directory.deadlines.discard(self.key)


@dataclass(frozen=True, slots=True)
class PutGroup:
    """Replaces the group in the directory by ``group``; ``None`` removes it."""

    group_id: str
    group: Group | None

    def apply(self, directory: GroupDirectory) -> None:
        if self.group is None:
            directory.groups.pop(self.group_id, None)
        else:
            directory.groups[self.group_id] = self.group
