"""Elections on any image: a leader is in sync, epochs grow, and what was decided needs no second decision."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from semel.metadata.election import Altered, elect, leave_isr, prefer, resign, unclean
from semel.metadata.image import (
    Broker,
    BrokerRegistered,
    ClusterImage,
    PartitionState,
    Topic,
    TopicAltered,
    TopicCreated,
)

NODES = (1, 2, 3, 4)
ELECTIONS: dict[str, Callable[[ClusterImage], Altered]] = {
    "elect": elect,
    "prefer": prefer,
    "resign": lambda image: resign(image, 1),
    "leave": lambda image: leave_isr(image, 1, lambda _topic, partition: partition % 2 == 0),
}


@st.composite
def partition_states(draw: st.DrawFn) -> PartitionState:
    replicas = tuple(draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True)))
    isr = tuple(draw(st.lists(st.sampled_from(replicas), unique=True)))
    leader = draw(st.sampled_from((None, *isr)))
    return PartitionState(leader, draw(st.integers(0, 5)), replicas, isr, draw(st.integers(0, 5)))


@st.composite
def images(draw: st.DrawFn) -> ClusterImage:
    registered = draw(st.sets(st.sampled_from(NODES)))
    topics = draw(st.lists(st.lists(partition_states(), min_size=1, max_size=4), max_size=3))
    return ClusterImage("cluster").apply(
        [
            *(BrokerRegistered(Broker(node_id, "h", 1)) for node_id in sorted(registered)),
            *(
                TopicCreated(Topic(f"topic-{number}", UUID(int=number + 1), tuple(partitions)))
                for number, partitions in enumerate(topics)
            ),
        ]
    )


def pairs(before: ClusterImage, after: ClusterImage) -> list[tuple[PartitionState, PartitionState]]:
    return [
        (was, now)
        for name, topic in before.topics.items()
        for was, now in zip(topic.partitions, after.topics[name].partitions, strict=True)
    ]


@given(images(), st.sampled_from(list(ELECTIONS)))
def test_no_election_takes_a_leader_from_outside_the_in_sync_set_and_all_epochs_grow(
    before: ClusterImage, name: str
) -> None:
    after = before.apply(ELECTIONS[name](before))
    for was, now in pairs(before, after):
        assert now.replicas == was.replicas
        assert set(now.isr) <= set(was.isr)
        assert now.leader is None or now.leader in now.isr
        assert (now.leader_epoch > was.leader_epoch) == (now.leader != was.leader)
        assert (now.partition_epoch > was.partition_epoch) == (now != was)
        if now.leader != was.leader:
            assert now.leader is None or now.leader in before.brokers
        if was.isr and name != "leave":
            assert now.isr


@given(images(), st.sampled_from(list(ELECTIONS)))
def test_what_was_decided_needs_no_second_decision(before: ClusterImage, name: str) -> None:
    after = before.apply(ELECTIONS[name](before))
    assert ELECTIONS[name](after) == ()


@given(images())
def test_after_an_election_every_partition_that_can_be_led_is_led_and_no_set_has_a_broker_that_is_gone(
    before: ClusterImage,
) -> None:
    after = before.apply(elect(before))
    for was, now in pairs(before, after):
        if any(replica in before.brokers for replica in was.isr):
            assert now.leader in before.brokers
            assert all(replica in before.brokers for replica in now.isr)
        else:
            assert now == was


@given(images(), st.integers(1, 6))
def test_elections_in_several_commits_end_where_one_would(before: ClusterImage, partitions_max: int) -> None:
    after = before
    while changes := elect(after, partitions_max=partitions_max):
        assert len(changes) == 1 or sum(len(change.topic.partitions) for change in changes) <= partitions_max
        after = after.apply(changes)
    assert after.topics == before.apply(elect(before)).topics


@given(images(), st.integers(0, 3))
def test_an_unclean_election_takes_an_in_sync_replica_where_there_is_one(before: ClusterImage, partition: int) -> None:
    changed = unclean(before, "topic-0", partition)
    if not isinstance(changed, TopicAltered):
        return
    was, now = before.topics["topic-0"].partitions[partition], changed.topic.partitions[partition]
    assert before.leader(was) is None
    assert now.leader in now.isr
    assert now.leader in before.brokers
    assert (now.leader_epoch, now.partition_epoch) == (was.leader_epoch + 1, was.partition_epoch + 1)
    if any(replica in before.brokers for replica in was.isr):
        assert set(now.isr) <= set(was.isr)
    else:
        assert now.isr == (now.leader,)
