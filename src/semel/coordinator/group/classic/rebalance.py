"""A rebalance of a classic group, from its first cause to the assignment.

    prepare         members that wait in SyncGroup are asked to join again, all others when they send a heartbeat
    complete_join   all have joined or the time is over: a new generation, a leader, a protocol; joins are answered
    complete_sync   the leader has assigned: the assignment is recorded, and then every SyncGroup is answered

The laws: within a generation there is one leader, one protocol and one assignment; a member that has not joined
in time is removed, except a static member, which is removed only when its session ends; and the generation grows with
every rebalance.
"""

from __future__ import annotations

from dataclasses import replace

from semel.coordinator.group.classic.draft import ClassicDraft
from semel.coordinator.group.classic.group import ClassicGroup, InitialDelay
from semel.coordinator.group.classic.member import ClassicMember
from semel.coordinator.group.classic.protocols import elected_protocol
from semel.coordinator.group.classic.results import JoinedMember, JoinResult, SyncResult
from semel.coordinator.group.classic.states import ClassicState
from semel.coordinator.group.directory import Deadline
from semel.errors import ErrorCode


def prepare(draft: ClassicDraft, *, initial_delay_ms: int) -> None:
    """Begin a rebalance, and complete its first half at once if all members have joined."""
    was_empty = draft.group.is_empty
    if draft.group.state is ClassicState.COMPLETING_REBALANCE:
        _discard_assignment(draft)
    draft.cancel(Deadline.SYNC)
    initial = None
    if was_empty:
        # Members tend to start together: one rebalance for all of them, not one for each.
        initial = InitialDelay(initial_delay_ms, max(draft.group.rebalance_timeout_ms - initial_delay_ms, 0))
        draft.set(Deadline.REBALANCE, initial_delay_ms)
    draft.enter(ClassicState.PREPARING_REBALANCE, awaiting_sync=frozenset(), initial=initial)
    if not was_empty:
        if draft.group.all_have_joined:
            complete_join(draft)
        else:
            draft.set(Deadline.REBALANCE, draft.group.rebalance_timeout_ms)


def prepare_or_complete(draft: ClassicDraft, *, initial_delay_ms: int) -> None:
    """A member joined or left: begin a rebalance, or complete the one that has begun if all members have joined."""
    if draft.group.state is ClassicState.PREPARING_REBALANCE:
        complete_join_if_all_have(draft)
    else:
        prepare(draft, initial_delay_ms=initial_delay_ms)


def complete_join_if_all_have(draft: ClassicDraft) -> None:
    group = draft.group
    if group.state is ClassicState.PREPARING_REBALANCE and group.initial is None and group.all_have_joined:
        complete_join(draft)


def join_deadline_passed(draft: ClassicDraft, *, initial_delay_ms: int) -> None:
    """The deadline for joining has passed: complete the first half, or extend the initial delay if members joined."""
    group = draft.group
    if group.state is not ClassicState.PREPARING_REBALANCE:
        return
    initial = group.initial
    if initial is not None and initial.member_added and initial.remaining_ms:
        delay_ms = min(initial_delay_ms, initial.remaining_ms)
        draft.change(initial=InitialDelay(delay_ms, max(initial.remaining_ms - initial.delay_ms, 0)))
        draft.set(Deadline.REBALANCE, delay_ms)
    else:
        complete_join(draft)


def complete_join(draft: ClassicDraft) -> None:
    draft.cancel(Deadline.REBALANCE)
    for member in list(draft.group.members.values()):
        if member.joining is None and not member.is_static:
            draft.remove(member.member_id)
    if not draft.group.members:
        draft.enter(
            ClassicState.EMPTY,
            generation=draft.group.generation + 1,
            protocol=None,
            leader=None,
            awaiting_sync=frozenset(),
            initial=None,
        )
        draft.record()
    elif not draft.group.joining_count:
        # All members are static and away. Their sessions will end, or one of them joins again.
        draft.set(Deadline.REBALANCE, draft.group.rebalance_timeout_ms)
    else:
        _next_generation(draft)


def complete_sync(draft: ClassicDraft, leader: ClassicMember, assignments: dict[str, bytes]) -> SyncResult:
    """Record the leader's assignments and answer the members that wait. Returns the leader's own answer.

    A member that is missing in the assignments gets an empty one.
    """
    members = {
        member_id: replace(member, assignment=assignments.get(member_id, b""), syncing=None)
        for member_id, member in draft.group.members.items()
    }
    waiting = [member for member in draft.group.members.values() if member.syncing is not None]
    draft.enter(ClassicState.STABLE, members=members)
    draft.record()
    for member in (leader, *waiting):
        draft.restart_session(member)
    for member in waiting:
        draft.answer_sync(member.syncing, sync_result(draft.group, member.member_id))
    return sync_result(draft.group, leader.member_id)


def sync_deadline_passed(draft: ClassicDraft, *, initial_delay_ms: int) -> None:
    """The deadline for SyncGroup has passed: remove the members that have not sent it, and begin a rebalance."""
    group = draft.group
    if group.awaiting_sync and group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
        for member_id in sorted(group.awaiting_sync):
            draft.remove(member_id)
        prepare(draft, initial_delay_ms=initial_delay_ms)


def join_result(group: ClassicGroup, member_id: str) -> JoinResult:
    """Return the response to the JoinGroup of a member of the present generation. Only the leader gets the members."""
    members: tuple[JoinedMember, ...] = ()
    if member_id == group.leader:
        members = tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(group.protocol))
            for member in group.members.values()
        )
    return JoinResult(
        ErrorCode.NONE,
        member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=members,
    )


def sync_result(group: ClassicGroup, member_id: str) -> SyncResult:
    return SyncResult(ErrorCode.NONE, group.protocol_type, group.protocol, group.members[member_id].assignment)


def _next_generation(draft: ClassicDraft) -> None:
    group = draft.group
    leader = group.leader
    if leader is None or group.members[leader].joining is None:
        leader = next(member.member_id for member in group.members.values() if member.joining is not None)
    waiting = [member for member in group.members.values() if member.joining is not None]
    draft.update_all(joining=None, is_new=False)
    draft.enter(
        ClassicState.COMPLETING_REBALANCE,
        generation=group.generation + 1,
        protocol=elected_protocol(group.members.values()),
        leader=leader,
        awaiting_sync=frozenset(group.members),
        initial=None,
    )
    for member in draft.group.members.values():
        draft.restart_session(member)
    for member in waiting:
        draft.answer_join(member.joining, join_result(draft.group, member.member_id))
    draft.set(Deadline.SYNC, draft.group.rebalance_timeout_ms)


def _discard_assignment(draft: ClassicDraft) -> None:
    for member in draft.group.members.values():
        if member.syncing is not None:
            draft.answer_sync(member.syncing, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
            draft.restart_session(member)
    draft.update_all(syncing=None, assignment=b"")
