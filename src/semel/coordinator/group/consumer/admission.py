"""The admission of a ConsumerGroupHeartbeat: its refusal with one of Kafka's error codes, or ``None``.

A heartbeat is accepted if it has the member's current epoch. The previous epoch is accepted too, if the member claims
only partitions that it is assigned: the response with the new epoch was lost. With epoch 0 the member joins again.
"""

from __future__ import annotations

from dataclasses import replace

from semel.coordinator.group.consumer.draft import Draft
from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.leaving import forget_member
from semel.coordinator.group.consumer.records import CurrentAssignment, MemberState, Target
from semel.coordinator.group.consumer.requests import (
    ConsumerHeartbeatResult,
    Heartbeat,
    refused,
)
from semel.coordinator.group.consumer.subscription import GROUP_PATTERNS_MAX, error_in_regex, patterns_of
from semel.coordinator.group.settings import ConsumerSettings
from semel.coordinator.group.topics import TopicsView
from semel.errors import ErrorCode
from semel.wire.messages.consumer_group_heartbeat import JOINING, LEAVING_STATIC_MEMBER


def refusal_of_request(
    beat: Heartbeat, settings: ConsumerSettings, topics: TopicsView
) -> ConsumerHeartbeatResult | None:
    """Return the refusal of a heartbeat that is wrong whatever the state of its group, or ``None``."""
    wrong = _malformed(beat)
    if wrong is not None:
        return refused(ErrorCode.INVALID_REQUEST, wrong)
    if beat.assignor is not None and beat.assignor not in settings.assignors:
        offered = ", ".join(settings.assignors)
        return refused(ErrorCode.UNSUPPORTED_ASSIGNOR, f"there is no assignor {beat.assignor!r}; there are: {offered}")
    error = error_in_regex(beat.topic_regex, topics) if beat.topic_regex else None
    if error is not None:
        return refused(ErrorCode.INVALID_REGULAR_EXPRESSION, error)
    return None


def admit(draft: Draft, beat: Heartbeat, settings: ConsumerSettings) -> ConsumerHeartbeatResult | None:
    """Return the refusal of a heartbeat by the state of its group, or ``None``.

    A static member that comes back under a new member id replaces its former one, in ``draft``.
    """
    group, member_id, joins = draft.group, beat.member_id, beat.member_epoch == JOINING
    if beat.topic_regex and len(others := patterns_of(group) - {beat.topic_regex}) >= GROUP_PATTERNS_MAX:
        return refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the members of {group.group_id} have {len(others)} other regular expressions; the limit is "
            f"{GROUP_PATTERNS_MAX} for a group",
        )
    if beat.instance_id is None:
        known = member_id in group.members
    else:
        holder = group.instances.get(beat.instance_id)
        known = holder is not None
        if holder is not None and holder != member_id:
            if not joins:
                return refused(
                    ErrorCode.FENCED_INSTANCE_ID, f"instance {beat.instance_id} of {group.group_id} is {holder} now"
                )
            # In the classic protocol the newest member with an instance id is the valid one, and a static member sends
            # no request when it stops. So a client that is upgraded to KIP-848 replaces its classic member at once.
            is_classic = group.members[holder].classic is not None
            if not is_classic and group.assignment(holder).epoch != LEAVING_STATIC_MEMBER:
                return refused(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"instance {beat.instance_id} of {group.group_id} is in use by {holder}, which has not left",
                )
            take_over(draft, holder, member_id)
            return None
    if not known:
        return _refusal_of_unknown(group, beat, settings)
    return None if joins else _refusal_of_epoch(group, beat)


def refusal_of_leaving(group: ConsumerGroup, beat: Heartbeat) -> ConsumerHeartbeatResult | None:
    member = group.members.get(beat.member_id)
    if beat.instance_id is not None:
        holder = group.instances.get(beat.instance_id)
        if holder is not None and holder != beat.member_id:
            return refused(
                ErrorCode.FENCED_INSTANCE_ID, f"instance {beat.instance_id} of {group.group_id} is {holder} now"
            )
        member = None if holder is None else member
    return _unknown(group, beat.member_id) if member is None else None


def _malformed(beat: Heartbeat) -> str | None:
    if not beat.group_id:
        return "GroupId is empty"
    if not beat.member_id:
        return "MemberId is empty"
    if beat.instance_id == "":
        return "InstanceId is empty; it may be null"
    if beat.rack_id == "":
        return "RackId is empty; it may be null"
    if beat.member_epoch < LEAVING_STATIC_MEMBER:
        return f"MemberEpoch is {beat.member_epoch}; the lowest is {LEAVING_STATIC_MEMBER}"
    if beat.member_epoch == LEAVING_STATIC_MEMBER and beat.instance_id is None:
        return f"MemberEpoch is {LEAVING_STATIC_MEMBER}, but without an InstanceId a member cannot come back"
    if beat.member_epoch == JOINING:
        if beat.rebalance_timeout_ms is None:
            return "RebalanceTimeoutMs must be set by a member that joins"
        if beat.claimed is None or beat.claimed:
            return "TopicPartitions must be empty, and not null, from a member that joins: it owns nothing yet"
        if beat.topic_names is None and beat.topic_regex is None:
            return "SubscribedTopicNames or SubscribedTopicRegex must be set by a member that joins"
    return None


def _refusal_of_unknown(
    group: ConsumerGroup, beat: Heartbeat, settings: ConsumerSettings
) -> ConsumerHeartbeatResult | None:
    if beat.member_epoch != JOINING:
        return _unknown(group, beat.member_id)
    if len(group.members) >= settings.size_max and beat.member_id not in group.members:
        return refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"group {group.group_id} has {len(group.members)} members; more than {settings.size_max} are not allowed",
        )
    return None


def _refusal_of_epoch(group: ConsumerGroup, beat: Heartbeat) -> ConsumerHeartbeatResult | None:
    current = group.assignment(beat.member_id)
    if beat.member_epoch == current.epoch:
        return None
    lost_answer = beat.member_epoch == current.previous_epoch and beat.member_epoch < current.epoch
    if lost_answer and beat.claimed is not None and all(map(current.assigned.__contains__, beat.claimed)):
        return None
    return refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"epoch {beat.member_epoch} from member {beat.member_id} of {group.group_id}, which is at {current.epoch}; "
        "it must give up its partitions and join again",
    )


def _unknown(group: ConsumerGroup, member_id: str) -> ConsumerHeartbeatResult:
    return refused(ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id} is not in group {group.group_id}")


def take_over(draft: Draft, holder: str, member_id: str) -> None:
    """Give a static member a new member id. It keeps its subscription, target and assigned partitions.

    So the other members are not affected.
    """
    group = draft.group
    member, target, current = group.members[holder], group.target(holder), group.assignment(holder)
    forget_member(draft, holder)
    draft.write(replace(member, member_id=member_id))
    draft.write(Target(group.group_id, member_id, target))
    draft.write(CurrentAssignment(group.group_id, member_id, 0, 0, MemberState.STABLE, assigned=current.assigned))
