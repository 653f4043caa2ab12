"""Members of a consumer group join, share, give up, leave and die."""

from __future__ import annotations

import pytest

from semel.coordinator.group.consumer.records import MemberState
from semel.coordinator.group.consumer.requests import ConsumerHeartbeatResult, Heartbeat
from semel.coordinator.group.settings import ConsumerSettings
from semel.errors import ErrorCode
from tests.unit.coordinator.group.consumer.simulated_group import (
    GROUP,
    REBALANCE_TIMEOUT_MS,
    Coordinator,
    Member,
    Topics,
    members_of,
    revocation_owed,
    settle,
    state_of,
)

SESSION_TIMEOUT_MS = 45_000


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_the_first_member_gets_everything_with_its_first_heartbeat(coordinator: Coordinator) -> None:
    (member,) = members_of(coordinator, 1)

    assert member.beat() == ConsumerHeartbeatResult("member-0", 1, frozenset(coordinator.topics.partitions()))
    assert coordinator.group.state_name == "Stable"


def test_a_heartbeat_with_nothing_new_writes_nothing_and_tells_nothing(coordinator: Coordinator) -> None:
    (member,) = members_of(coordinator, 1)
    member.beat()
    records = len(coordinator.log)

    assert member.beat(claimed=None) == ConsumerHeartbeatResult("member-0", 1, None)
    assert len(coordinator.log) == records


def test_a_full_request_is_told_the_whole_assignment(coordinator: Coordinator) -> None:
    (member,) = members_of(coordinator, 1)
    first = member.beat()

    again = member.beat(topic_names=("orders",), rebalance_timeout_ms=REBALANCE_TIMEOUT_MS)

    assert again.assigned == first.assigned


@pytest.mark.parametrize("count", [2, 3, 4, 5, 12, 13])
def test_members_share_all_partitions_evenly(coordinator: Coordinator, count: int) -> None:
    members = members_of(coordinator, count)
    settle(*members)

    owned = [member.owned for member in members]
    assert set().union(*owned) == coordinator.topics.partitions()
    assert sum(map(len, owned)) == 12
    assert max(map(len, owned)) - min(map(len, owned)) <= 1


def test_a_partition_is_handed_over_only_after_its_owner_gave_it_up(coordinator: Coordinator) -> None:
    first, second = members_of(coordinator, 2)
    first.hesitates = True
    first.beat()

    joined = second.beat()
    assert (joined.member_epoch, joined.assigned) == (2, frozenset()), "everything is still the first one's"
    assert coordinator.group.current["member-1"].state is MemberState.UNRELEASED_PARTITIONS

    asked = first.beat()
    assert asked.member_epoch == 1, "it keeps its epoch until it has revoked"
    assert asked.assigned is not None
    assert len(asked.assigned) == 6
    assert coordinator.group.current["member-0"].state is MemberState.UNREVOKED_PARTITIONS
    assert second.beat().assigned is None, "told to is not done"

    first.revoke()
    assert first.beat().member_epoch == 2
    assert second.beat().assigned == frozenset(coordinator.topics.partitions()) - asked.assigned
    assert coordinator.group.state_name == "Stable"


def test_what_is_not_said_is_not_given_up(coordinator: Coordinator) -> None:
    first, _ = revocation_owed(coordinator)

    first.beat(claimed=None)

    assert coordinator.group.current["member-0"].state is MemberState.UNREVOKED_PARTITIONS


