"""Placement: leaders spread, followers spread, replicas in different racks."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ErrorCode, KafkaError
from semel.metadata.image import (
    Broker,
    BrokerRegistered,
    ClusterImage,
    PartitionState,
    Topic,
    TopicAltered,
    TopicCreated,
)
from semel.metadata.placement import assign, place, reordered
from semel.types import TopicPartition


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


STATE = PartitionState(leader=1, leader_epoch=4, replicas=(1, 2, 3), isr=(1, 3), partition_epoch=6)
ORDERS = Topic("orders", UUID(int=7), (STATE, STATE))
CLUSTER = ClusterImage("cluster").apply(
    [*(BrokerRegistered(Broker(node_id, "h", 1)) for node_id in (1, 2, 3, 4)), TopicCreated(ORDERS)]
)


def test_another_order_of_the_replicas_leaves_leader_and_in_sync_set_as_they_are() -> None:
    after = PartitionState(leader=1, leader_epoch=4, replicas=(3, 1, 2), isr=(1, 3), partition_epoch=7)
    (change,) = reordered(CLUSTER, TopicPartition("orders", 1), (3, 1, 2))
    assert change == TopicAltered(Topic("orders", UUID(int=7), (STATE, after)))


def test_the_order_that_there_is_changes_nothing() -> None:
    assert reordered(CLUSTER, TopicPartition("orders", 0), (1, 2, 3)) == ()


@pytest.mark.parametrize(
    ("partition", "replicas", "code", "said"),
    [
        (TopicPartition("orders", 2), (1, 2, 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not exist"),
        (TopicPartition("orders", 0), None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment"),
        (TopicPartition("orders", 0), (), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
        (TopicPartition("orders", 0), (1, 1, 2), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
        (TopicPartition("orders", 0), (1, 2, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
        (TopicPartition("orders", 0), (1, 2, 4), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "does not move replicas"),
        (TopicPartition("orders", 0), (1, 2), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "does not move replicas"),
    ],
)
def test_replicas_are_not_moved(
    partition: TopicPartition, replicas: tuple[int, ...] | None, code: ErrorCode, said: str
) -> None:
    with pytest.raises(KafkaError, match=said) as refused:
        reordered(CLUSTER, partition, replicas)
    assert refused.value.code is code
