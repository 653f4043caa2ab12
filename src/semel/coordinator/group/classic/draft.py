"""The draft of a classic group's next state, from which a handler makes its decision.

A handler changes only a draft: the group's next state, its records, the answers to deferred requests, and the
deadlines. ``decision`` returns all of it. If the records cannot be written, none of it takes effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from semel.coordinator.decision import Answer, Decision, Waiter
from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.classic.member import ClassicMember
from semel.coordinator.group.classic.results import JoinResult, SyncResult
from semel.coordinator.group.classic.states import ClassicState
from semel.coordinator.group.decisions import GroupDecision
from semel.coordinator.group.directory import Change, Deadline, DeadlineKey, DiscardDeadline, PutGroup, SetDeadline
from semel.coordinator.group.records import GroupRecord
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode

Result = TypeVar("Result")


class ClassicDraft:
    def __init__(self, group: ClassicGroup, moment: Moment) -> None:
        self.group = group
        self.moment = moment
        self.records: list[GroupRecord] = []
        self._answers: list[Answer] = []
        self._deadlines: list[Change] = []

    def decision(self, response: Result) -> GroupDecision[Result]:
        group = self.group
        is_worth_keeping = group.is_recorded or group.pending_ids or not group.is_empty
        put = PutGroup(group.group_id, group if is_worth_keeping else None)
        return Decision(response, tuple(self.records), changes=(put, *self._deadlines), answers=tuple(self._answers))

    # -- the group

    def change(self, **fields: Any) -> None:
        self.group = replace(self.group, **fields)

    def enter(self, state: ClassicState, **fields: Any) -> None:
        self.change(state=state, state_changed_ms=self.moment.wall_ms, **fields)

    def record(self) -> None:
        """Add a record of the group's state as it is now."""
        self.records.append(self.group.record())
        self.change(is_recorded=True)

    # -- its members

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member. The first one becomes the leader, and its protocol type becomes the group's."""
        group = self.group
        if not group.members:
            self.change(protocol_type=protocol_type)
        self.change(
            members={**group.members, member.member_id: member},
            pending_ids=group.pending_ids.without(member.member_id),
            leader=member.member_id if group.leader is None else group.leader,
        )

    def update(self, member: ClassicMember) -> None:
        self.change(members={**self.group.members, member.member_id: member})

    def update_all(self, **fields: Any) -> None:
        self.put_all(replace(member, **fields) for member in self.group.members.values())

    def put_all(self, members: Iterable[ClassicMember]) -> None:
        self.change(members={member.member_id: member for member in members})

    def remove(self, member_id: str) -> None:
        """Remove a member. Its deferred requests are answered UNKNOWN_MEMBER_ID, and it may join again."""
        member = self.group.members[member_id]
        self.answer_join(member.joining, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, ""))
        self.answer_sync(member.syncing, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        self.cancel(Deadline.SESSION, member_id)
        self.put_all(other for other in self.group.members.values() if other is not member)
        if self.group.leader == member_id:
            self.change(leader=next(iter(self.group.members), None))
        self.change(awaiting_sync=self.group.awaiting_sync - {member_id})

    def reserve_id(self, member_id: str, session_timeout_ms: int) -> None:
        """Reserve a member id for a new member, which must join with it within the session timeout."""
        self.change(pending_ids=self.group.pending_ids.with_id(member_id))
        self.set(Deadline.SESSION, session_timeout_ms, member_id)

    def discard_pending_id(self, member_id: str) -> None:
        self.change(pending_ids=self.group.pending_ids.without(member_id))
        self.cancel(Deadline.SESSION, member_id)

    # -- answers

    def answer_join(self, waiter: Waiter[Any] | None, result: JoinResult) -> None:
        if waiter is not None:
            self._answers.append(Answer(waiter, result))

    def answer_sync(self, waiter: Waiter[Any] | None, result: SyncResult) -> None:
        if waiter is not None:
            self._answers.append(Answer(waiter, result))

    # -- deadlines

    def set(self, deadline: Deadline, timeout_ms: float, member_id: str = "") -> None:
        key = DeadlineKey(self.group.group_id, deadline, member_id)
        self._deadlines.append(SetDeadline(key, self.moment.monotonic_ms + timeout_ms))

    def cancel(self, deadline: Deadline, member_id: str = "") -> None:
        self._deadlines.append(DiscardDeadline(DeadlineKey(self.group.group_id, deadline, member_id)))

    def restart_session(self, member: ClassicMember) -> None:
        """Begin the member's session again."""
        self.set(Deadline.SESSION, member.session_timeout_ms, member.member_id)