def test_a_member_that_does_not_give_up_in_time_is_fenced(coordinator: Coordinator) -> None:
    first, second = revocation_owed(coordinator)
    for _ in range(REBALANCE_TIMEOUT_MS // 5000):
        coordinator.pass_time(4999)
        assert first.beat().error is ErrorCode.NONE, "it is heard, and still within its time"

    coordinator.pass_time(5000)

    assert first.beat().error is ErrorCode.UNKNOWN_MEMBER_ID
    second.beat()
    assert second.owned == coordinator.topics.partitions()


def test_a_member_that_is_not_heard_loses_its_partitions_after_the_session_timeout(coordinator: Coordinator) -> None:
    first, second = members_of(coordinator, 2)
    settle(first, second)
    coordinator.pass_time(SESSION_TIMEOUT_MS - 1)
    second.beat()
    assert first.member_id in coordinator.group.members

    coordinator.pass_time(1)

    assert list(coordinator.group.members) == ["member-1"]
    second.beat()
    assert second.owned == coordinator.topics.partitions()


def test_two_sessions_that_end_at_once_raise_the_epoch_twice(coordinator: Coordinator) -> None:
    settle(*members_of(coordinator, 3))
    epoch = coordinator.group.epoch

    coordinator.pass_time(SESSION_TIMEOUT_MS)

    assert (coordinator.group.epoch, coordinator.group.state_name) == (epoch + 3, "Empty")


def test_who_leaves_frees_its_partitions_at_once(coordinator: Coordinator) -> None:
    first, second = members_of(coordinator, 2)
    settle(first, second)

    assert first.leave() == ConsumerHeartbeatResult("member-0", -1)

    assert second.beat().assigned == frozenset(coordinator.topics.partitions())
    assert coordinator.shard.directory.deadlines.next_ms() is not None
    coordinator.pass_time(SESSION_TIMEOUT_MS - 1)
    assert list(coordinator.group.members) == ["member-1"]


def test_a_lost_answer_is_made_good(coordinator: Coordinator) -> None:
    """The member names its previous epoch and claims no more than it has."""
    first, second = members_of(coordinator, 2)
    first.beat()
    before = first.epoch
    second.beat()
    first.beat()
    first.beat()
    assert first.epoch > before

    again = first.beat(
        member_epoch=before, topic_names=("orders",), rebalance_timeout_ms=REBALANCE_TIMEOUT_MS, claimed=first.owned
    )

    assert (again.error, again.member_epoch, again.assigned) == (ErrorCode.NONE, first.epoch, first.owned)


def test_the_previous_epoch_with_too_many_claims_is_fenced(coordinator: Coordinator) -> None:
    first, second = members_of(coordinator, 2)
    first.beat()
    before = first.epoch
    settle(first, second)

    everything = frozenset(coordinator.topics.partitions())
    assert first.beat(member_epoch=before, claimed=everything).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert first.beat(member_epoch=before, claimed=None).error is not ErrorCode.NONE


@pytest.mark.parametrize("offset", [-2, 1, 100])
def test_any_other_epoch_is_fenced(coordinator: Coordinator, offset: int) -> None:
    first, second = members_of(coordinator, 2)
    settle(first, second)
    settle(first, second, Member(coordinator, "member-2"))

    result = first.beat(member_epoch=first.epoch + offset)

    assert result.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert result.message is not None
    assert "member-0" in result.message


def test_a_fenced_member_joins_again_with_epoch_0_and_gets_what_it_had(coordinator: Coordinator) -> None:
    first, second = members_of(coordinator, 2)
    settle(first, second)
    owned, epoch = first.owned, coordinator.group.epoch
    first.beat(member_epoch=77)
    assert (first.epoch, first.owned) == (0, frozenset())

    first.beat()

    assert (first.owned, coordinator.group.epoch) == (owned, epoch)


def test_unknown_members_and_groups_are_told_so(coordinator: Coordinator) -> None:
    stranger = Member(coordinator, "stranger", epoch=3)
    assert stranger.beat().error is ErrorCode.GROUP_ID_NOT_FOUND
    assert stranger.leave().error is ErrorCode.GROUP_ID_NOT_FOUND
    members_of(coordinator, 1)[0].beat()
    stranger.epoch = 3
    assert stranger.beat().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.leave().error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "wrong",
    [
        {"group_id": ""},
        {"member_id": ""},
        {"member_epoch": -3},
        {"member_epoch": -2},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout_ms": None},
        {"topic_names": None},
        {"claimed": None},
        {"claimed": frozenset(Topics(orders=1).partitions())},
    ],
    ids=str,
)
def test_a_malformed_first_heartbeat_is_an_invalid_request(coordinator: Coordinator, wrong: dict[str, object]) -> None:
    result = Member(coordinator, "member").beat(**wrong)

    assert result.error is ErrorCode.INVALID_REQUEST
    assert result.message
    assert coordinator.log == []


def test_a_member_may_join_without_wanting_anything(coordinator: Coordinator) -> None:
    assert Member(coordinator, "idle", topics=()).beat() == ConsumerHeartbeatResult("idle", 1, frozenset())


def test_an_assignor_that_is_not_offered_is_refused(coordinator: Coordinator) -> None:
    assert Member(coordinator, "member", assignor="mine").beat().error is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_full_group_takes_nobody_else_but_keeps_who_is_in() -> None:
    coordinator = Coordinator(settings=ConsumerSettings(size_max=2))
    first, second, third = members_of(coordinator, 3)
    settle(first, second)

    assert third.beat().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    first.epoch, first.owned = 0, frozenset()
    assert first.beat().error is ErrorCode.NONE


def test_a_changed_subscription_raises_the_epoch_and_moves_partitions() -> None:
    coordinator = Coordinator(Topics(orders=4, payments=2))
    first, second = members_of(coordinator, 2)
    settle(first, second)
    epoch = coordinator.group.epoch

    first.beat(topic_names=("payments",))
    settle(first, second)

    assert coordinator.group.epoch == epoch + 1
    assert first.owned == coordinator.topics.partitions("payments")
    assert second.owned == coordinator.topics.partitions("orders")


