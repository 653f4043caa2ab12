"""The removal of a member: it left, sent no heartbeat in time, or did not revoke its partitions in time.

Its records are removed, so the partitions that it owned are free at once. The group moves to its next epoch
(``ClassicMembers.left``), and the next heartbeat of a member computes the targets.
"""

from __future__ import annotations

from dataclasses import replace

from semel.coordinator.group.consumer.draft import Draft
from semel.coordinator.group.consumer.records import NO_PARTITIONS, ConsumerGroupTombstone, MemberState
from semel.coordinator.group.formats import Kind
from semel.wire.messages.consumer_group_heartbeat import LEAVING_STATIC_MEMBER


def forget_member(draft: Draft, member_id: str) -> None:
    group = draft.group
    for kind, known in (
        (Kind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, group.current),
        (Kind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, group.targets),
        (Kind.CONSUMER_GROUP_MEMBER_METADATA, group.members),
    ):
        if member_id in known:
            draft.write(ConsumerGroupTombstone(kind, group.group_id, member_id))


def leave_for_a_while(draft: Draft, member_id: str) -> None:
    """Let a static member leave for a while: it keeps its assigned partitions, but not those that it had to revoke."""
    current = draft.group.assignment(member_id)
    draft.write(
        replace(
            current,
            epoch=LEAVING_STATIC_MEMBER,
            previous_epoch=current.epoch,
            state=MemberState.STABLE,
            revoking=NO_PARTITIONS,
        )
    )
