"""Placement: leaders spread, followers spread, replicas in different racks."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ErrorCode, KafkaError
from semel.metadata.image import Broker, PartitionState
from semel.metadata.placement import assign, place


def brokers(*racks: str | None) -> dict[int, Broker]:
    return {node_id: Broker(node_id, "h", 1, rack) for node_id, rack in enumerate(racks)}


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**128 - 1), st.integers(0, 100), st.integers(1, 60))
def test_every_partition_has_as_many_different_replicas_as_asked_and_leaders_are_even(
    count: int, factor: int, topic_id: int, first: int, partitions: int
) -> None:
    factor = min(factor, count)
    placed = place(
        brokers(*[None] * count), UUID(int=topic_id), range(first, first + partitions), replication_factor=factor
    )
    assert all(len(set(state.replicas)) == len(state.replicas) == factor for state in placed)
    assert all(state == PartitionState(state.replicas[0], 0, state.replicas, state.replicas, 0) for state in placed)
    leaders = Counter(state.leader for state in placed)
    assert max(leaders.values()) - min(leaders[node_id] for node_id in range(count)) <= 1


def test_partitions_with_the_same_leader_have_different_followers() -> None:
    placed = place(brokers(*[None] * 4), UUID(int=0), range(12), replication_factor=2)
    followers = {state.replicas[1] for state in placed if state.leader == 0}
    assert followers == {1, 2, 3}


def test_the_replicas_of_a_partition_stand_in_different_racks() -> None:
    cluster = brokers("a", "a", "b", "b")
    for topic in range(4):
        placed = place(cluster, UUID(int=topic), range(4), replication_factor=2)
        assert all(len({cluster[node].rack for node in state.replicas}) == 2 for state in placed)


def test_partitions_added_later_go_on_where_the_first_ended() -> None:
    cluster = brokers(*[None] * 3)
    both = place(cluster, UUID(int=5), range(7), replication_factor=2)
    assert both == place(cluster, UUID(int=5), range(3), replication_factor=2) + place(
        cluster, UUID(int=5), range(3, 7), replication_factor=2
    )


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        place(brokers(None), UUID(int=0), range(1), replication_factor=3)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert refused.value.message == (
        "Unable to replicate the partition 3 time(s): the target replication factor of 3 cannot be reached because "
        "only 1 broker(s) are registered."
    )


INCONSISTENT = (
    "includes a partition with 2 replica(s), but this is not consistent with previous partitions, "
    "which have 1 replica(s)."
)


@pytest.mark.parametrize(
    ("replicas", "said"),
    [
        ([[]], "includes an empty replica list."),
        ([[0], [7]], "includes broker 7, but no such broker is registered."),
        ([[1, 0, 1]], "includes the broker 1 more than once."),
        ([[0], [0, 1]], INCONSISTENT),
    ],
)
def test_a_bad_assignment_is_refused_with_kafkas_words(replicas: list[list[int]], said: str) -> None:
    with pytest.raises(KafkaError) as refused:
        assign(brokers(None, None), replicas, replication_factor=None)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refused.value.message == f"The manual partition assignment {said}"


def test_an_assignment_is_taken_as_given_and_led_by_its_first() -> None:
    (state,) = assign(brokers(None, None), [[1, 0]], replication_factor=2)
    assert state == PartitionState(leader=1, leader_epoch=0, replicas=(1, 0), isr=(1, 0))
