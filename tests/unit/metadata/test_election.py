"""Elections: the leaders and in-sync sets after a broker has come, gone, resigned or lost its disk."""

from __future__ import annotations

from uuid import UUID

import pytest

from semel.errors import ErrorCode, KafkaError
from semel.metadata.election import Altered, elect, leave_isr, prefer, resign, unclean
from semel.metadata.image import (
    Broker,
    BrokerRegistered,
    BrokerUnregistered,
    ClusterImage,
    PartitionState,
    Topic,
    TopicAltered,
    TopicCreated,
)


def state(
    leader: int | None, *isr: int, epoch: int = 4, version: int = 7, replicas: tuple[int, ...] = (1, 2, 3)
) -> PartitionState:
    return PartitionState(leader, epoch, replicas, isr, version)


def image(registered: tuple[int, ...], *partitions: PartitionState) -> ClusterImage:
    return ClusterImage("cluster").apply(
        [
            *(BrokerRegistered(Broker(node_id, "h", 1, epoch=node_id)) for node_id in registered),
            TopicCreated(Topic("orders", UUID(int=1), partitions)),
        ]
    )


def partitions_of(changes: Altered) -> list[PartitionState]:
    return [partition for change in changes for partition in change.topic.partitions]


# A broker is gone


def test_the_first_replica_that_is_registered_and_in_sync_leads_under_the_next_epoch() -> None:
    assert partitions_of(elect(image((2, 3), state(1, 3, 2, 1)))) == [state(2, 3, 2, epoch=5, version=8)]
    assert partitions_of(elect(image((2, 3), state(1, 1, 3)))) == [state(3, 3, epoch=5, version=8)]


def test_a_follower_that_is_gone_leaves_the_in_sync_set_and_the_term_goes_on() -> None:
    assert partitions_of(elect(image((1, 3), state(1, 1, 2, 3)))) == [state(1, 1, 3, epoch=4, version=8)]
    assert partitions_of(elect(image((1,), state(1, 1, 2, 3)))) == [state(1, 1, epoch=4, version=8)]


def test_scenario_63_without_a_registered_in_sync_replica_nothing_changes() -> None:
    """Broker 3 is there, but may lack what was acknowledged."""
    assert elect(image((3,), state(1, 1, 2))) == ()
    assert elect(image((3,), state(None, 1, 2))) == ()


def test_scenario_64_an_in_sync_replica_that_comes_back_leads() -> None:
    assert partitions_of(elect(image((2, 3), state(1, 1, 2)))) == [state(2, 2, epoch=5, version=8)]
    assert partitions_of(elect(image((2, 3), state(None, 2)))) == [state(2, 2, epoch=5, version=8)]


def test_an_empty_in_sync_set_is_led_by_no_broker() -> None:
    assert elect(image((1, 2, 3), state(None))) == ()


def test_nothing_changes_while_all_are_there() -> None:
    assert elect(image((1, 2, 3), state(1, 1, 2, 3), state(2, 2, 3))) == ()


def test_all_partitions_of_a_broker_that_is_gone_get_leaders_in_one_decision() -> None:
    before = image((2, 3), state(1, 1, 2, 3), state(2, 2, 3), state(3, 3, 1, 2, replicas=(3, 1, 2)))
    assert partitions_of(elect(before)) == [
        state(2, 2, 3, epoch=5, version=8),
        state(2, 2, 3),
        state(3, 3, 2, replicas=(3, 1, 2), version=8),
    ]


def test_a_decision_has_whole_topics_within_the_limit_and_the_next_one_has_the_rest() -> None:
    before = image((1, 2)).apply(
        TopicCreated(Topic(name, UUID(int=10 + number), (state(3, 3, 2),) * 4)) for number, name in enumerate("abc")
    )
    rounds = []
    while changes := elect(before, partitions_max=9):
        rounds.append([change.topic.name for change in changes])
        before = before.apply(changes)
    assert rounds == [["a", "b"], ["c"]]
    assert [change.topic.name for change in elect(image((2,), state(1, 1, 2), state(1, 1, 2)), partitions_max=1)] == [
        "orders"
    ]


# A controlled stop


def test_a_broker_that_resigns_hands_its_leaderships_to_others_and_leaves_the_in_sync_sets() -> None:
    before = image((1, 2, 3), state(1, 1, 2, 3), state(2, 2, 1), state(3, 3, 2))
    assert partitions_of(resign(before, 1)) == [
        state(2, 2, 3, epoch=5, version=8),
        state(2, 2, version=8),
        state(3, 3, 2),
    ]


def test_a_broker_that_is_the_last_one_keeps_what_it_leads() -> None:
    assert resign(image((1, 2, 3), state(1, 1)), 1) == ()
    assert resign(image((1, 3), state(1, 1, 2)), 1) == ()  # Broker 2 is in sync and not there.


