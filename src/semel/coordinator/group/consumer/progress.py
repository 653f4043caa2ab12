"""What a member's heartbeat changes: the group's next epoch, the target assignment, one step of the member."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from semel.coordinator.group.consumer.draft import Draft
from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.reconciliation import reconciled
from semel.coordinator.group.consumer.records import AssignedPartition, ConsumerMember, CurrentAssignment
from semel.coordinator.group.consumer.subscription import advance_epoch
from semel.coordinator.group.consumer.targeting import retarget
from semel.coordinator.group.directory import Change, GroupDirectory
from semel.coordinator.group.topics import TopicsView
from semel.coordinator.moment import Moment


@dataclass(frozen=True, slots=True)
class Progress:
    before: CurrentAssignment
    after: CurrentAssignment
    changes: tuple[Change, ...]


def progress(
    draft: Draft,
    member: ConsumerMember,
    *,
    claimed: Collection[AssignedPartition] | None,
    assignors: Sequence[str],
    topics: TopicsView,
    moment: Moment,
    may_describe: Callable[[str], bool] | None = None,
) -> Progress | None:
    """Write the member to the draft, and advance the group and the member. ``None``: the member must join again.

    ``may_describe`` is given for a client that uses the KIP-848 protocol; other clients have no regular expressions.
    """
    known = draft.group.members.get(member.member_id)
    if member != known:
        draft.write(member)
    changed = _subscribes_differently(known, member)
    changes: tuple[Change, ...] = ()
    if changed or draft.group.topics_version != topics.version:
        advance_epoch(draft, topics, changed=changed, now_ms=moment.wall_ms, may_describe=may_describe)
        if may_describe is not None:
            changes = (TopicsSeen(member.group_id, topics.version),)
    if draft.group.target_epoch < draft.group.epoch:
        retarget(draft, topics, assignors, moment.wall_ms)
    group = draft.group
    before = group.assignment(member.member_id)
    after = reconciled(
        before,
        target_epoch=group.target_epoch,
        target=group.target(member.member_id),
        owners=group.owners,
        claimed=claimed,
    )
    if after is None:
        return None
    if after != before:
        draft.write(after)
    return Progress(before, after, changes)


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """Sets the version of the topics that the group's epoch takes account of."""

    group_id: str
    version: int

    def apply(self, directory: GroupDirectory) -> None:
        group = directory.groups.get(self.group_id)
        if isinstance(group, ConsumerGroup):
            group.topics_version = self.version


def _subscribes_differently(before: ConsumerMember | None, after: ConsumerMember) -> bool:
    if before is None:
        return True
    return before.topic_names != after.topic_names or before.topic_regex != after.topic_regex
