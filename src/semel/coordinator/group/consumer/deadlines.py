"""The deadlines of a member: to be heard, to have given up, and, if it speaks the classic protocol, to go on.

Timer.SESSION     every member: from its last request
Timer.REBALANCE   from when it was told to give partitions up, or, of a classic member, to join again
Timer.SYNC        a classic member, from when it has joined

A member that misses one of them is removed.
"""

from __future__ import annotations

from semel.coordinator.group.consumer.records import ConsumerMember, CurrentAssignment
from semel.coordinator.group.directory import CancelTimer, Change, SetTimer, Timer, TimerKey
from semel.coordinator.group.settings import ConsumerSettings
from semel.coordinator.moment import Moment


def session(member: ConsumerMember, settings: ConsumerSettings, moment: Moment) -> SetTimer:
    timeout_ms = settings.session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
    return SetTimer(TimerKey(member.group_id, Timer.SESSION, member.member_id), moment.monotonic_ms + timeout_ms)


def rebalance(member: ConsumerMember, moment: Moment) -> SetTimer:
    key = TimerKey(member.group_id, Timer.REBALANCE, member.member_id)
    return SetTimer(key, moment.monotonic_ms + member.rebalance_timeout_ms)


def sync(member: ConsumerMember, moment: Moment) -> SetTimer:
    key = TimerKey(member.group_id, Timer.SYNC, member.member_id)
    return SetTimer(key, moment.monotonic_ms + member.rebalance_timeout_ms)


def revocation(
    member: ConsumerMember, before: CurrentAssignment, after: CurrentAssignment, moment: Moment
) -> tuple[Change, ...]:
    """The time to give partitions up runs from when the member is told which."""
    if after.revoking:
        return (rebalance(member, moment),) if after.revoking != before.revoking else ()
    if before.revoking:
        return (cancelled(member.group_id, Timer.REBALANCE, member.member_id),)
    return ()


def cancelled(group_id: str, timer: Timer, member_id: str) -> CancelTimer:
    return CancelTimer(TimerKey(group_id, timer, member_id))


def all_cancelled(group_id: str, member_id: str) -> tuple[CancelTimer, ...]:
    return tuple(cancelled(group_id, timer, member_id) for timer in (Timer.SESSION, Timer.REBALANCE, Timer.SYNC))