def test_the_same_subscription_in_another_order_changes_nothing() -> None:
    coordinator = Coordinator(Topics(orders=4, payments=2))
    member = Member(coordinator, "member", topics=("payments", "orders"))
    settle(member)
    records = len(coordinator.log)

    member.beat(topic_names=("orders", "payments", "orders"))

    assert len(coordinator.log) == records


def test_new_partitions_and_new_topics_reach_who_subscribed_to_them() -> None:
    coordinator = Coordinator(Topics(orders=2))
    first, second = members_of(coordinator, 2, topics=("orders", "payments"))
    settle(first, second)
    epoch = coordinator.group.epoch

    coordinator.topics.grow("orders", 4)
    settle(first, second)
    assert coordinator.group.epoch == epoch + 1
    coordinator.topics.create("payments", 4)
    settle(first, second)
    assert coordinator.group.epoch == epoch + 2
    coordinator.topics.create("unrelated", 4)
    settle(first, second)

    assert coordinator.group.epoch == epoch + 2, "nobody reads it"
    assert first.owned | second.owned == coordinator.topics.partitions("orders", "payments")
    assert len(first.owned) == len(second.owned) == 4


def test_a_topic_made_anew_is_another_topic() -> None:
    coordinator = Coordinator(Topics(orders=2))
    (member,) = members_of(coordinator, 1)
    settle(member)
    before = member.owned

    coordinator.topics.delete("orders")
    member.beat()
    assert member.owned == frozenset()
    coordinator.topics.create("orders", 2)
    member.beat()

    assert len(member.owned) == 2
    assert member.owned.isdisjoint(before)


def test_the_assignor_that_most_members_name_is_taken() -> None:
    coordinator = Coordinator(Topics(orders=4, payments=4))
    topics = ("orders", "payments")
    members = [
        Member(coordinator, "a", topics=topics, assignor="range"),
        Member(coordinator, "b", topics=topics, assignor="range"),
        Member(coordinator, "c", topics=topics, assignor="uniform"),
        Member(coordinator, "d", topics=topics),
    ]
    settle(*members)

    assert coordinator.shard.consumer.describe(GROUP).assignor == "range"
    indexes = [sorted(partition.partition for partition in member.owned) for member in members]
    assert indexes == [[0, 0], [1, 1], [2, 2], [3, 3]]


def test_a_restart_changes_nothing_and_sessions_begin_anew(coordinator: Coordinator) -> None:
    revocation_owed(coordinator)
    before = state_of(coordinator.shard)
    coordinator.pass_time(REBALANCE_TIMEOUT_MS - 1)

    coordinator.restart()

    assert state_of(coordinator.shard) == before
    coordinator.pass_time(REBALANCE_TIMEOUT_MS - 1)
    assert set(coordinator.group.members) == {"member-0", "member-1"}
    coordinator.pass_time(1)
    assert set(coordinator.group.members) == {"member-1"}, "the revocation is still owed"


def test_a_restart_with_unchanged_topics_moves_nobody(coordinator: Coordinator) -> None:
    first, second = members_of(coordinator, 2)
    settle(first, second)
    coordinator.restart()
    records = len(coordinator.log)

    first.beat()
    second.beat()

    assert len(coordinator.log) == records


def test_a_decision_leaves_the_group_alone_until_it_is_carried_out(coordinator: Coordinator) -> None:
    settle(*members_of(coordinator, 1))
    before = state_of(coordinator.shard)
    beat = Heartbeat(
        GROUP, "member-1", 0, rebalance_timeout_ms=1, topic_names=("orders",), topic_regex="o.*", claimed=frozenset()
    )

    decision = coordinator.shard.consumer_group_heartbeat(beat, coordinator.moment)

    assert decision.records
    assert state_of(coordinator.shard) == before


def test_a_state_that_a_newer_broker_wrote_makes_the_member_begin_anew(coordinator: Coordinator) -> None:
    (member,) = members_of(coordinator, 1)
    settle(member)
    key, value = next(entry for entry in reversed(coordinator.log) if entry[0][:2] == b"\x00\x08")
    assert value is not None
    # Version, member epoch, previous member epoch, then the state.
    coordinator.log.append((key, value[:10] + b"\x2a" + value[11:]))
    coordinator.restart()
    assert coordinator.group.current["member-0"].state is MemberState.UNKNOWN

    assert member.beat().error is ErrorCode.FENCED_MEMBER_EPOCH
    assert member.beat().error is ErrorCode.NONE
    assert member.owned == coordinator.topics.partitions()
