"""The classic groups of one shard: what follows from each request, and from each deadline.

Handlers read the directory and do not change it. They return the decision of a ``ClassicDraft``, or only a response.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from semel.coordinator.decision import DEFERRED, Decision, Deferred, Waiter
from semel.coordinator.group.classic.draft import ClassicDraft
from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.classic.joining import Joining
from semel.coordinator.group.classic.rebalance import (
    complete_join_if_all_have,
    complete_sync,
    join_deadline_passed,
    prepare,
    prepare_or_complete,
    sync_deadline_passed,
    sync_result,
)
from semel.coordinator.group.classic.requests import HeartbeatRequest, JoinRequest, LeavingMember, SyncRequest
from semel.coordinator.group.classic.results import (
    ALIVE,
    REBALANCING,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    LeftMember,
    SyncResult,
)
from semel.coordinator.group.classic.states import ClassicState
from semel.coordinator.group.decisions import GroupDecision
from semel.coordinator.group.directory import Change, Deadline, DeadlineKey, GroupDirectory, SetDeadline
from semel.coordinator.group.settings import ClassicSettings
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode


class ClassicGroups:
    """The classic groups of one shard. Groups of other kinds are not handled here."""

    def __init__(self, directory: GroupDirectory, settings: ClassicSettings) -> None:
        self._directory = directory
        self._settings = settings

    def join(self, request: JoinRequest, waiter: Waiter[Any], moment: Moment) -> GroupDecision[JoinResult | Deferred]:
        """JoinGroup. ``waiter`` is answered if the decision is deferred."""
        if not request.group_id:
            return Decision(JoinResult(ErrorCode.INVALID_GROUP_ID, request.member_id))
        settings = self._settings
        if not settings.session_timeout_ms_min <= request.session_timeout_ms <= settings.session_timeout_ms_max:
            return Decision(JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
        group = self._group(request.group_id)
        if group is None:
            if request.group_id in self._directory.groups:
                return Decision(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
            if request.member_id:
                return Decision(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            group = ClassicGroup(request.group_id)
        return Joining(group, request, waiter, moment, settings).decide()

    def sync(self, request: SyncRequest, waiter: Waiter[Any], moment: Moment) -> GroupDecision[SyncResult | Deferred]:
        """SyncGroup. ``waiter`` is answered if the decision is deferred."""
        if not request.group_id:
            return Decision(SyncResult(ErrorCode.INVALID_GROUP_ID))
        group = self._group(request.group_id)
        if group is None:
            return Decision(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        error = _validate_sync(group, request)
        if error is not ErrorCode.NONE:
            return Decision(SyncResult(error))
        draft = ClassicDraft(group, moment)
        member = group.members[request.member_id]
        awaiting_sync = group.awaiting_sync - {request.member_id}
        if not awaiting_sync:
            draft.cancel(Deadline.SYNC)
        draft.change(awaiting_sync=awaiting_sync)
        if group.state is ClassicState.STABLE:
            draft.restart_session(member)
            return draft.decision(sync_result(draft.group, request.member_id))
        draft.answer_sync(member.syncing, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        if request.member_id == group.leader:
            draft.update(replace(member, syncing=None))
            return draft.decision(complete_sync(draft, member, dict(request.assignments)))
        draft.update(replace(member, syncing=waiter))
        return draft.decision(DEFERRED)

    def heartbeat(self, request: HeartbeatRequest, moment: Moment) -> GroupDecision[HeartbeatResult]:
        """Heartbeat: the session begins again; REBALANCE_IN_PROGRESS asks the member to join again."""
        if not request.group_id:
            return Decision(HeartbeatResult(ErrorCode.INVALID_GROUP_ID))
        group = self._group(request.group_id)
        if group is None:
            return Decision(HeartbeatResult(ErrorCode.UNKNOWN_MEMBER_ID))
        error = group.validate_member(request.member_id, request.instance_id)
        if error is ErrorCode.NONE and request.generation != group.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is not ErrorCode.NONE:
            return Decision(HeartbeatResult(error))
        is_rebalancing = group.state is ClassicState.PREPARING_REBALANCE
        return Decision(
            REBALANCING if is_rebalancing else ALIVE,
            changes=(self._session_deadline(group, request.member_id, moment),),
        )

    def leave(self, group_id: str, leaving: Sequence[LeavingMember], moment: Moment) -> GroupDecision[LeaveResult]:
        """LeaveGroup of any number of members, with one rebalance for all."""
        if not group_id:
            return Decision(LeaveResult(ErrorCode.INVALID_GROUP_ID))
        group = self._group(group_id)
        if group is None:
            gone = (LeftMember(*member, ErrorCode.UNKNOWN_MEMBER_ID) for member in leaving)
            return Decision(LeaveResult(ErrorCode.NONE, tuple(gone)))
        draft = ClassicDraft(group, moment)
        left = tuple(LeftMember(*member, _leave(draft, member)) for member in leaving)
        if len(draft.group.members) < len(group.members):
            self._rebalance(draft)
        else:
            # The rebalance may have waited only for a member id that was handed out and is given back by this request.
            complete_join_if_all_have(draft)
        return draft.decision(LeaveResult(ErrorCode.NONE, left))

    def session_restarted(self, group_id: str, member_id: str, moment: Moment) -> tuple[SetDeadline, ...]:
        """Return the change that begins the session again of a member that has committed offsets."""
        group = self._group(group_id)
        if group is None or member_id not in group.members:
            return ()
        return (self._session_deadline(group, member_id, moment),)

    # -- time

    def due(self, group: ClassicGroup, key: DeadlineKey, moment: Moment) -> GroupDecision[None]:
        """Decide what follows from a deadline of the group that has passed."""
        draft = ClassicDraft(group, moment)
        match key.deadline:
            case Deadline.SESSION:
                self._session_over(draft, key.member_id)
            case Deadline.REBALANCE:
                join_deadline_passed(draft, initial_delay_ms=self._settings.initial_rebalance_delay_ms)
            case Deadline.SYNC:
                sync_deadline_passed(draft, initial_delay_ms=self._settings.initial_rebalance_delay_ms)
        return draft.decision(None)

    def loaded(self, group: ClassicGroup, moment: Moment) -> tuple[Change, ...]:
        """Return the changes after a load: all sessions begin again.

        A group that now has more members than allowed is rebalanced, so that it becomes smaller.
        """
        draft = ClassicDraft(group, moment)
        for member in group.members.values():
            draft.restart_session(member)
        if len(group.members) > self._settings.size_max:
            prepare(draft, initial_delay_ms=self._settings.initial_rebalance_delay_ms)
        changes: tuple[Change, ...] = draft.decision(None).changes
        return changes

    # -- parts of the above

    def _group(self, group_id: str) -> ClassicGroup | None:
        group = self._directory.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _session_deadline(self, group: ClassicGroup, member_id: str, moment: Moment) -> SetDeadline:
        timeout_ms = group.members[member_id].session_timeout_ms
        return SetDeadline(DeadlineKey(group.group_id, Deadline.SESSION, member_id), moment.monotonic_ms + timeout_ms)

    def _session_over(self, draft: ClassicDraft, member_id: str) -> None:
        group = draft.group
        if member_id in group.pending_ids:
            draft.discard_pending_id(member_id)
            complete_join_if_all_have(draft)
            return
        member = group.members.get(member_id)
        # A member that waits for an answer is alive. Its session begins again when it is answered.
        if member is not None and (member.is_new or not member.is_waiting):
            draft.remove(member_id)
            self._rebalance(draft)

    def _rebalance(self, draft: ClassicDraft) -> None:
        """Rebalance the group, unless it is empty, because a member has left it."""
        if not draft.group.is_empty:
            prepare_or_complete(draft, initial_delay_ms=self._settings.initial_rebalance_delay_ms)


def _validate_sync(group: ClassicGroup, request: SyncRequest) -> ErrorCode:
    error = group.validate_member(request.member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type) or request.protocol not in (None, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _leave(draft: ClassicDraft, leaving: LeavingMember) -> ErrorCode:
    group, (member_id, instance_id) = draft.group, leaving
    if not member_id:
        owner = None if instance_id is None else group.static_ids.get(instance_id)
        if owner is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = owner
    elif member_id in group.pending_ids:
        draft.discard_pending_id(member_id)
        return ErrorCode.NONE
    else:
        error = group.validate_member(member_id, instance_id)
        if error is not ErrorCode.NONE:
            return error
    draft.remove(member_id)
    return ErrorCode.NONE
