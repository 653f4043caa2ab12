"""The deadlines of a member: its session, its revocation, and, if it uses the classic protocol, its next request.

Deadline.SESSION     every member: counted from its last request
Deadline.REBALANCE   counted from the response that asks it to revoke partitions, or a classic member to join again
Deadline.SYNC        a classic member: counted from its JoinGroup

A member that misses one of them is removed.
"""

from __future__ import annotations

from semel.coordinator.group.consumer.records import ConsumerMember, CurrentAssignment
from semel.coordinator.group.directory import Change, Deadline, DeadlineKey, DiscardDeadline, SetDeadline
from semel.coordinator.group.settings import ConsumerSettings
from semel.coordinator.moment import Moment


def session(member: ConsumerMember, settings: ConsumerSettings, moment: Moment) -> SetDeadline:
    timeout_ms = settings.session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
    return SetDeadline(
        DeadlineKey(member.group_id, Deadline.SESSION, member.member_id), moment.monotonic_ms + timeout_ms
    )


def rebalance(member: ConsumerMember, moment: Moment) -> SetDeadline:
    key = DeadlineKey(member.group_id, Deadline.REBALANCE, member.member_id)
    return SetDeadline(key, moment.monotonic_ms + member.rebalance_timeout_ms)


def sync(member: ConsumerMember, moment: Moment) -> SetDeadline:
    key = DeadlineKey(member.group_id, Deadline.SYNC, member.member_id)
    return SetDeadline(key, moment.monotonic_ms + member.rebalance_timeout_ms)


def revocation(
    member: ConsumerMember, before: CurrentAssignment, after: CurrentAssignment, moment: Moment
) -> tuple[Change, ...]:
    """Set or cancel the deadline for revoking, which is counted from the response that names the partitions."""
    if after.revoking:
        return (rebalance(member, moment),) if after.revoking != before.revoking else ()
    if before.revoking:
        return (cancelled(member.group_id, Deadline.REBALANCE, member.member_id),)
    return ()


def cancelled(group_id: str, deadline: Deadline, member_id: str) -> DiscardDeadline:
    return DiscardDeadline(DeadlineKey(group_id, deadline, member_id))


def all_cancelled(group_id: str, member_id: str) -> tuple[DiscardDeadline, ...]:
    return tuple(
        cancelled(group_id, deadline, member_id) for deadline in (Deadline.SESSION, Deadline.REBALANCE, Deadline.SYNC)
    )
