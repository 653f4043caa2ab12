"""Random groups: topics, and members that subscribe to some of them and had some of their partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from semel.client.assignors import Assignment, Assignor, Subscription
from semel.types import TopicPartition

TOPICS = ("a", "b", "c", "d")
UNKNOWN = "unknown"
"""A topic that members may subscribe to and that does not exist."""


@dataclass(frozen=True)
class Group:
    partition_counts: dict[str, int]
    subscriptions: dict[str, Subscription]

    @property
    def subscribed(self) -> set[TopicPartition]:
        """Every partition that somebody has to get."""
        topics = {topic for subscription in self.subscriptions.values() for topic in subscription.topics}
        return {
            TopicPartition(topic, partition)
            for topic in topics
            for partition in range(self.partition_counts.get(topic, 0))
        }

    @property
    def all_subscribe_to_the_same(self) -> bool:
        return len({frozenset(subscription.topics) for subscription in self.subscriptions.values()}) == 1

    def after(self, assigned: Mapping[str, Assignment], generation_id: int, assignor_class: type[Assignor]) -> Group:
        """The same group when it joins again, having been assigned this."""
        subscriptions = {}
        for member_id, subscription in self.subscriptions.items():
            assignor = assignor_class()
            assignor.on_assignment(assigned[member_id], generation_id)
            subscriptions[member_id] = replace(
                subscription,
                user_data=assignor.subscription_user_data(subscription.topics),
                owned_partitions=assigned[member_id].partitions,
                generation_id=generation_id,
            )
        return replace(self, subscriptions=subscriptions)

    def without(self, member_id: str) -> Group:
        rest = {name: subscription for name, subscription in self.subscriptions.items() if name != member_id}
        return replace(self, subscriptions=rest)

    def joined_by(self, member_id: str, subscription: Subscription) -> Group:
        return replace(self, subscriptions={**self.subscriptions, member_id: subscription})


@st.composite
def groups(draw: st.DrawFn, *, same_topics: bool | None = None, members_min: int = 1) -> Group:
    partition_counts = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12), min_size=1))
    names = draw(st.lists(st.text("mnopq", min_size=1, max_size=3), min_size=members_min, max_size=7, unique=True))
    topics = st.lists(st.sampled_from([*partition_counts, UNKNOWN]), unique=True, max_size=4).map(tuple)
    of_all = draw(topics) if draw(st.booleans() if same_topics is None else st.just(same_topics)) else None
    # Instance ids in an order of their own: Kafka sorts by them before it sorts by member ids.
    instance_ids = draw(st.permutations([f"i{index}" for index in range(len(names))]))
    subscriptions = {
        name: Subscription(
            draw(topics) if of_all is None else of_all,
            group_instance_id=instance_id if draw(st.booleans()) else None,
        )
        for name, instance_id in zip(names, instance_ids, strict=True)
    }
    return Group(partition_counts, subscriptions)


@st.composite
def claims(draw: st.DrawFn, group: Group, assignor_class: type[Assignor], *, of_existing: bool = False) -> Group:
    """The same group, in which members claim partitions of several generations, of which some are lies."""
    partitions = [TopicPartition(topic, partition) for topic in TOPICS for partition in range(13)]
    if of_existing:
        partitions = sorted(group.subscribed)
    subscriptions = {}
    for member_id, subscription in group.subscriptions.items():
        owned = tuple(draw(st.lists(st.sampled_from(partitions), unique=True, max_size=20)) if partitions else ())
        generation_id = draw(st.none() | st.integers(0, 3))
        assignor = assignor_class()
        if generation_id is not None:
            assignor.on_assignment(Assignment(owned), generation_id)
        subscriptions[member_id] = replace(
            subscription,
            user_data=assignor.subscription_user_data(subscription.topics),
            owned_partitions=owned,
            generation_id=generation_id,
        )
    return replace(group, subscriptions=subscriptions)


def loads(assigned: Mapping[str, Assignment]) -> list[int]:
    return sorted(len(assignment.partitions) for assignment in assigned.values())


def owners(assigned: Mapping[str, Assignment]) -> dict[TopicPartition, str]:
    return {partition: member_id for member_id, given in assigned.items() for partition in given.partitions}


def kept(before: Mapping[TopicPartition, str], after: Mapping[TopicPartition, str]) -> int:
    return sum(after.get(partition) == member_id for partition, member_id in before.items())


def most_that_can_stay(partition_total: int, before_loads: list[int]) -> int:
    """In any placement that is even within one, where all subscribe to the same topics."""
    least, more = divmod(partition_total, len(before_loads))
    richest = sorted(before_loads, reverse=True)
    return sum(min(load, least + (index < more)) for index, load in enumerate(richest))


def check_complete_and_disjoint(group: Group, assigned: Mapping[str, Assignment]) -> None:
    assert assigned.keys() == group.subscriptions.keys()
    given = Counter(partition for assignment in assigned.values() for partition in assignment.partitions)
    assert given == Counter(group.subscribed)
    check_only_what_was_subscribed(group, assigned)


def check_only_what_was_subscribed(group: Group, assigned: Mapping[str, Assignment]) -> None:
    for member_id, assignment in assigned.items():
        assert {topic for topic, _ in assignment.partitions} <= set(group.subscriptions[member_id].topics)


def check_even_as_kafka_promises(group: Group, assigned: Mapping[str, Assignment]) -> None:
    """Nobody has two more than somebody who could take one of them."""
    for giver in assigned.values():
        for taker_id, taker in assigned.items():
            if len(giver.partitions) - len(taker.partitions) > 1:
                topics = set(group.subscriptions[taker_id].topics)
                assert not any(topic in topics for topic, _ in giver.partitions)
