"""The groups of one shard and their deadlines: one dict, whatever the kind of a group.

The law: what is in the log changes it by ``replay``, everything else by a ``Change`` that was decided, and nothing else
changes it. A group is of one kind at a time. It becomes another one by records only: a tombstone of the old kind, then
the first record of the new one, in one batch.
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
    """One group that has, or had, members: of any kind."""

    @property
    def group_id(self) -> str: ...

    @property
    def kind(self) -> GroupKind: ...

    @property
    def members(self) -> Mapping[str, object]:
        """By member id."""

    @property
    def protocol_type(self) -> str:
        """``consumer``, ``connect``, ..., or empty for a group that never had a member."""

    @property
    def state_name(self) -> str:
        """Kafka's word for it."""

    def tombstones(self) -> tuple[GroupRecord, ...]:
        """The records that make it forgotten."""

    def waiters(self) -> Iterable[Waiter[Any]]:
        """The requests that wait for this group."""


class Deadline(IntEnum):
    """What a deadline is for."""

    SESSION = 0
    """A member must be heard. Classic: a member id that was handed out must be used."""
    REBALANCE = 1
    """Classic: the members must have joined. KIP-848: a member must have revoked."""
    SYNC = 2
    """Classic: the members must have asked for their assignments."""


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
        """Remember a record of a group, by its kind."""
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
                return  # Of a group that is of another kind by now, or gone.
            group = self.groups[record.group_id] = ConsumerGroup(record.group_id)
        group.replay(record)
        if group.is_forgotten:
            del self.groups[record.group_id]

    def _forget(self, group_id: str, kind: GroupKind) -> None:
        group = self.groups.get(group_id)
        if group is not None and group.kind is kind:
            del self.groups[group_id]


class Change(Protocol):
    """Of what is not in the log. Applied after the decision's records were replayed."""

    def apply(self, directory: GroupDirectory) -> None: ...


@dataclass(frozen=True, slots=True)
class SetDeadline:
    key: DeadlineKey
    due_ms: float
    """On the monotonic clock."""

    def apply(self, directory: GroupDirectory) -> None:
        directory.deadlines.set(self.key, self.due_ms)


@dataclass(frozen=True, slots=True)
class DiscardDeadline:
    key: DeadlineKey

    def apply(self, directory: GroupDirectory) -> None:
        directory.deadlines.discard(self.key)


@dataclass(frozen=True, slots=True)
class PutGroup:
    """The group as it is from now on; ``None``: there is none."""

    group_id: str
    group: Group | None

    def apply(self, directory: GroupDirectory) -> None:
        if self.group is None:
            directory.groups.pop(self.group_id, None)
        else:
            directory.groups[self.group_id] = self.group
