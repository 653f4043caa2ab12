"""JoinGroup: which member may join, under which member id, and whether a rebalance follows.

A new member first receives a member id and then joins with it (KIP-394). A static member that joins without its member
id gets a new one and replaces the member with the same instance id, whose requests are fenced (KIP-345). While the
group is stable this causes no rebalance if the elected protocol stays the same and, in a group of consumers, the
member's topics do too and no cooperative rebalance is half done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from semel.coordinator.decision import DEFERRED, Decision, Deferred, Waiter
from semel.coordinator.group.classic.draft import ClassicDraft
from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.classic.member import ClassicMember
from semel.coordinator.group.classic.pending_ids import PENDING_IDS_MAX
from semel.coordinator.group.classic.protocols import can_join, elected_protocol
from semel.coordinator.group.classic.rebalance import (
    complete_join_if_all_have,
    join_result,
    prepare,
    prepare_or_complete,
)
from semel.coordinator.group.classic.requests import JoinRequest
from semel.coordinator.group.classic.results import JoinResult, SyncResult
from semel.coordinator.group.classic.states import ClassicState
from semel.coordinator.group.classic.subscriptions import partitions_awaiting_rejoin, subscribed_topics
from semel.coordinator.group.decisions import GroupDecision
from semel.coordinator.group.directory import Deadline
from semel.coordinator.group.settings import ClassicSettings
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode

# A new member does not know its member id and sends no heartbeats while its JoinGroup waits, so its session timeout
# cannot show whether it is alive. After this time it is removed, and its JoinGroup is answered UNKNOWN_MEMBER_ID.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000


class Joining:
    """The handling of one JoinGroup request."""

    def __init__(
        self, group: ClassicGroup, request: JoinRequest, waiter: Waiter[Any], moment: Moment, settings: ClassicSettings
    ) -> None:
        self._draft = ClassicDraft(group, moment)
        self._request = request
        self._waiter = waiter
        self._settings = settings

    def decide(self) -> GroupDecision[JoinResult | Deferred]:
        draft, request = self._draft, self._request
        if not self._has_room():
            if request.member_id in draft.group.members:
                draft.remove(request.member_id)
                complete_join_if_all_have(draft)
            return draft.decision(JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
        if not self._fits():
            return Decision(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
        return self._known() if request.member_id else self._unknown()

    # -- without a member id

    def _unknown(self) -> GroupDecision[JoinResult | Deferred]:
        draft, request = self._draft, self._request
        member_id = request.new_member_id()
        if request.instance_id is not None:
            replaced_id = draft.group.static_ids.get(request.instance_id)
            return self._add(member_id) if replaced_id is None else self._replace(replaced_id, member_id)
        if not request.knows_required_id:
            return self._add(member_id)
        if len(draft.group.pending_ids) >= PENDING_IDS_MAX:
            return Decision(JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
        draft.reserve_id(member_id, request.session_timeout_ms)
        return draft.decision(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))

    def _add(self, member_id: str) -> GroupDecision[JoinResult | Deferred]:
        draft, request = self._draft, self._request
        member = ClassicMember(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
            is_new=True,
            joining=self._waiter,
        )
        if draft.group.initial is not None:
            draft.change(initial=replace(draft.group.initial, member_added=True))
        draft.add(member, request.protocol_type)
        draft.set(Deadline.SESSION, NEW_MEMBER_JOIN_TIMEOUT_MS, member_id)
        return self._rebalanced()

    def _replace(self, replaced_id: str, member_id: str) -> GroupDecision[JoinResult | Deferred]:
        draft = self._draft
        before = draft.group
        replaced = before.members[replaced_id]
        draft.answer_join(replaced.joining, JoinResult(ErrorCode.FENCED_INSTANCE_ID, replaced_id))
        draft.answer_sync(replaced.syncing, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        draft.cancel(Deadline.SESSION, replaced_id)
        member = replace(self._updated(replaced), member_id=member_id, is_new=False, joining=None, syncing=None)
        draft.put_all(member if other is replaced else other for other in before.members.values())
        if before.leader == replaced_id:
            draft.change(leader=member_id)
        if replaced_id in before.awaiting_sync:
            draft.change(awaiting_sync=(before.awaiting_sync - {replaced_id}) | {member_id})
        draft.restart_session(member)
        if before.state is ClassicState.STABLE and self._decides_nothing(before, replaced, member):
            return self._replaced_quietly(before, member_id)
        draft.update(replace(member, joining=self._waiter))
        if before.state is ClassicState.PREPARING_REBALANCE:
            complete_join_if_all_have(draft)
        else:
            # Also while the leader assigns: it knows only the former member id, so the new one would get no assignment.
            prepare(draft, initial_delay_ms=self._settings.initial_rebalance_delay_ms)
        return draft.decision(DEFERRED)

    def _replaced_quietly(self, before: ClassicGroup, member_id: str) -> GroupDecision[JoinResult | Deferred]:
        self._draft.record()
        result = join_result(self._draft.group, member_id)
        if self._request.knows_skipped_assignment:
            return self._draft.decision(replace(result, skip_assignment=result.leader == member_id))
        # A client of an older version that is named as leader would compute an assignment, and no member waits for one.
        # So the response names the former leader's id, even if that was the former id of this member.
        return self._draft.decision(replace(result, leader=before.leader or "", members=()))

    # -- with a member id

    def _known(self) -> GroupDecision[JoinResult | Deferred]:
        draft, request = self._draft, self._request
        group, member_id = draft.group, request.member_id
        if member_id in group.pending_ids and request.instance_id is None:
            return self._add(member_id)
        error = group.validate_member(member_id, request.instance_id)
        if error is not ErrorCode.NONE:
            return Decision(JoinResult(error, member_id))
        member = group.members[member_id]
        changed = member.protocols != request.protocols
        match group.state:
            case ClassicState.PREPARING_REBALANCE:
                return self._rejoin(member)
            case ClassicState.COMPLETING_REBALANCE if not changed:
                return self._tell_again(member)  # The first answer was lost.
            case ClassicState.STABLE if not changed and member_id != group.leader:
                return self._tell_again(member)
            case _:
                # A leader joins again when something changed that concerns the assignment, such as a new partition.
                return self._rejoin(member)

    def _rejoin(self, member: ClassicMember) -> GroupDecision[JoinResult | Deferred]:
        draft = self._draft
        draft.answer_join(member.joining, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        draft.update(replace(self._updated(member), joining=self._waiter))
        return self._rebalanced()

    def _tell_again(self, member: ClassicMember) -> GroupDecision[JoinResult | Deferred]:
        self._draft.restart_session(member)
        return self._draft.decision(join_result(self._draft.group, member.member_id))

    # -- parts of the above

    def _rebalanced(self) -> GroupDecision[JoinResult | Deferred]:
        prepare_or_complete(self._draft, initial_delay_ms=self._settings.initial_rebalance_delay_ms)
        return self._draft.decision(DEFERRED)

    def _updated(self, member: ClassicMember) -> ClassicMember:
        request = self._request
        return replace(
            member,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
        )

    def _has_room(self) -> bool:
        """Whether the limit on the group's size allows the request.

        Members of the group may always join again; but while a rebalance is prepared, only those that have joined count
        as members, so that a late one may be refused.
        """
        group, size_max = self._draft.group, self._settings.size_max
        member = group.members.get(self._request.member_id)
        match group.state:
            case ClassicState.EMPTY:
                return True
            case ClassicState.PREPARING_REBALANCE:
                return (member is not None and member.joining is not None) or group.joining_count < size_max
            case _:
                return member is not None or len(group.members) < size_max

    def _fits(self) -> bool:
        group, request = self._draft.group, self._request
        if not group.members:
            return bool(request.protocol_type and request.protocols)
        return request.protocol_type == group.protocol_type and can_join(request.protocols, group.members.values())

    def _decides_nothing(self, before: ClassicGroup, replaced: ClassicMember, member: ClassicMember) -> bool:
        """Whether a rebalance after the replacement would elect the same protocol and assign the same partitions."""
        if elected_protocol(self._draft.group.members.values()) != before.protocol:
            return False
        if not before.uses_consumer_protocol:
            return True
        members = before.members.values()
        if partitions_awaiting_rejoin((one.metadata(before.protocol), one.assignment) for one in members):
            # A cooperative rebalance is half done, and the replaced member may be the one that had to join again.
            return False
        former, present = (subscribed_topics([one.metadata(before.protocol)]) for one in (replaced, member))
        return former is None or former == present
