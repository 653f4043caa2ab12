"""A group of the classic protocol: a value that is replaced, never changed.

Most of it is in the log, as of the last completed rebalance; ``of_record`` restores that. The rest (the deferred
requests, the member ids that were handed out, the members that have not sent SyncGroup) is lost when the coordinator
fails over, and the members then send their requests again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from semel.coordinator.decision import Waiter
from semel.coordinator.group.classic.member import ClassicMember
from semel.coordinator.group.classic.pending_ids import NO_IDS, PendingIds
from semel.coordinator.group.classic.requests import OfferedProtocol
from semel.coordinator.group.classic.states import ClassicState
from semel.coordinator.group.classic.subscriptions import subscribed_topics
from semel.coordinator.group.kinds import GroupKind
from semel.coordinator.group.membership import NO_MEMBER, Committer, Retention
from semel.coordinator.group.records import GroupMetadata, GroupRecord, GroupTombstone
from semel.errors import ErrorCode
from semel.wire.messages.consumer_protocol import CONSUMER_PROTOCOL_TYPE


@dataclass(frozen=True, slots=True)
class InitialDelay:
    """The delay of the first rebalance of an empty group. It waits for more members, and longer while they join."""

    delay_ms: int
    remaining_ms: int
    member_added: bool = False


@dataclass(frozen=True)
class ClassicGroup:
    """Implements ``directory.Group``. It has no slots because cached properties need a ``__dict__``."""

    group_id: str
    state: ClassicState = ClassicState.EMPTY
    state_changed_ms: int | None = None
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    members: Mapping[str, ClassicMember] = field(default_factory=dict)
    """The members by member id, in the order in which they joined."""
    pending_ids: PendingIds = NO_IDS
    """Member ids that were handed out and not yet used."""
    awaiting_sync: frozenset[str] = frozenset()
    """Members of this generation that have not sent SyncGroup yet."""
    initial: InitialDelay | None = None
    """Set only during the first rebalance of an empty group."""
    is_recorded: bool = False
    """Whether the log has a record of the group."""

    @classmethod
    def of_record(cls, record: GroupMetadata) -> ClassicGroup:
        members = {
            member.member_id: ClassicMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=(
                    member.session_timeout_ms if member.rebalance_timeout_ms is None else member.rebalance_timeout_ms
                ),
                session_timeout_ms=member.session_timeout_ms,
                protocols=(OfferedProtocol(record.protocol or "", member.subscription),),
                assignment=member.assignment,
            )
            for member in record.members
        }
        return cls(
            record.group_id,
            state=ClassicState.STABLE if members else ClassicState.EMPTY,
            state_changed_ms=record.state_changed_ms,
            protocol_type=record.protocol_type,
            generation=record.generation,
            protocol=record.protocol,
            leader=record.leader,
            members=members,
            is_recorded=True,
        )

    def record(self) -> GroupMetadata:
        return GroupMetadata(
            self.group_id,
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_changed_ms=self.state_changed_ms,
            members=tuple(member.recorded(self.protocol) for member in self.members.values()),
        )

    # -- derived

    @cached_property
    def static_ids(self) -> Mapping[str, str]:
        """The member ids of the static members, by instance id."""
        return {
            member.instance_id: member.member_id for member in self.members.values() if member.instance_id is not None
        }

    @cached_property
    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that the group's consumers subscribe to; ``None`` if they are not known."""
        if not self.members:
            return frozenset()
        if not self.uses_consumer_protocol or self.protocol is None:
            return None
        return subscribed_topics(member.metadata(self.protocol) for member in self.members.values())

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def joining_count(self) -> int:
        return sum(member.joining is not None for member in self.members.values())

    @property
    def all_have_joined(self) -> bool:
        return not self.pending_ids and all(member.joining is not None for member in self.members.values())

    # -- directory.Group

    @property
    def kind(self) -> GroupKind:
        return GroupKind.CLASSIC

    @property
    def state_name(self) -> str:
        return self.state.kafka_name

    def tombstones(self) -> tuple[GroupRecord, ...]:
        return (GroupTombstone(self.group_id),)

    def waiters(self) -> Iterator[Waiter[Any]]:
        for member in self.members.values():
            if member.joining is not None:
                yield member.joining
            if member.syncing is not None:
                yield member.syncing

    # -- who may do what

    def validate_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            owner = self.static_ids.get(instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # -- membership.Membership

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    def validate_offset_commit(self, committer: Committer, *, transactional: bool, api_version: int) -> ErrorCode:
        if committer.generation is None and self.is_empty:
            return ErrorCode.NONE
        if committer != NO_MEMBER:
            error = self.validate_member(committer.member_id, committer.instance_id)
            if error is not ErrorCode.NONE:
                return error
            if committer.generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not transactional:
            # TxnOffsetCommit names the member only from version 3 on, and earlier versions must still work.
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self.state is ClassicState.COMPLETING_REBALANCE and not transactional:
            # The member has no assignment in this generation yet, so it read up to these offsets in an older one.
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def validate_offset_fetch(self, *, member_id: str | None, member_epoch: int | None) -> ErrorCode:
        return ErrorCode.NONE

    def validate_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE if self.is_empty or self.uses_consumer_protocol else ErrorCode.NON_EMPTY_GROUP

    def is_subscribed(self, topic: str) -> bool:
        topics = self.subscribed_topics
        return not self.is_empty if topics is None else topic in topics

    def retention(self) -> Retention | None:
        if self.is_empty:
            return Retention(self.state_changed_ms if self.protocol_type else None)
        if self.state is ClassicState.STABLE and self.uses_consumer_protocol and self.subscribed_topics is not None:
            return Retention()
        return None


SIMPLE_GROUP: Final = ClassicGroup("")
"""A group that only stores offsets: it exists for as long as it has one, committed or pending."""
