"""The target assignment: which partitions each member is to own, computed once for each epoch of the group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from semel.coordinator.group.consumer.assignor import Assignor, Subscriber
from semel.coordinator.group.consumer.draft import Draft
from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.range_assignor import assign_range
from semel.coordinator.group.consumer.records import ConsumerGroupTombstone, Target, TargetEpoch
from semel.coordinator.group.consumer.subscription import subscribed_topics
from semel.coordinator.group.consumer.uniform_assignor import assign_uniform
from semel.coordinator.group.formats import Kind
from semel.coordinator.group.topics import TopicsView

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}


def preferred_assignor(group: ConsumerGroup, offered: Sequence[str]) -> str:
    """The assignor that most members name; the first one of ``offered`` if none is named."""
    votes = Counter(member.assignor for member in group.members.values() if member.assignor in offered)
    return max(offered, key=lambda name: votes[name])


def retarget(draft: Draft, topics: TopicsView, offered: Sequence[str], now_ms: int) -> None:
    """Compute the targets for the group's epoch, and write those that have changed."""
    group = draft.group
    existing = {topic.name: topic for topic in subscribed_topics(group, topics)}
    subscribers = {
        member_id: Subscriber(
            topics=frozenset(existing[name].topic_id for name in group.topics_of(member) if name in existing),
            target=group.target(member_id),
            instance_id=member.instance_id,
        )
        for member_id, member in group.members.items()
    }
    assign = ASSIGNORS[preferred_assignor(group, offered)]
    counts = {topic.topic_id: topic.partition_count for topic in existing.values()}
    for member_id, partitions in assign(subscribers, counts).items():
        if group.targets.get(member_id) != partitions:
            draft.write(Target(group.group_id, member_id, partitions))
    for member_id in [known for known in group.targets if known not in group.members]:
        draft.write(ConsumerGroupTombstone(Kind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, group.group_id, member_id))
    draft.write(TargetEpoch(group.group_id, group.epoch, now_ms))
