"""What assignors promise, for groups of any shape: complete, disjoint, even, and little moves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from semel.client.assignors import (
    Assignment,
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    Subscription,
)
from tests.properties.client.groups import (
    Group,
    check_complete_and_disjoint,
    check_even_as_kafka_promises,
    check_only_what_was_subscribed,
    claims,
    groups,
    kept,
    loads,
    most_that_can_stay,
    owners,
)

many = settings(max_examples=60, derandomize=True, database=None)
EVERY: list[type[Any]] = [RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor]
STICKY: list[type[Any]] = [StickyAssignor, CooperativeStickyAssignor]


def run(assignor_class: type[Assignor], group: Group) -> dict[str, Assignment]:
    return dict(assignor_class().assign(group.partition_counts, group.subscriptions))


def settled(
    assignor_class: type[Assignor], group: Group, generation_id: int = 0
) -> tuple[Group, dict[str, Assignment]]:
    """Joined again until nobody has to give anything up; two rounds must do."""
    assigned = run(assignor_class, group)
    for _ in range(2):
        group = group.after(assigned, generation_id, assignor_class)
        assigned, before = run(assignor_class, group), assigned
        generation_id += 1
        if owners(assigned) == owners(before):
            return group, assigned
    raise AssertionError(f"still moving: {before} became {assigned}")


@pytest.mark.parametrize("assignor_class", EVERY)
@many
@given(group=groups())
def test_every_partition_that_somebody_subscribes_to_goes_to_one_who_does(
    assignor_class: type[Assignor], group: Group
) -> None:
    check_complete_and_disjoint(group, run(assignor_class, group))


@many
@given(group=groups())
def test_range_is_even_per_topic_and_gives_neighbours(group: Group) -> None:
    assigned = run(RangeAssignor, group)
    for topic in group.partition_counts:
        per_member = [
            [partition for name, partition in assigned[member_id].partitions if name == topic]
            for member_id, subscription in group.subscriptions.items()
            if topic in subscription.topics
        ]
        if per_member:
            assert max(map(len, per_member)) - min(map(len, per_member)) <= 1
        for run_ in per_member:
            assert run_ == list(range(run_[0], run_[0] + len(run_))) if run_ else True


@many
@given(group=groups(same_topics=True), count=st.integers(1, 12))
def test_range_gives_the_same_numbers_of_topics_that_are_alike(group: Group, count: int) -> None:
    group = Group(dict.fromkeys(group.partition_counts, count), group.subscriptions)
    for assignment in run(RangeAssignor, group).values():
        numbers = {
            topic: [index for name, index in assignment.partitions if name == topic]
            for topic, _ in assignment.partitions
        }
        assert len({tuple(indexes) for indexes in numbers.values()}) <= 1


@pytest.mark.parametrize("assignor_class", [RoundRobinAssignor, *STICKY])
@many
@given(group=groups(same_topics=True))
def test_where_all_subscribe_to_the_same_topics_the_load_is_even_within_one(
    assignor_class: type[Assignor], group: Group
) -> None:
    spread = loads(run(assignor_class, group))
    assert spread[-1] - spread[0] <= 1


@many
@given(data=st.data(), group=groups())
def test_sticky_is_complete_and_even_whatever_members_claim(data: st.DataObject, group: Group) -> None:
    group = data.draw(claims(group, StickyAssignor))
    assigned = run(StickyAssignor, group)
    check_complete_and_disjoint(group, assigned)
    check_even_as_kafka_promises(group, assigned)


@many
@given(data=st.data(), group=groups())
def test_cooperative_gives_nobody_what_another_member_still_has(data: st.DataObject, group: Group) -> None:
    group = data.draw(claims(group, CooperativeStickyAssignor))
    assigned = run(CooperativeStickyAssignor, group)
    check_only_what_was_subscribed(group, assigned)
    given_ = [partition for assignment in assigned.values() for partition in assignment.partitions]
    assert len(given_) == len(set(given_))
    for partition, member_id in owners(assigned).items():
        newest = group.subscriptions[member_id]
        for other_id, other in group.subscriptions.items():
            if other_id != member_id and partition in other.owned_partitions:
                # The other one's claim is older: its partitions were given away while it was not there.
                assert partition in newest.owned_partitions
                assert (newest.generation_id or 0) >= (other.generation_id or -1)
                assert newest.generation_id != other.generation_id
    # What was held back was held back for somebody who has it.
    held_back = group.subscribed - set(given_)
    claimed = {
        partition for subscription in group.subscriptions.values() for partition in subscription.owned_partitions
    }
    assert held_back <= claimed


@many
@given(data=st.data(), group=groups())
def test_cooperative_ends_complete_and_even_when_all_join_again(data: st.DataObject, group: Group) -> None:
    group = data.draw(claims(group, CooperativeStickyAssignor))
    first = run(CooperativeStickyAssignor, group)
    second, assigned = settled(CooperativeStickyAssignor, group.after(first, 10, CooperativeStickyAssignor), 11)
    check_complete_and_disjoint(second, assigned)
    check_even_as_kafka_promises(second, assigned)


@pytest.mark.parametrize("assignor_class", STICKY)
@many
@given(group=groups())
def test_nothing_moves_when_nothing_has_changed(assignor_class: type[Assignor], group: Group) -> None:
    assigned = run(assignor_class, group)
    again = group.after(assigned, 1, assignor_class)
    assert owners(run(assignor_class, again)) == owners(assigned)


@pytest.mark.parametrize("assignor_class", STICKY)
@many
@given(data=st.data(), group=groups(same_topics=True, members_min=2))
def test_when_a_member_leaves_the_others_keep_all_they_had(
    assignor_class: type[Assignor], data: st.DataObject, group: Group
) -> None:
    group, assigned = settled(assignor_class, group)
    gone = data.draw(st.sampled_from(sorted(group.subscriptions)))
    before = {partition: member_id for partition, member_id in owners(assigned).items() if member_id != gone}
    rest = group.without(gone)
    after = run(assignor_class, rest)
    check_complete_and_disjoint(rest, after)
    assert kept(before, owners(after)) == len(before)


@pytest.mark.parametrize("assignor_class", STICKY)
@many
@given(data=st.data(), group=groups(same_topics=True))
def test_when_members_come_no_more_moves_than_evenness_needs(
    assignor_class: type[Assignor], data: st.DataObject, group: Group
) -> None:
    group, assigned = settled(assignor_class, group)
    topics = next(iter(group.subscriptions.values())).topics
    before = owners(assigned)
    for index in range(data.draw(st.integers(1, 4))):
        group = group.joined_by(f"new{index}", Subscription(topics))
    after = owners(run(assignor_class, group))
    member_loads = [len(assigned[name].partitions) if name in assigned else 0 for name in group.subscriptions]
    assert kept(before, after) == most_that_can_stay(len(before), member_loads)


@many
@given(data=st.data(), group=groups(same_topics=True))
def test_whatever_was_claimed_as_much_stays_as_evenness_allows(data: st.DataObject, group: Group) -> None:
    group = data.draw(claims(group, StickyAssignor))
    believed: dict[Any, list[tuple[int, str]]] = {}
    for member_id, subscription in group.subscriptions.items():
        if subscription.generation_id is not None:  # Without one there was no assignment to remember.
            for partition in subscription.owned_partitions:
                believed.setdefault(partition, []).append((subscription.generation_id, member_id))
    before = {}
    for partition, claimants in believed.items():
        generation_id, member_id = max(claimants)
        is_sole = [claimed for claimed, _ in claimants].count(generation_id) == 1
        if is_sole and partition in group.subscribed:
            before[partition] = member_id
    assume(before)
    after = owners(run(StickyAssignor, group))
    member_loads = [list(before.values()).count(member_id) for member_id in group.subscriptions]
    assert kept(before, after) == most_that_can_stay(len(group.subscribed), member_loads)
