"""A member of a group of the consumer protocol (KIP-848): what it says, what it gives up and takes over, and when."""

from __future__ import annotations

from typing import Any

import pytest

from semel.errors import AbortableError, ErrorCode, FatalError, UnsupportedVersion
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from tests.unit.client.machine.group.model_group import GroupCluster, Member

ORDERS = [TopicPartition("orders", index) for index in range(4)]
HEARTBEAT, COMMIT = ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT


def modern(cluster: GroupCluster | None = None, **settings: Any) -> Member:
    return Member(cluster, group_protocol="consumer", **settings)


def joined(*, cluster: GroupCluster | None = None, **settings: Any) -> Member:
    member = modern(cluster, **settings)
    for index in range(4):
        member.fill(index, 3)
    member.group.target = {"orders": [0, 1, 2, 3]}
    member.subscribe("orders")
    member.poll()
    assert member.events == [("assigned", [0, 1, 2, 3])]
    return member


def said(member: Member) -> list[list[int] | None]:
    """The partitions that each heartbeat claimed; ``None`` where it claimed nothing new."""
    beats = [beat.message for beat in member.bench.requests(HEARTBEAT)]
    return [
        None
        if beat.topic_partitions is None
        else sorted(i for topic in beat.topic_partitions for i in topic.partitions)
        for beat in beats
    ]


def test_the_first_heartbeat_says_everything_and_the_next_only_what_is_new() -> None:
    member = joined(group_remote_assignor="range", client_rack="a")
    first, acknowledged, *rest = [beat.message for beat in member.bench.requests(HEARTBEAT)]
    assert (first.member_epoch, first.subscribed_topic_names, first.topic_partitions) == (0, ["orders"], [])
    assert (first.rebalance_timeout_ms, first.server_assignor, first.rack_id) == (300_000, "range", "a")
    assert len(first.member_id) == 22
    assert (acknowledged.member_epoch, acknowledged.subscribed_topic_names) == (1, None)
    assert acknowledged.rebalance_timeout_ms is None
    assert said(member)[:2] == [[], [0, 1, 2, 3]]
    assert rest == []
    member.away(16_000)
    assert said(member)[2:] == [None, None, None], "every five seconds, because the broker says so"


def test_giving_up_comes_first_and_is_acknowledged_before_anything_is_taken_over() -> None:
    member = joined()
    while member.poll():
        pass
    before = len(member.bench.requests(HEARTBEAT))
    member.group.retarget(orders=[0])
    member.away(6_000)
    assert member.machine.assignment == ORDERS, "the application is not there"
    member.poll()
    assert member.events[1:] == [("revoked", [1, 2, 3]), ("assigned", [])]
    assert [claim for claim in said(member)[before:] if claim is not None] == [[0]]
    assert {ORDERS[i]: 3 for i in (1, 2, 3)}.items() <= member.group.offsets.items(), "committed before"
    member.group.retarget(orders=[0, 1])
    member.poll(6_000)
    member.poll()
    assert member.events[3:] == [("assigned", [1])]


def test_a_target_that_takes_and_gives_is_followed_in_two_steps() -> None:
    member = joined(cluster=GroupCluster(topics={"orders": 4, "refunds": 1}))
    member.subscribe("orders", "refunds")
    member.poll()
    before = len(member.bench.requests(HEARTBEAT))
    member.group.retarget(orders=[0], refunds=[0])
    member.poll(6_000)
    while member.poll():
        pass
    assert member.events[1:] == [("revoked", [1, 2, 3]), ("assigned", [0])]
    assert [claim for claim in said(member)[before:] if claim is not None] == [[0], [0, 0]]


def test_a_topic_that_is_not_known_yet_is_taken_over_once_it_is() -> None:
    member = joined(metadata_max_age_ms=2_000)
    member.subscribe(pattern=".*")
    member.cluster.create_topic("refunds", 1)
    member.group.retarget(orders=[0, 1, 2, 3], refunds=[0])
    member.poll(10_000)
    while member.poll():
        pass
    assert TopicPartition("refunds", 0) in member.machine.assignment


def test_a_pattern_is_the_broker_s_to_match() -> None:
    member = modern()
    member.group.target = {"orders": [0]}
    member.subscribe(pattern="ord.*")
    member.poll()
    first = member.bench.requests(HEARTBEAT)[0]
    assert (first.version, first.message.subscribed_topic_regex, first.message.subscribed_topic_names) == (
        1,
        "ord.*",
        [],
    )
    assert member.machine.assignment == ORDERS[:1]
    member.subscribe("orders")
    member.poll(200)
    assert member.last(HEARTBEAT).subscribed_topic_regex == ""
    assert member.last(HEARTBEAT).subscribed_topic_names == ["orders"]


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_a_member_that_is_fenced_has_lost_its_partitions_and_joins_again(code: ErrorCode) -> None:
    member = joined()
    while member.poll():
        pass
    commits = len(member.bench.requests(COMMIT))
    member.group.refuse_with[HEARTBEAT] = [code]
    member.away(6_000)
    assert member.machine.assignment == []
    assert len(member.bench.requests(COMMIT)) == commits
    member.poll()
    assert member.events[1:] == [("lost", [0, 1, 2, 3]), ("assigned", [0, 1, 2, 3])]
    rejoining = [beat.message for beat in member.bench.requests(HEARTBEAT) if beat.message.member_epoch == 0]
    assert len({beat.member_id for beat in rejoining}) == 1, "as the same member"


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
    ],
)
def test_what_does_not_pass_is_raised_by_poll(code: ErrorCode) -> None:
    member = modern()
    member.group.refuse_with[HEARTBEAT] = [code]
    member.subscribe("orders")
    with pytest.raises(FatalError, match=code.name):
        member.poll()


