"""One consumer group (KIP-848): the content of its records, with indexes, and the rules for its offsets.

                      member epoch        owns                          then
    Assigning         <  group epoch      as before                     the next heartbeat computes the targets
    Reconciling       -> target epoch     gives up, then takes over     member by member, each with its heartbeats
    Stable            =  group epoch      its target                    nothing, until something changes

Only ``replay`` changes a group, except for ``topics_version``, which is not in the log. The law: a partition has at
most one owner. In ``owners`` a member is still the owner of a partition that it has to revoke.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from semel.coordinator.decision import Waiter
from semel.coordinator.group.consumer.records import (
    NO_PARTITIONS,
    AssignedPartition,
    ConsumerGroupRecord,
    ConsumerGroupTombstone,
    ConsumerMember,
    CurrentAssignment,
    GroupEpoch,
    MemberState,
    Partitions,
    ResolvedRegex,
    Target,
    TargetEpoch,
)
from semel.coordinator.group.formats import Kind
from semel.coordinator.group.kinds import GroupKind
from semel.coordinator.group.membership import NO_MEMBER, Committer, Retention
from semel.errors import ErrorCode

# OffsetCommit carries a member epoch, and can be answered STALE_MEMBER_EPOCH, from this version on.
MEMBER_EPOCH_SINCE: Final = 9


class ConsumerGroup:
    """Implements ``directory.Group``."""

    kind = GroupKind.CONSUMER
    protocol_type = "consumer"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.members: dict[str, ConsumerMember] = {}
        self.instances: dict[str, str] = {}
        """The member ids of the static members, by instance id."""
        self.targets: dict[str, Partitions] = {}
        self.current: dict[str, CurrentAssignment] = {}
        self.owners: dict[AssignedPartition, str] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.topics_version: int | None = None
        """The version of the cluster's topics that the group's epoch takes account of; ``None`` after a load."""
        self._epoch: GroupEpoch | None = None
        self._target_epoch: TargetEpoch | None = None
        self._subscribed_topics: frozenset[str] | None = None
        """The result of ``subscribed_topics``, until a member or a regular expression changes."""

    def copy(self) -> ConsumerGroup:
        group = ConsumerGroup(self.group_id)
        group.members = dict(self.members)
        group.instances = dict(self.instances)
        group.targets = dict(self.targets)
        group.current = dict(self.current)
        group.owners = dict(self.owners)
        group.regexes = dict(self.regexes)
        group.topics_version = self.topics_version
        group._epoch = self._epoch
        group._target_epoch = self._target_epoch
        group._subscribed_topics = self._subscribed_topics
        return group

    # -- epochs and members

    @property
    def epoch(self) -> int:
        return 0 if self._epoch is None else self._epoch.epoch

    @property
    def metadata_hash(self) -> int:
        return 0 if self._epoch is None else self._epoch.metadata_hash

    @property
    def target_epoch(self) -> int:
        return 0 if self._target_epoch is None else self._target_epoch.epoch

    def assignment(self, member_id: str) -> CurrentAssignment:
        """The current assignment of a member; an empty one for a member that has just joined."""
        current = self.current.get(member_id)
        return CurrentAssignment(self.group_id, member_id, 0, 0, MemberState.STABLE) if current is None else current

    def target(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def topics_of(self, member: ConsumerMember) -> Iterable[str]:
        """The topic names that the member subscribes to, with those that match its regular expression."""
        regex = self.regexes.get(member.topic_regex) if member.topic_regex else None
        if regex is None:
            return member.topic_names
        return dict.fromkeys((*member.topic_names, *regex.topics))

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The topic names that any member subscribes to, with those that match regular expressions."""
        if self._subscribed_topics is None:
            names = set[str]().union(*(member.topic_names for member in self.members.values()))
            for pattern in {member.topic_regex or "" for member in self.members.values()}:
                if pattern in self.regexes:
                    names.update(self.regexes[pattern].topics)
            self._subscribed_topics = frozenset(names)
        return self._subscribed_topics

    @property
    def all_classic(self) -> bool:
        """Whether no member uses the KIP-848 protocol."""
        return all(member.classic is not None for member in self.members.values())

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        reconciled = (
            current.epoch == self.target_epoch and current.state is MemberState.STABLE
            for current in map(self.assignment, self.members)
        )
        return "Stable" if all(reconciled) else "Reconciling"

    def waiters(self) -> Iterator[Waiter[Any]]:
        """The deferred requests: none, since each request is answered at once."""
        return iter(())

    # -- records

    @property
    def is_forgotten(self) -> bool:
        """Whether every record of the group has been removed by a tombstone."""
        any_record = self.members or self.targets or self.current or self.regexes
        return not any_record and self._epoch is None and self._target_epoch is None

    def tombstones(self) -> tuple[ConsumerGroupTombstone, ...]:
        tombstones = [
            ConsumerGroupTombstone(kind, self.group_id, name)
            for kind, names in (
                (Kind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, self.current),
                (Kind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, self.targets),
                (Kind.CONSUMER_GROUP_MEMBER_METADATA, self.members),
                (Kind.CONSUMER_GROUP_REGULAR_EXPRESSION, self.regexes),
            )
            for name in names
        ]
        if self._target_epoch is not None:
            tombstones.append(ConsumerGroupTombstone(Kind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, self.group_id))
        if self._epoch is not None:
            tombstones.append(ConsumerGroupTombstone(Kind.CONSUMER_GROUP_METADATA, self.group_id))
        return tuple(tombstones)

    def replay(self, record: ConsumerGroupRecord | ConsumerGroupTombstone) -> None:
        self._subscribed_topics = None
        match record:
            case GroupEpoch():
                self._epoch = record
            case ConsumerMember():
                self._put_member(record.member_id, record)
            case TargetEpoch():
                self._target_epoch = record
            case Target():
                self.targets[record.member_id] = record.partitions
            case CurrentAssignment():
                self._put_current(record.member_id, record)
            case ResolvedRegex():
                self.regexes[record.regex] = record
            case ConsumerGroupTombstone():
                self._remove(record.kind, record.name or "")

    def _remove(self, kind: Kind, name: str) -> None:
        match kind:
            case Kind.CONSUMER_GROUP_METADATA:
                self._epoch = None
            case Kind.CONSUMER_GROUP_MEMBER_METADATA:
                self._put_member(name, None)
            case Kind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA:
                self._target_epoch = None
            case Kind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER:
                self.targets.pop(name, None)
            case Kind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT:
                self._put_current(name, None)
            case Kind.CONSUMER_GROUP_REGULAR_EXPRESSION:
                self.regexes.pop(name, None)

    def _put_member(self, member_id: str, member: ConsumerMember | None) -> None:
        known = self.members.pop(member_id, None) if member is None else self.members.get(member_id)
        if known is not None and known.instance_id is not None and self.instances.get(known.instance_id) == member_id:
            del self.instances[known.instance_id]
        if member is not None:
            self.members[member_id] = member
            if member.instance_id is not None:
                self.instances[member.instance_id] = member_id

    def _put_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        known = self.current.pop(member_id, None) if current is None else self.current.get(member_id)
        if known is not None:
            for partition in known.owned:
                if self.owners.get(partition) == member_id:
                    del self.owners[partition]
        if current is not None:
            self.current[member_id] = current
            for partition in current.owned:
                self.owners[partition] = member_id

    # -- the rules for offsets (``membership.Membership``)

    @property
    def is_empty(self) -> bool:
        return not self.members

    def validate_offset_commit(self, committer: Committer, *, transactional: bool, api_version: int) -> ErrorCode:
        if committer.generation is None and self.is_empty:
            return ErrorCode.NONE
        if committer == NO_MEMBER:
            # TxnOffsetCommit names the member only from version 3 on, and earlier versions must still work.
            return ErrorCode.NONE if transactional else ErrorCode.UNKNOWN_MEMBER_ID
        member = self.members.get(committer.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        instance_id = committer.instance_id
        if instance_id is not None and self.instances.get(instance_id) != committer.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if not transactional and member.classic is None and api_version < MEMBER_EPOCH_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        return self._validate_epoch(member, committer.generation)

    def validate_offset_fetch(self, *, member_id: str | None, member_epoch: int | None) -> ErrorCode:
        if not member_id and member_epoch is None:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else self._validate_epoch(member, member_epoch)

    def validate_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    def retention(self) -> Retention | None:
        """Each offset's retention time is counted from its own commit; it can expire if no member subscribes."""
        return Retention()

    def _validate_epoch(self, member: ConsumerMember, epoch: int | None) -> ErrorCode:
        if epoch == self.assignment(member.member_id).epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
