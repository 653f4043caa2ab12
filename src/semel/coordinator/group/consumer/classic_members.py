"""Members of a consumer group that use the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

There is no leader, and no request waits. JoinGroup is handled like a KIP-848 heartbeat and is answered at once, with
the member epoch as the generation; SyncGroup returns the assignment; Heartbeat is answered REBALANCE_IN_PROGRESS when
the member must join again, because it has partitions to revoke or to take over, or because the group's epoch is higher.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from semel.coordinator.decision import Decision, Deferred, Waiter
from semel.coordinator.group.classic.joining import Joining
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
from semel.coordinator.group.consumer import deadlines
from semel.coordinator.group.consumer.admission import take_over
from semel.coordinator.group.consumer.classic_protocol import (
    claimed_by,
    classic_member,
    encoded_assignment,
    subscription_of,
)
from semel.coordinator.group.consumer.draft import Draft
from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.leaving import forget_member
from semel.coordinator.group.consumer.progress import progress
from semel.coordinator.group.consumer.records import ConsumerMember, MemberState
from semel.coordinator.group.consumer.subscription import advance_epoch
from semel.coordinator.group.conversion import can_downgrade, downgrade, emptied
from semel.coordinator.group.decisions import GroupDecision
from semel.coordinator.group.directory import Change, Deadline, DeadlineKey, GroupDirectory
from semel.coordinator.group.settings import GroupSettings
from semel.coordinator.group.topics import TopicsView
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode
from semel.wire.messages.consumer_group_heartbeat import LEAVING_STATIC_MEMBER
from semel.wire.messages.consumer_protocol import CONSUMER_PROTOCOL_TYPE

Response = TypeVar("Response")


class ClassicMembers:
    def __init__(self, directory: GroupDirectory, settings: GroupSettings) -> None:
        self._directory = directory
        self._settings = settings

    def join(
        self, group: ConsumerGroup, request: JoinRequest, waiter: Waiter[Any], moment: Moment, topics: TopicsView
    ) -> GroupDecision[JoinResult | Deferred]:
        """JoinGroup. A group without members becomes a classic group, with the epoch as its generation."""
        classic = self._settings.classic
        if not classic.session_timeout_ms_min <= request.session_timeout_ms <= classic.session_timeout_ms_max:
            return _refused(ErrorCode.INVALID_SESSION_TIMEOUT, request)
        if group.is_empty:
            classic_group = emptied(group, moment)
            decision = Joining(classic_group, request, waiter, moment, classic).decide()
            if not decision.changes:
                return decision
            return decision._replace(records=(*group.tombstones(), classic_group.record(), *decision.records))
        return self._join(Draft(group), request, moment, topics)

    def sync(
        self, group: ConsumerGroup, request: SyncRequest, moment: Moment, topics: TopicsView
    ) -> GroupDecision[SyncResult]:
        error = _validate(group, request.member_id, request.instance_id, request.generation)
        if error is not ErrorCode.NONE:
            return Decision(SyncResult(error))
        member, current = group.members[request.member_id], group.assignment(request.member_id)
        protocol = _preferred(member)
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol not in (None, protocol):
            return Decision(SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if current.epoch < group.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
            return Decision(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS), changes=self._rejoin_deadline(member, moment))
        changes: tuple[Change, ...] = (
            deadlines.cancelled(group.group_id, Deadline.SYNC, member.member_id),
            deadlines.session(member, self._settings.consumer, moment),
        )
        assignment = encoded_assignment(member, current.assigned, topics)
        return Decision(SyncResult(ErrorCode.NONE, CONSUMER_PROTOCOL_TYPE, protocol, assignment), changes=changes)

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, moment: Moment
    ) -> GroupDecision[HeartbeatResult]:
        error = _validate(group, request.member_id, request.instance_id, request.generation)
        if error is not ErrorCode.NONE:
            return Decision(HeartbeatResult(error))
        member = group.members[request.member_id]
        session_deadline = deadlines.session(member, self._settings.consumer, moment)
        if not _should_join(group, request.member_id):
            return Decision(ALIVE, changes=(session_deadline,))
        return Decision(REBALANCING, changes=(session_deadline, *self._rejoin_deadline(member, moment)))

    def leave(
        self, group: ConsumerGroup, leaving: Sequence[LeavingMember], moment: Moment, topics: TopicsView
    ) -> GroupDecision[LeaveResult]:
        """LeaveGroup of any number of members, with one new epoch for all."""
        draft = Draft(group)
        changes: tuple[Change, ...] = ()
        left: list[LeftMember] = []
        for member in leaving:
            member_id, error = _leaving(draft.group, member)
            left.append(LeftMember(*member, error))
            if error is ErrorCode.NONE:
                forget_member(draft, member_id)
                changes += deadlines.all_cancelled(group.group_id, member_id)
        response = LeaveResult(ErrorCode.NONE, tuple(left))
        if not draft.records:
            return Decision(response)
        return self.left(draft, response, changes, topics, moment)

    def left(
        self,
        draft: Draft,
        response: Response,
        changes: tuple[Change, ...],
        topics: TopicsView,
        moment: Moment,
    ) -> GroupDecision[Response]:
        """The decision by which members leave whose records are removed in ``draft``.

        The group moves to its next epoch. Or it becomes a classic group: then the epoch stays, because it becomes the
        generation. So members that have this epoch are asked to join again; the next one would fence them.
        """
        if not self._can_downgrade(draft.group):
            advance_epoch(draft, topics, changed=True, now_ms=moment.wall_ms)
        return self.concluded(draft, response, changes, topics, moment)

    def concluded(
        self,
        draft: Draft,
        response: Response,
        changes: tuple[Change, ...],
        topics: TopicsView,
        moment: Moment,
    ) -> GroupDecision[Response]:
        """The decision by which members leave, or stop using KIP-848. If none uses it any more, the group may become a
        classic one."""
        if not self._can_downgrade(draft.group):
            return Decision(response, tuple(draft.records), changes=changes)
        turned = downgrade(draft.group, topics, moment)
        return Decision(
            response,
            (*draft.records, *turned.records),
            changes=(*changes, *turned.changes),
            answers=turned.answers,
        )

    # -- parts of the above

    def _can_downgrade(self, group: ConsumerGroup) -> bool:
        return can_downgrade(group, self._settings.consumer, self._settings.classic)

    def _join(
        self, draft: Draft, request: JoinRequest, moment: Moment, topics: TopicsView
    ) -> GroupDecision[JoinResult | Deferred]:
        group, member_id = draft.group, request.member_id
        holder = None if request.instance_id is None else group.instances.get(request.instance_id)
        error = self._validate_join(group, request, holder)
        if error is not ErrorCode.NONE:
            return _refused(error, request)
        if not member_id:
            member_id = request.new_member_id()
            if request.instance_id is None and request.knows_required_id:
                return Decision(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        changes: tuple[Change, ...] = ()
        former = group.members.get(holder or member_id)
        used_kip_848 = former is not None and former.classic is None
        if holder is not None and holder != member_id:
            take_over(draft, holder, member_id)
            changes = deadlines.all_cancelled(group.group_id, holder)
        member = _member(request, member_id)
        subscription = subscription_of(request.protocols)
        if member is None or subscription is None:
            return _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request)
        if used_kip_848 and self._can_downgrade(_with_member(draft.group, member)):
            # It was the last member that did. As in ``left``, the epoch stays, whatever the member subscribes to now.
            draft.write(member)
            response = JoinResult(
                ErrorCode.NONE, member_id, draft.group.epoch, CONSUMER_PROTOCOL_TYPE, _preferred(member)
            )
            return self.concluded(draft, response, changes, topics, moment)
        claimed = claimed_by(subscription, topics)
        assignors = self._settings.consumer.assignors
        done = progress(draft, member, claimed=claimed, assignors=assignors, topics=topics, moment=moment)
        if done is None:
            return _refused(ErrorCode.UNKNOWN_MEMBER_ID, request)
        changes += (
            *done.changes,
            deadlines.session(member, self._settings.consumer, moment),
            deadlines.sync(member, moment),
            deadlines.rebalance(member, moment)
            if done.after.revoking
            else deadlines.cancelled(group.group_id, Deadline.REBALANCE, member_id),
        )
        response = JoinResult(ErrorCode.NONE, member_id, done.after.epoch, CONSUMER_PROTOCOL_TYPE, _preferred(member))
        return Decision(response, tuple(draft.records), changes=changes)

    def _validate_join(self, group: ConsumerGroup, request: JoinRequest, holder: str | None) -> ErrorCode:
        subscription = subscription_of(request.protocols)
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE or subscription is None:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        offered = {offered.name for offered in request.protocols}
        for member in group.members.values():
            if member.classic is not None and member.member_id not in (request.member_id, holder):
                offered &= {name for name, _ in member.classic.protocols}
        if not offered:
            # Without a common protocol the group could not be converted back to a classic group.
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if holder is not None and request.member_id and holder != request.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if holder is not None and group.members[holder].classic is None:
            released = group.assignment(holder).epoch == LEAVING_STATIC_MEMBER
            return ErrorCode.NONE if released else ErrorCode.UNRELEASED_INSTANCE_ID
        if request.instance_id is not None and holder is None and request.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_new = holder is None and request.member_id not in group.members
        if is_new and request.instance_id is None and subscription.owned_partitions:
            # The member was removed and does not know it yet: the partitions that it claims are, or were since then,
            # owned by others. As a new member it would go on reading them, and could commit offsets for them.
            return ErrorCode.UNKNOWN_MEMBER_ID
        if is_new and len(group.members) >= self._settings.consumer.size_max:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return ErrorCode.NONE

    def _rejoin_deadline(self, member: ConsumerMember, moment: Moment) -> tuple[Change, ...]:
        """Set the deadline for joining again, unless it is set: it counts from the first response that asks for it."""
        key = DeadlineKey(member.group_id, Deadline.REBALANCE, member.member_id)
        return () if key in self._directory.deadlines else (deadlines.rebalance(member, moment),)


def _refused(error: ErrorCode, request: JoinRequest) -> GroupDecision[JoinResult | Deferred]:
    return Decision(JoinResult(error, request.member_id))


def _member(request: JoinRequest, member_id: str) -> ConsumerMember | None:
    return classic_member(
        request.group_id,
        member_id,
        request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
    )


def _with_member(group: ConsumerGroup, member: ConsumerMember) -> ConsumerGroup:
    draft = Draft(group)
    draft.write(member)
    return draft.group


def _preferred(member: ConsumerMember) -> str:
    """The member's preferred assignor, whose rebalance protocol (eager or cooperative) it follows.

    No member is asked to compute an assignment.
    """
    assert member.classic is not None, member
    return member.classic.protocols[0][0]


def _validate(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    if instance_id is not None:
        holder = group.instances.get(instance_id)
        if holder is not None and holder != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    member = group.members.get(member_id)
    if member is None or member.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if generation != group.assignment(member_id).epoch:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE


def _should_join(group: ConsumerGroup, member_id: str) -> bool:
    current = group.assignment(member_id)
    if current.epoch < group.epoch or current.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    # At least one partition that the member waits for has become free.
    missing = group.target(member_id) - current.assigned
    return current.state is MemberState.UNRELEASED_PARTITIONS and any(each not in group.owners for each in missing)


def _leaving(group: ConsumerGroup, leaving: LeavingMember) -> tuple[str, ErrorCode]:
    """Return the id of the member that leaves, and the error.

    An administrator names only an instance id, which may also belong to a member that uses KIP-848.
    """
    member_id, instance_id = leaving
    if not member_id:
        holder = None if instance_id is None else group.instances.get(instance_id)
        return ("", ErrorCode.UNKNOWN_MEMBER_ID) if holder is None else (holder, ErrorCode.NONE)
    member = group.members.get(member_id)
    if instance_id is not None:
        holder = group.instances.get(instance_id)
        if holder is not None and holder != member_id:
            return member_id, ErrorCode.FENCED_INSTANCE_ID
    if member is None or member.classic is None:
        return member_id, ErrorCode.UNKNOWN_MEMBER_ID
    return member_id, ErrorCode.NONE