def test_a_broker_that_has_resigned_is_not_elected_again() -> None:
    before = image((1, 2, 3), state(1, 1, 2))
    resigned = before.apply(resign(before, 1))
    assert (resign(resigned, 1), elect(resigned)) == ((), ())


# A lost disk


def test_a_broker_that_lost_its_disk_leaves_the_in_sync_sets_and_its_leaderships() -> None:
    before = image((2, 3), state(1, 1, 2, 3), state(2, 2, 1), state(3, 3, 2))
    assert partitions_of(leave_isr(before, 1, lambda _topic, _partition: False)) == [
        state(2, 2, 3, epoch=5, version=8),
        state(2, 2, version=8),
        state(3, 3, 2),
    ]


def test_scenario_64_the_last_replica_that_may_have_lost_records_is_not_elected_again() -> None:
    before = image((2, 3), state(1, 1))
    left = before.apply(leave_isr(before, 1, lambda _topic, _partition: False))
    assert left.topics["orders"].partitions == (state(None, epoch=5, version=8),)
    back = left.apply([BrokerRegistered(Broker(1, "h", 1, epoch=9))])
    assert (elect(back), leave_isr(back, 1, lambda _topic, _partition: False)) == ((), ())


def test_scenario_64_the_others_lead_when_they_come_back() -> None:
    before = image((3,), state(1, 1, 2))
    left = before.apply(leave_isr(before, 1, lambda _topic, _partition: False))
    assert left.topics["orders"].partitions == (state(None, 2, epoch=5, version=8),)
    back = left.apply([BrokerRegistered(Broker(2, "h", 1, epoch=9))])
    assert partitions_of(elect(back)) == [state(2, 2, epoch=6, version=9)]


def test_what_is_certainly_whole_is_kept() -> None:
    before = image((2, 3), state(1, 1, 2), state(1, 1, 2))
    assert partitions_of(leave_isr(before, 1, lambda topic, partition: (topic, partition) == ("orders", 1))) == [
        state(2, 2, epoch=5, version=8),
        state(1, 1, 2),
    ]


def test_a_partition_without_other_replicas_stays() -> None:
    assert leave_isr(image((), state(1, 1, replicas=(1,))), 1, lambda _topic, _partition: False) == ()


# Preferred leaders


def test_the_first_replica_leads_where_it_is_registered_and_in_sync() -> None:
    before = image((1, 2), state(2, 1, 2), state(2, 2), state(2, 2, 3, replicas=(3, 2)), state(1, 1, 2))
    assert partitions_of(prefer(before)) == [
        state(1, 1, 2, epoch=5, version=8),
        state(2, 2),
        state(2, 2, 3, replicas=(3, 2)),
        state(1, 1, 2),
    ]
    assert prefer(before.apply(prefer(before))) == ()


# Unclean, by hand


def elected(changed: TopicAltered | KafkaError) -> PartitionState:
    assert isinstance(changed, TopicAltered)
    return changed.topic.partitions[0]


def test_scenario_63_an_unclean_election_takes_a_replica_that_is_there_as_the_only_member() -> None:
    assert elected(unclean(image((2, 3), state(1, 1)), "orders", 0)) == state(2, 2, epoch=5, version=8)
    assert elected(unclean(image((2, 3), state(None)), "orders", 0, node_id=3)) == state(3, 3, epoch=5, version=8)


def test_an_in_sync_replica_is_elected_cleanly() -> None:
    assert elected(unclean(image((2, 3), state(None, 1, 3)), "orders", 0)) == state(3, 3, epoch=5, version=8)


@pytest.mark.parametrize(
    ("before", "partition", "node_id", "code"),
    [
        (image((1, 2, 3), state(1, 1)), 0, None, ErrorCode.ELECTION_NOT_NEEDED),
        (image((4,), state(1, 1)), 0, None, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        (image((2, 4), state(1, 1)), 0, 3, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        (image((2, 4), state(1, 1)), 0, 4, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        (image((2,), state(1, 1)), 1, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_an_unclean_election_is_refused(
    before: ClusterImage, partition: int, node_id: int | None, code: ErrorCode
) -> None:
    refused = unclean(before, "orders", partition, node_id=node_id)
    assert isinstance(refused, KafkaError)
    assert refused.code is code


def test_a_broker_that_comes_and_goes_leaves_a_leader_whose_epoch_grows() -> None:
    now = image((1, 2, 3), state(1, 1, 2, 3))
    seen = []
    for gone in (1, 2):
        now = now.apply([BrokerUnregistered(gone)])
        now = now.apply(elect(now))
        partition = now.topics["orders"].partitions[0]
        seen.append((partition.leader, partition.leader_epoch, partition.isr))
    assert seen == [(2, 5, (2, 3)), (3, 6, (3,))]