@pytest.mark.parametrize(
    "code",
    [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR],
)
def test_what_passes_is_tried_again(code: ErrorCode) -> None:
    member = modern()
    member.group.target = {"orders": [1]}
    member.group.refuse_with[HEARTBEAT] = [code, code]
    member.subscribe("orders")
    member.poll(10_000)
    assert member.events == [("assigned", [1])]


def test_after_a_lost_answer_everything_is_said_again() -> None:
    member = joined()
    member.held = {HEARTBEAT}
    member.away(6_000)
    (waiting,) = member.bench.waiting(HEARTBEAT)
    member.held = set()
    member.bench.drop_connection(waiting.connection)
    member.away(2_000)
    again = member.last(HEARTBEAT)
    assert (again.member_epoch, again.subscribed_topic_names) == (1, ["orders"])
    assert said(member)[-1] == [0, 1, 2, 3]


def test_a_commit_under_an_epoch_that_has_moved_on_is_repeated_under_the_new_one() -> None:
    member = joined(enable_auto_commit=False)
    member.group.epoch = 5
    promise = member.commit({ORDERS[0]: 2})
    member.away(2_000)
    assert promise.settled
    assert promise.error is None
    assert [r.message.generation_id_or_member_epoch for r in member.bench.requests(COMMIT)] == [1, 5]
    assert member.machine.group is not None
    assert member.machine.group.metadata().generation_id == 5


def test_no_work_is_lost_when_an_epoch_moves_on_and_partitions_stay() -> None:
    member = joined(enable_auto_commit=False)
    member.fill(0, 3)
    assert member.poll(count=1)
    member.group.epoch = 5
    member.away(6_000)
    assert member.machine.group is not None
    assert member.machine.group.metadata().generation_id == 5
    assert not member.machine.has_lost_partitions


def test_a_zombie_cannot_commit() -> None:
    """Scenario 53, for plain commits of the consumer protocol."""
    member = joined(enable_auto_commit=False)
    member.group.refuse_with[COMMIT] = [ErrorCode.UNKNOWN_MEMBER_ID]
    promise = member.commit({ORDERS[0]: 3})
    assert isinstance(promise.error, AbortableError)
    assert member.machine.assignment == []
    assert isinstance(member.commit({ORDERS[0]: 3}).error, AbortableError)
    assert member.group.offsets == {}


def test_a_membership_that_has_ended_is_what_a_transaction_commits_as() -> None:
    """In an empty group, offsets of a transaction that name no epoch would be accepted from any member."""
    member = joined(enable_auto_commit=False, max_poll_interval_ms=20_000)
    member.poll()
    before = member.machine.the_group("test").metadata()
    assert before.generation_id is not None
    member.away(21_000)
    assert member.machine.assignment == []
    assert member.machine.the_group("test").metadata() == before


def test_partitions_that_were_assigned_by_hand_are_committed_as_nobody() -> None:
    member = modern(enable_auto_commit=False)
    member.fill(0, 3)
    member.machine.assign([ORDERS[0]], 0.0)
    assert member.poll() == [(0, 0), (0, 1), (0, 2)]
    assert member.commit().error is None
    assert member.group.offsets == {ORDERS[0]: 3}
    assert member.bench.requests(HEARTBEAT) == []


@pytest.mark.parametrize(("settings", "epoch"), [({}, -1), ({"group_instance_id": "till-1"}, -2)])
def test_whoever_closes_leaves_for_good_or_for_a_while(settings: dict[str, str], epoch: int) -> None:
    member = joined(**settings)
    left = member.machine.leave("closed", member.bench.now_ms)
    member.serve(left)
    assert left.settled
    assert member.events[1:] == [("revoked", [0, 1, 2, 3])]
    assert [said for _, said in member.group.left] == [epoch]


def test_an_application_that_stays_away_too_long_leaves() -> None:
    member = joined(max_poll_interval_ms=20_000)
    member.poll()
    member.away(21_000)
    assert [epoch for _, epoch in member.group.left] == [-1]
    assert member.machine.assignment == []
    member.poll()
    assert member.events[1:] == [("lost", [0, 1, 2, 3]), ("assigned", [0, 1, 2, 3])]


def test_a_broker_without_the_protocol_is_named() -> None:
    cluster = GroupCluster()
    del cluster.versions[HEARTBEAT]
    member = modern(cluster)
    member.subscribe("orders")
    with pytest.raises(UnsupportedVersion, match="ConsumerGroupHeartbeat"):
        member.poll()
