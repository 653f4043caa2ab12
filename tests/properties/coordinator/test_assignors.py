"""Server-side assignors: complete, disjoint, allowed, balanced where promised, sticky where promised."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.coordinator.group.consumer.assignor import Assignor, Subscriber
from semel.coordinator.group.consumer.range_assignor import assign_range
from semel.coordinator.group.consumer.records import AssignedPartition, Partitions
from semel.coordinator.group.consumer.uniform_assignor import assign_uniform

TOPICS = [UUID(int=number) for number in range(1, 6)]
MEMBERS = [f"member-{number}" for number in range(7)]

partition_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), max_size=5)
targets = st.frozensets(st.builds(AssignedPartition, st.sampled_from(TOPICS), st.integers(0, 10)), max_size=12)
unequal = st.dictionaries(
    st.sampled_from(MEMBERS),
    st.builds(Subscriber, st.frozensets(st.sampled_from(TOPICS)), targets, st.sampled_from([None, "x", "y"])),
    max_size=7,
)


@st.composite
def equal(draw: st.DrawFn) -> dict[str, Subscriber]:
    topics = draw(st.frozensets(st.sampled_from(TOPICS)))
    members = draw(st.lists(st.sampled_from(MEMBERS), unique=True, min_size=1))
    return {member_id: Subscriber(topics, draw(targets)) for member_id in members}


def wanted(subscribers: Mapping[str, Subscriber], counts: Mapping[UUID, int]) -> set[AssignedPartition]:
    """Every partition that somebody subscribes to."""
    topics = set().union(*(subscriber.topics for subscriber in subscribers.values()))
    return {AssignedPartition(topic, index) for topic in topics & set(counts) for index in range(counts[topic])}


def sizes(assigned: Mapping[str, Partitions]) -> list[int]:
    return sorted(map(len, assigned.values()))


@pytest.mark.parametrize("assign", [assign_uniform, assign_range])
@given(subscribers=st.one_of(unequal, equal()), counts=partition_counts)
def test_every_partition_goes_to_exactly_one_subscriber(
    assign: Assignor, subscribers: dict[str, Subscriber], counts: dict[UUID, int]
) -> None:
    assigned = assign(subscribers, counts)

    assert set(assigned) == set(subscribers)
    everything = [partition for partitions in assigned.values() for partition in partitions]
    assert len(everything) == len(set(everything)), "disjoint"
    assert set(everything) == wanted(subscribers, counts), "complete"
    for member_id, partitions in assigned.items():
        assert {partition.topic_id for partition in partitions} <= subscribers[member_id].topics, "allowed"


@pytest.mark.parametrize("assign", [assign_uniform, assign_range])
@given(subscribers=unequal, counts=partition_counts)
def test_the_order_of_members_and_topics_does_not_matter(
    assign: Assignor, subscribers: dict[str, Subscriber], counts: dict[UUID, int]
) -> None:
    turned = dict(reversed(subscribers.items())), dict(reversed(counts.items()))
    assert assign(*turned) == assign(subscribers, counts)


@given(subscribers=equal(), counts=partition_counts)
def test_uniform_is_balanced_within_one_with_equal_subscriptions(
    subscribers: dict[str, Subscriber], counts: dict[UUID, int]
) -> None:
    shares = sizes(assign_uniform(subscribers, counts))
    assert shares[-1] - shares[0] <= 1


@given(
    subscribers=st.dictionaries(
        st.sampled_from(MEMBERS[:3]),
        st.builds(Subscriber, st.frozensets(st.sampled_from(TOPICS[:3])), targets),
        min_size=1,
        max_size=3,
    ),
    counts=st.dictionaries(st.sampled_from(TOPICS[:3]), st.integers(1, 2), max_size=3),
)
@settings(max_examples=60)
def test_no_assignment_is_better_balanced_than_uniform_even_with_unequal_subscriptions(
    subscribers: dict[str, Subscriber], counts: dict[UUID, int]
) -> None:
    """Against all assignments there are."""
    partitions = sorted(wanted(subscribers, counts))
    owners = [
        [each for each in subscribers if partition.topic_id in subscribers[each].topics] for partition in partitions
    ]
    best = min(sum(choice.count(member_id) ** 2 for member_id in subscribers) for choice in product(*owners))

    assert sum(size**2 for size in sizes(assign_uniform(subscribers, counts))) == best


@given(subscribers=st.one_of(unequal, equal()), counts=partition_counts)
def test_uniform_moves_nothing_when_nothing_changes(
    subscribers: dict[str, Subscriber], counts: dict[UUID, int]
) -> None:
    first = assign_uniform(subscribers, counts)
    settled = {
        member_id: Subscriber(subscriber.topics, first[member_id]) for member_id, subscriber in subscribers.items()
    }

    assert assign_uniform(settled, counts) == first


@given(subscribers=equal(), counts=partition_counts, joins=st.booleans())
def test_with_equal_subscriptions_uniform_moves_no_more_than_the_surplus(
    subscribers: dict[str, Subscriber], counts: dict[UUID, int], joins: bool
) -> None:
    first = assign_uniform(subscribers, counts)
    topics = next(iter(subscribers.values())).topics
    after = {member_id: Subscriber(topics, first[member_id]) for member_id in subscribers}
    if joins:
        after["newcomer"] = Subscriber(topics)
    elif len(after) > 1:
        del after[min(after)]

    second = assign_uniform(after, counts)

    moved = sum(len(first[member_id] - second[member_id]) for member_id in after if member_id in first)
    assert moved == (len(second["newcomer"]) if joins else 0)


@given(
    members=st.lists(st.sampled_from(MEMBERS), unique=True, min_size=1),
    count=st.integers(1, 20),
)
def test_range_gives_runs_and_splits_equal_topics_in_the_same_places(members: list[str], count: int) -> None:
    one, other = TOPICS[:2]
    assigned = assign_range(dict.fromkeys(members, Subscriber(frozenset({one, other}))), {one: count, other: count})

    shares = []
    for member_id in sorted(members):
        mine = sorted(index for topic, index in assigned[member_id] if topic == one)
        assert mine == sorted(index for topic, index in assigned[member_id] if topic == other)
        assert mine == list(range(mine[0], mine[0] + len(mine))) if mine else True
        shares.append(len(mine))
    assert shares == sorted(shares, reverse=True), "the first ones have one more"
    assert shares[0] - shares[-1] <= 1


def test_range_places_static_members_by_their_instance_id() -> None:
    (topic,) = TOPICS[:1]
    topics = frozenset({topic})
    before = assign_range(
        {"a": Subscriber(topics, instance_id="2"), "b": Subscriber(topics, instance_id="1")}, {topic: 2}
    )
    after = assign_range(
        {"z": Subscriber(topics, instance_id="2"), "b": Subscriber(topics, instance_id="1")}, {topic: 2}
    )

    assert before["a"] == after["z"] == {AssignedPartition(topic, 1)}
