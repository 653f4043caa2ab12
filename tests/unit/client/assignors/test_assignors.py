"""The assignors by example, what a consumer may offer, and what members of other libraries say of themselves."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor

from semel.client.assignors import (
    Assignment,
    CooperativeStickyAssignor,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    Subscription,
    common_protocol,
    make_assignors,
)
from semel.client.assignors.ownership import Claim
from semel.client.assignors.sticky_user_data import decode_claim, decode_generation, encode_claim
from semel.types import TopicPartition

A, B = Subscription(("t0", "t1")), Subscription(("t0", "t1"))
THREE_EACH = {"t0": 3, "t1": 3}


def partitions(text: str) -> tuple[TopicPartition, ...]:
    """``t0-1 t1-2``"""
    return tuple(TopicPartition(name[:2], int(name[3:])) for name in text.split())


def test_range_gives_the_first_members_one_more_of_every_topic() -> None:
    assigned = RangeAssignor().assign(THREE_EACH, {"c1": B, "c0": A})
    assert assigned["c0"].partitions == partitions("t0-0 t0-1 t1-0 t1-1")
    assert assigned["c1"].partitions == partitions("t0-2 t1-2")


def test_round_robin_deals_all_partitions_out_in_turn() -> None:
    assigned = RoundRobinAssignor().assign(THREE_EACH, {"c1": B, "c0": A})
    assert assigned["c0"].partitions == partitions("t0-0 t0-2 t1-1")
    assert assigned["c1"].partitions == partitions("t0-1 t1-0 t1-2")


def test_round_robin_passes_over_members_that_do_not_subscribe() -> None:
    subscriptions = {"c0": Subscription(("t0",)), "c1": Subscription(("t0", "t1"))}
    assigned = RoundRobinAssignor().assign(THREE_EACH, subscriptions)
    assert assigned["c0"].partitions == partitions("t0-0 t0-2")
    assert assigned["c1"].partitions == partitions("t0-1 t1-0 t1-1 t1-2")


def test_static_members_come_first_in_the_order_of_their_instance_ids() -> None:
    """So a static member gets the same partitions after a restart, which gives it a new member id."""
    subscriptions = {
        "aa": Subscription(("t0",)),
        "zz": Subscription(("t0",), group_instance_id="i1"),
        "yy": Subscription(("t0",), group_instance_id="i2"),
    }
    assigned = RangeAssignor().assign({"t0": 3}, subscriptions)
    assert [assigned[name].partitions[0].partition for name in ("zz", "yy", "aa")] == [0, 1, 2]


def test_kafka_python_cuts_the_same_ranges() -> None:
    cluster = SimpleNamespace(partitions_for_topic=lambda topic: set(range({"t0": 7, "t1": 2}[topic])))
    topics = {"c0": ("t0", "t1"), "c1": ("t0",), "c2": ("t1", "t0")}
    members = [
        SimpleNamespace(member_id=name, group_instance_id=None, metadata=SimpleNamespace(topics=wanted))
        for name, wanted in topics.items()
    ]
    theirs = {
        name: {TopicPartition(topic, index) for topic, indexes in given.assigned_partitions for index in indexes}
        for name, given in RangePartitionAssignor.assign(cluster, members).items()
    }
    ours = RangeAssignor().assign({"t0": 7, "t1": 2}, {name: Subscription(wanted) for name, wanted in topics.items()})
    assert {name: set(given.partitions) for name, given in ours.items()} == theirs


def test_a_cooperative_partition_changes_hands_in_two_rounds() -> None:
    assignor = CooperativeStickyAssignor()
    had = partitions("t0-0 t0-1 t0-2 t0-3")
    old = Subscription(("t0",), owned_partitions=had, generation_id=1)
    first = assignor.assign({"t0": 4}, {"old": old, "new": Subscription(("t0",))})
    assert first == {"old": Assignment(had[:2]), "new": Assignment()}
    old = Subscription(("t0",), owned_partitions=had[:2], generation_id=2)
    second = assignor.assign({"t0": 4}, {"old": old, "new": Subscription(("t0",), generation_id=2)})
    assert second == {"old": Assignment(had[:2]), "new": Assignment(had[2:])}


def test_a_member_that_was_away_does_not_get_back_what_another_has_by_now() -> None:
    had = partitions("t0-0 t0-1")
    zombie = Subscription(("t0",), owned_partitions=had, generation_id=3)
    owner = Subscription(("t0",), owned_partitions=had[:1], generation_id=5)
    assigned = CooperativeStickyAssignor().assign({"t0": 2}, {"zombie": zombie, "owner": owner})
    assert assigned == {"zombie": Assignment(had[1:]), "owner": Assignment(had[:1])}


def test_two_who_claim_the_same_generation_both_have_to_give_up() -> None:
    both = Subscription(("t0",), owned_partitions=partitions("t0-0"), generation_id=3)
    assigned = CooperativeStickyAssignor().assign({"t0": 1}, {"a": both, "b": both})
    assert assigned == {"a": Assignment(), "b": Assignment()}


def test_sticky_remembers_what_it_was_assigned_and_since_when() -> None:
    assignor = StickyAssignor()
    assert assignor.subscription_user_data(["t0"]) is None
    assignor.on_assignment(Assignment(partitions("t0-1 t0-0")), 7)
    user_data = assignor.subscription_user_data(["t0"])
    assert user_data == bytes.fromhex("00000001 0002 7430 00000002 00000000 00000001 00000007")
    assert decode_claim(user_data) == Claim(partitions("t0-0 t0-1"), 7)


@pytest.mark.parametrize(
    ("user_data", "claim"),
    [
        (None, Claim()),
        (b"", Claim()),
        (b"what is this", Claim()),
        (bytes.fromhex("00000001 0002 7430 00000001 00000003"), Claim(partitions("t0-3"))),
        (bytes.fromhex("00000000 ffffffff"), Claim()),
    ],
)
def test_older_and_stranger_user_data(user_data: bytes | None, claim: Claim) -> None:
    assert decode_claim(user_data) == claim


@pytest.mark.parametrize(
    ("user_data", "generation_id"),
    [
        (None, None),
        (b"", None),
        (bytes.fromhex("00000007"), 7),
        (bytes.fromhex("ffffffff"), None),
        (encode_claim(partitions("t0-3"), 8), 8),  # librdkafka's
    ],
)
def test_the_generation_of_members_that_write_an_older_subscription(
    user_data: bytes | None, generation_id: int | None
) -> None:
    assert decode_generation(user_data) == generation_id


def test_a_subscription_travels_without_the_instance_id_which_is_said_beside_it() -> None:
    subscription = Subscription(("t1", "t0"), b"u", partitions("t0-1 t0-0"), 4, "rack", "instance")
    expected = Subscription(("t0", "t1"), b"u", partitions("t0-0 t0-1"), 4, "rack", "instance")
    assert Subscription.from_bytes(subscription.to_bytes(), "instance") == expected
    assert Subscription.from_bytes(Subscription(("t0",)).to_bytes()) == Subscription(("t0",))


def test_the_default_strategies_rebalance_eagerly_until_only_the_cooperative_one_is_left() -> None:
    assert common_protocol(make_assignors(["range", "cooperative-sticky"])) is RebalanceProtocol.EAGER
    assert common_protocol(make_assignors(["cooperative-sticky"])) is RebalanceProtocol.COOPERATIVE


def test_strategies_are_named_as_here_or_as_in_java_or_are_objects() -> None:
    own = RangeAssignor()
    made = make_assignors(["org.apache.kafka.clients.consumer.StickyAssignor", "roundrobin", own])
    assert [assignor.name for assignor in made] == ["sticky", "roundrobin", "range"]
    assert made[2] is own


class CooperativeOnly(RangeAssignor):
    name = "own"  # type: ignore[misc]
    protocols = (RebalanceProtocol.COOPERATIVE,)  # type: ignore[assignment, misc]


@pytest.mark.parametrize(
    ("strategies", "message"),
    [
        ([], "names no assignor"),
        (["ranged"], "'ranged' is none of range, roundrobin, sticky, cooperative-sticky"),
        (["range", RangeAssignor()], "range, range: a name can stand only for one assignor"),
        (["range", CooperativeOnly()], r"no protocol is common to all assignors \(range: eager; own: cooperative\)"),
    ],
)
def test_what_cannot_be_offered_together_is_refused(strategies: list[object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_assignors(strategies)  # type: ignore[arg-type]


def test_who_had_all_of_two_thousand_partitions_keeps_its_share_when_two_hundred_come() -> None:
    """The most moves that there can be: a rebalance of 200 members may take two seconds in all."""
    everything = tuple(TopicPartition("t0", index) for index in range(2_000))
    subscriptions = {f"m{index:03}": Subscription(("t0",)) for index in range(199)}
    subscriptions["old"] = Subscription(("t0",), owned_partitions=everything, generation_id=1)
    assigned = CooperativeStickyAssignor().assign({"t0": 2_000}, subscriptions)
    assert assigned["old"] == Assignment(everything[:10])
