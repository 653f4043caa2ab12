"""A member of a classic group: how it joins, what it gives up and when, and what every refusal makes it do."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from semel.client.assignors import Assignment, RangeAssignor, Subscription
from semel.client.machine.connection.promise import Promise
from semel.client.machine.group.reassignment import Callback, Change
from semel.client.values import OffsetAndMetadata
from semel.errors import AbortableError, ErrorCode, FatalError, RetriableError, StateError, TimedOut
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from tests.unit.client.machine.group.model_group import GroupCluster, Member

ORDERS = [TopicPartition("orders", index) for index in range(4)]
JOIN, SYNC, COMMIT, LEAVE = ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.LEAVE_GROUP


def joined(**settings: Any) -> Member:
    """A member that has all four partitions, with three records in each."""
    member = Member(**settings)
    for index in range(4):
        member.fill(index, 3)
    member.subscribe("orders")
    member.poll()
    assert member.events == [("assigned", [0, 1, 2, 3])]
    return member


def cooperative(**settings: Any) -> Member:
    return joined(partition_assignment_strategy="cooperative-sticky", **settings)


def rebalance(member: Member) -> None:
    """The coordinator asks everybody to join again; the next heartbeat says so."""
    member.group.is_rebalancing = True
    member.away(3_000)


# Joining


def test_nobody_joins_before_the_application_polls() -> None:
    member = Member()
    member.subscribe("orders")
    member.away(60_000)
    assert member.bench.requests(JOIN) == []
    member.poll()
    assert [request.message.member_id for request in member.bench.requests(JOIN)] == ["", "member-1"]


def test_a_partition_is_assigned_when_the_application_is_told_of_it_and_not_before() -> None:
    """A poll that ends just then leaves nothing half done: what is in the assignment can be asked for its position."""
    member = Member()
    member.subscribe("orders")
    group = member.machine.group
    assert group is not None
    while not group.is_callback_due:
        group.poll_began(member.bench.now_ms)
        member.bench.advance(10)
    assert member.machine.assignment == []
    member.poll()
    assert member.machine.assignment == ORDERS


def test_a_listener_may_ask_where_its_partitions_stand() -> None:
    member = Member()
    member.fill(0, 3)
    member.group.offsets[ORDERS[0]] = 2
    known: list[int] = []

    def ask_and_wait(callback: Callback) -> None:
        asked = member.machine.position(ORDERS[0])
        member.bench.advance(1_000)
        known.append(asked.value)

    member.on_callback = ask_and_wait
    member.subscribe("orders")
    member.poll()
    assert known == [2]


def test_every_assignor_is_offered_in_the_order_of_preference() -> None:
    member = joined()
    assert [protocol.name for protocol in member.last(JOIN).protocols] == ["range", "cooperative-sticky"]
    assert member.last(JOIN).session_timeout_ms == 45_000
    assert member.last(JOIN).rebalance_timeout_ms == 300_000


def test_reading_begins_where_the_group_has_committed_and_else_where_the_setting_says() -> None:
    member = Member()
    for index in range(4):
        member.fill(index, 3)
    member.group.offsets = {ORDERS[1]: 2, ORDERS[2]: 3}
    member.subscribe("orders")
    assert sorted(member.poll() + member.poll()) == [(0, 0), (0, 1), (0, 2), (1, 2), (3, 0), (3, 1), (3, 2)]


def test_offsets_that_a_transaction_may_still_change_are_waited_for() -> None:
    """Scenario 52, from the reader's side."""
    member = Member()
    member.fill(0, 3)
    member.group.offsets = {ORDERS[0]: 1}
    member.group.refuse_with[ApiKey.OFFSET_FETCH] = [ErrorCode.UNSTABLE_OFFSET_COMMIT] * 3
    member.subscribe("orders")
    assert member.poll(3_000) == [(0, 1), (0, 2)]
    assert all(request.message.require_stable for request in member.bench.requests(ApiKey.OFFSET_FETCH))


def test_offsets_that_the_caller_does_not_wait_for_any_more_are_not_asked_for_any_more() -> None:
    member = Member()
    member.group.refuse_with[ApiKey.OFFSET_FETCH] = [ErrorCode.UNSTABLE_OFFSET_COMMIT] * 1_000
    promise = member.machine.committed([ORDERS[0]])
    member.bench.advance(5_000)
    promise.fail(TimedOut(ErrorCode.REQUEST_TIMED_OUT, "given up"))
    before = len(member.bench.requests(ApiKey.OFFSET_FETCH))
    assert before
    member.bench.advance(60_000)
    assert len(member.bench.requests(ApiKey.OFFSET_FETCH)) == before


def test_a_seek_when_partitions_are_assigned_counts_more_than_what_was_committed() -> None:
    member = Member()
    member.fill(0, 3)
    member.group.offsets = {ORDERS[0]: 0}
    member.on_callback = lambda callback: member.machine.seek(ORDERS[0], 2)
    member.subscribe("orders")
    assert member.poll() == [(0, 2)]


def test_the_leader_assigns_for_all_members_and_knows_the_topics_of_all() -> None:
    cluster = GroupCluster(topics={"orders": 4, "refunds": 2})
    cluster.group.others = {"member-0": Subscription(("orders", "refunds"))}
    member = Member(cluster)
    member.subscribe("orders")
    member.poll()
    assert cluster.group.assigned == {
        "member-0": Assignment((*ORDERS[:2], TopicPartition("refunds", 0), TopicPartition("refunds", 1))),
        "member-1": Assignment(tuple(ORDERS[2:])),
    }
    assert member.events == [("assigned", [2, 3])]


def test_who_does_not_lead_takes_what_it_is_given() -> None:
    member = Member()
    member.group.others = {"member-0": Subscription(("orders",))}
    member.group.other_leads = True
    member.group.given = [ORDERS[3]]
    member.subscribe("orders")
    member.poll()
    assert member.last(SYNC).assignments == []
    assert member.machine.assignment == [ORDERS[3]]


def test_the_assignor_hears_of_the_assignment_before_the_listener() -> None:
    order: list[str] = []

    class Recording(RangeAssignor):
        def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
            order.append(f"assignor {generation_id}")

    member = Member(assignors=[Recording()])
    member.on_callback = lambda callback: order.append("listener")
    member.subscribe("orders")
    member.poll()
    assert order == ["assignor 1", "listener"]


def test_an_assignor_that_raises_ends_the_membership_and_not_the_driver() -> None:
    class Broken(RangeAssignor):
        def assign(self, partition_counts: Any, subscriptions: Any) -> Any:
            raise ZeroDivisionError("planted")

    member = Member(assignors=[Broken()])
    member.subscribe("orders")
    with pytest.raises(FatalError, match="planted"):
        member.poll()
    assert member.group.left == ["member-1"]


def test_a_sync_whose_answer_was_lost_is_asked_again() -> None:
    member = Member()
    member.held = {SYNC}
    member.subscribe("orders")
    member.poll()
    (waiting,) = member.bench.waiting(SYNC)
    member.held = set()
    member.bench.drop_connection(waiting.connection)
    member.poll()
    assert member.events == [("assigned", [0, 1, 2, 3])]
    assert len(member.bench.requests(SYNC)) == 2
    assert member.group.generation == 1


# Staying


def test_heartbeats_do_not_depend_on_poll() -> None:
    member = joined()
    member.away(60_000)
    beats = member.bench.requests(ApiKey.HEARTBEAT)
    assert 19 <= len(beats) <= 21
    assert {(beat.message.generation_id, beat.message.member_id) for beat in beats} == {(1, "member-1")}


def lose_heartbeats(member: Member, count: int) -> list[float]:
    """Close the connection of this many heartbeats in a row. Returns the pause after each but the last."""
    member.held.add(ApiKey.HEARTBEAT)
    sent_ms: list[float] = []
    while len(sent_ms) < count:
        member.away(1)
        for request in member.bench.waiting(ApiKey.HEARTBEAT):
            sent_ms.append(request.at_ms)
            member.bench.drop_connection(request.connection)
    return [later - earlier for earlier, later in pairwise(sent_ms)]


def test_pauses_double_while_heartbeats_are_lost_and_begin_again_after_an_answer() -> None:
    member = joined(retry_backoff_ms=200, retry_backoff_max_ms=1_000, reconnect_backoff_ms=0)
    for _ in range(2):
        first, second, third, fourth, fifth = lose_heartbeats(member, 6)
        assert 160 <= first <= 250
        assert 320 <= second <= 500
        assert all(640 <= pause <= 1_050 for pause in (third, fourth, fifth))
        member.held.clear()
        member.away(6_000)


def test_heartbeats_go_on_while_a_commit_or_a_fetch_waits() -> None:
    member = joined()
    member.held = {JOIN, SYNC, ApiKey.FETCH}
    before = len(member.bench.requests(ApiKey.HEARTBEAT))
    member.away(9_500)
    assert len(member.bench.requests(ApiKey.HEARTBEAT)) == before + 3


def test_an_application_that_stays_away_too_long_leaves_and_is_told_when_it_comes_back() -> None:
    member = joined(max_poll_interval_ms=20_000)
    member.poll()
    member.away(19_000)
    assert member.group.left == []
    member.away(2_000)
    assert member.group.left == ["member-1"]
    assert member.machine.assignment == []
    member.away(100_000)
    assert len(member.bench.requests(JOIN)) == 2, "nobody joins for an application that is not there"
    member.poll()
    assert member.events[1:] == [("lost", [0, 1, 2, 3]), ("assigned", [0, 1, 2, 3])]


def test_an_application_that_waits_in_poll_is_there() -> None:
    member = joined(max_poll_interval_ms=20_000)
    member.poll()
    member.poll(60_000)
    assert member.group.left == []


# Rebalances


def test_nothing_is_given_up_while_the_application_may_be_at_work() -> None:
    member = joined()
    rebalance(member)
    member.away(30_000)
    assert member.machine.assignment == ORDERS
    assert len(member.bench.requests(JOIN)) == 2


def test_an_eager_member_commits_then_tells_the_listener_then_joins() -> None:
    member = joined()
    seen_at_callback: list[list[str]] = []

    def remember(callback: Callback) -> None:
        if callback.change is Change.REVOKED:
            seen_at_callback.append(member.order(JOIN, COMMIT))

    member.on_callback = remember
    rebalance(member)
    member.poll()
    assert seen_at_callback == [["JOIN_GROUP", "JOIN_GROUP", "OFFSET_COMMIT"]]
    assert member.order(JOIN, COMMIT) == ["JOIN_GROUP", "JOIN_GROUP", "OFFSET_COMMIT", "JOIN_GROUP"]
    assert member.events[1:] == [("revoked", [0, 1, 2, 3]), ("assigned", [0, 1, 2, 3])]
    assert member.last(COMMIT).generation_id_or_member_epoch == 1


def test_records_that_were_handed_out_are_committed_and_those_that_were_not_are_read_again() -> None:
    member = Member()
    for index in range(4):
        member.fill(index, 3)
    member.subscribe("orders")
    records = member.poll(count=5)
    assert len(records) == 5
    rebalance(member)
    while more := member.poll():
        records += more
    assert sorted(records) == [(index, offset) for index in range(4) for offset in range(3)]
    assert len(member.events) == 3


def test_a_commit_that_takes_too_long_does_not_hold_the_group_up() -> None:
    member = joined(default_api_timeout_ms=5_000)
    member.held = {COMMIT}
    rebalance(member)
    member.poll(4_000)
    assert member.events[1:] == []
    member.poll(2_000)
    assert member.events[1:] == [("revoked", [0, 1, 2, 3]), ("assigned", [0, 1, 2, 3])]


def test_without_auto_commit_nothing_is_committed() -> None:
    member = joined(enable_auto_commit=False)
    rebalance(member)
    member.poll(20_000)
    assert member.bench.requests(COMMIT) == []


def test_a_cooperative_member_keeps_reading_what_it_keeps() -> None:
    member = cooperative()
    while member.poll():
        pass
    member.group.others = {"member-0": Subscription(("orders",))}
    member.held = {JOIN}
    rebalance(member)
    assert len(member.bench.waiting(JOIN)) == 1
    member.fill(2, 1)
    assert member.poll() == [(2, 3)], "while the others are being waited for"
    member.held = set()
    member.poll()
    revoked = [partitions for change, partitions in member.events if change == "revoked"]
    assert len(revoked) == 1
    assert len(revoked[0]) == 2, "two of four go to the other member, and only those"
    assert [index for _, index in member.machine.assignment] == [i for i in range(4) if i not in revoked[0]]


def test_a_cooperative_member_joins_once_more_after_it_has_given_partitions_up() -> None:
    member = cooperative()
    member.poll()
    member.group.others = {"member-0": Subscription(("orders",))}
    rebalance(member)
    member.poll(3_000)
    reasons = [request.message.reason for request in member.bench.requests(JOIN)]
    assert reasons[2:] == ["the group rebalances", "partitions were given up"]
    owned = Subscription.from_bytes(member.last(JOIN).protocols[0].metadata).owned_partitions
    assert sorted(owned) == sorted(member.machine.assignment)


def test_what_a_cooperative_member_gives_up_is_committed_first() -> None:
    member = cooperative()
    while member.poll():
        pass
    member.group.others = {"member-0": Subscription(("orders",))}
    rebalance(member)
    member.poll(3_000)
    (revoked,) = [partitions for change, partitions in member.events if change == "revoked"]
    assert all(member.group.offsets[ORDERS[index]] == 3 for index in revoked)


def test_a_changed_subscription_is_joined_with_and_what_is_not_wanted_is_given_up() -> None:
    member = cooperative(cluster=GroupCluster(topics={"orders": 4, "refunds": 2}))
    member.subscribe("refunds")
    member.poll()
    assert member.events[1:] == [("revoked", [0, 1, 2, 3]), ("assigned", [0, 1])]
    assert {topic for topic, _ in member.machine.assignment} == {"refunds"}


def test_the_leader_joins_again_when_a_topic_gets_more_partitions() -> None:
    member = joined(metadata_max_age_ms=5_000)
    member.cluster.logs[TopicPartition("orders", 4)] = type(member.cluster.log("orders", 0))()
    member.cluster.leaders[TopicPartition("orders", 4)] = 1
    member.cluster.leader_epochs[TopicPartition("orders", 4)] = 0
    member.poll(8_000)
    member.poll()
    assert member.events[-1] == ("assigned", [0, 1, 2, 3, 4])


def test_a_pattern_takes_in_topics_that_are_created_later_and_no_internal_ones() -> None:
    member = Member(metadata_max_age_ms=5_000)
    member.cluster.create_topic("__consumer_offsets", 1)
    member.subscribe(pattern="ord.*|__.*")
    member.poll()
    assert {topic for topic, _ in member.machine.assignment} == {"orders"}
    member.cluster.create_topic("ordinary", 1)
    member.cluster.create_topic("disorder", 1)
    member.poll(8_000)
    member.poll()
    assert {topic for topic, _ in member.machine.assignment} == {"orders", "ordinary"}


# What goes wrong


@pytest.mark.parametrize("api_key", [JOIN, SYNC])
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_passes_is_tried_again(api_key: ApiKey, code: ErrorCode) -> None:
    member = Member()
    member.group.refuse_with[api_key] = [code, code]
    member.subscribe("orders")
    member.poll(10_000)
    assert member.events == [("assigned", [0, 1, 2, 3])]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ],
)
def test_what_does_not_pass_is_raised_by_poll(code: ErrorCode) -> None:
    member = Member()
    member.group.refuse_with[JOIN] = [code]
    member.subscribe("orders")
    with pytest.raises(FatalError, match=f"JOIN_GROUP of group 'billing' was answered {code.name}"):
        member.poll()
    asked = len(member.bench.requests(JOIN))
    member.away(10_000)
    assert len(member.bench.requests(JOIN)) == asked, "the application has to poll again"


def test_whoever_is_fenced_stays_out() -> None:
    member = joined(group_instance_id="till-1")
    member.group.refuse_with[ApiKey.HEARTBEAT] = [ErrorCode.FENCED_INSTANCE_ID]
    member.away(4_000)
    for _ in range(2):
        with pytest.raises(FatalError, match="FENCED_INSTANCE_ID"):
            member.poll()
    assert member.machine.assignment == []


@pytest.mark.parametrize(
    ("code", "member_ids"),
    [(ErrorCode.ILLEGAL_GENERATION, ["member-1"]), (ErrorCode.UNKNOWN_MEMBER_ID, ["", "member-2"])],
)
def test_a_member_that_the_group_went_on_without_has_lost_its_partitions(
    code: ErrorCode, member_ids: list[str]
) -> None:
    member = joined()
    before = len(member.bench.requests(JOIN))
    member.group.refuse_with[ApiKey.HEARTBEAT] = [code]
    member.away(4_000)
    assert member.machine.assignment == [], "nothing more of them is handed out"
    assert len(member.bench.requests(COMMIT)) == 0
    member.poll()
    assert member.events[1:] == [("lost", [0, 1, 2, 3]), ("assigned", [0, 1, 2, 3])]
    assert [request.message.member_id for request in member.bench.requests(JOIN)[before:]] == member_ids


def test_a_coordinator_that_moved_is_found_again() -> None:
    member = joined(cluster=GroupCluster(nodes=2))
    member.cluster.coordinator_id = 2
    member.group.refuse_with[ApiKey.HEARTBEAT] = [ErrorCode.NOT_COORDINATOR]
    member.away(9_000)
    assert member.bench.requests(ApiKey.HEARTBEAT)[-1].node_id == 2
    assert member.events == [("assigned", [0, 1, 2, 3])], "the group did not notice"


def test_a_coordinator_that_cannot_be_reached_is_looked_for_again() -> None:
    member = joined(cluster=GroupCluster(nodes=2))
    member.cluster.coordinator_id = 2
    member.bench.refusing = {1}
    for connection, node_id in tuple(member.bench.connections.items()):
        if node_id == 1:
            member.bench.drop_connection(connection)
    member.away(20_000)
    assert member.bench.requests(ApiKey.HEARTBEAT)[-1].node_id == 2


# Leaving


def test_whoever_closes_commits_tells_and_leaves_in_that_order() -> None:
    member = joined()
    left = member.machine.leave("closed", member.bench.now_ms)
    member.serve(left)
    assert left.settled
    assert member.events[1:] == [("revoked", [0, 1, 2, 3])]
    assert member.order(COMMIT, LEAVE) == ["OFFSET_COMMIT", "LEAVE_GROUP"]
    assert member.group.left == ["member-1"]
    member.away(60_000)
    assert len(member.bench.requests(JOIN)) == 2


def test_a_static_member_does_not_leave() -> None:
    member = joined(group_instance_id="till-1")
    left = member.machine.leave("closed", member.bench.now_ms)
    member.serve(left)
    assert left.settled
    assert member.group.left == []
    assert member.events[1:] == [("revoked", [0, 1, 2, 3])]


def test_a_member_that_is_still_joining_can_leave() -> None:
    member = Member()
    member.subscribe("orders")
    member.group.others = {"member-0": Subscription(("orders",))}
    member.bench.held = lambda request: request.api_key is JOIN and request.message.member_id != ""
    member.poll()
    left = member.machine.leave("closed", member.bench.now_ms)
    member.serve(left)
    assert left.settled
    assert member.group.left == ["member-1"], "and not behind the JoinGroup that is being waited for"


def test_whoever_waits_to_leave_is_not_woken_by_records_or_errors() -> None:
    """They stay where they are, so it would be woken again at once, for ever, and nothing else would run."""
    member = joined(enable_auto_commit=False)
    member.held = {LEAVE}
    left = member.machine.leave("closed", member.bench.now_ms)
    member.serve(left)
    member.machine._fetcher.errors[ORDERS[0]] = RuntimeError("nobody will ever ask")
    assert not left.settled
    assert not member.machine.readable().settled
    member.held = set()
    member.serve(left)
    assert left.settled


# Commits


def test_auto_commit_covers_what_earlier_polls_returned_and_nothing_of_this_one() -> None:
    member = joined(auto_commit_interval_ms=1_000)
    while member.poll():
        pass
    member.away(2_000)
    member.fill(0, 2)
    committed_before = dict(member.group.offsets)
    assert member.poll() == [(0, 3), (0, 4)]
    member.away(10_000)
    assert member.group.offsets.get(ORDERS[0], 3) == 3, f"the two are being worked on; before: {committed_before}"
    member.poll(100)
    member.away(100)
    assert member.group.offsets[ORDERS[0]] == 5


def test_commits_are_made_in_order_and_a_retry_is_not_overtaken() -> None:
    member = joined(enable_auto_commit=False)
    member.group.refuse_with[COMMIT] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    first = member.commit({ORDERS[0]: 1})
    second = member.commit({ORDERS[0]: 2})
    member.away(2_000)
    assert (first.settled, second.settled) == (True, True)
    sent = [r.message.topics[0].partitions[0].committed_offset for r in member.bench.requests(COMMIT)]
    assert sent == [1, 1, 2]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.ILLEGAL_GENERATION, AbortableError),
        (ErrorCode.UNKNOWN_MEMBER_ID, AbortableError),
        (ErrorCode.REBALANCE_IN_PROGRESS, RetriableError),
        (ErrorCode.FENCED_INSTANCE_ID, FatalError),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, AbortableError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, AbortableError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AbortableError),
    ],
)
def test_a_commit_that_is_refused_says_so(code: ErrorCode, kind: type[Exception]) -> None:
    member = joined(enable_auto_commit=False)
    member.group.refuse_with[COMMIT] = [code]
    promise = member.commit()
    assert type(promise.error) is kind
    assert code.name in str(promise.error)


def test_a_zombie_cannot_commit() -> None:
    """Scenario 53, for plain commits: the group is a generation further, and this member has not noticed."""
    member = joined(enable_auto_commit=False)
    member.group.generation += 1
    promise = member.commit({ORDERS[0]: 3})
    assert isinstance(promise.error, AbortableError)
    assert promise.error.code is ErrorCode.ILLEGAL_GENERATION
    assert member.group.offsets == {}
    assert member.machine.assignment == [], "and has lost its partitions"
    again = member.commit({ORDERS[0]: 3})
    assert isinstance(again.error, AbortableError), "it is nobody now"


@pytest.mark.parametrize(
    ("ends", "settings"),
    [
        ("away", {}),
        ("away", {"group_instance_id": "till-1"}),
        (ErrorCode.UNKNOWN_MEMBER_ID, {}),
        (ErrorCode.ILLEGAL_GENERATION, {}),
        ("commit", {}),
        ("leave", {}),
    ],
)
def test_a_membership_that_has_ended_is_what_a_transaction_commits_as(
    ends: ErrorCode | str, settings: dict[str, str]
) -> None:
    """Coordinators refuse it. Offsets of a transaction that name no member they accept, whoever has the partitions."""
    member = joined(enable_auto_commit=False, max_poll_interval_ms=20_000, **settings)
    member.poll()
    machine = member.machine
    before = machine.the_group("test").metadata()
    assert (before.generation_id, before.member_id) == (member.group.generation, member.group.current)
    match ends:
        case "away":
            member.away(21_000)
        case "leave":
            member.serve(machine.leave("unsubscribed", member.bench.now_ms))
        case "commit":
            member.group.refuse_with[COMMIT] = [ErrorCode.UNKNOWN_MEMBER_ID]
            member.commit({ORDERS[0]: 3})
        case ErrorCode():
            member.group.refuse_with[ApiKey.HEARTBEAT] = [ends]
            member.away(4_000)
    assert machine.assignment == []
    assert machine.the_group("test").metadata() == before
    if ends == "leave":
        machine.assign([ORDERS[0]], member.bench.now_ms)
        by_hand = machine.the_group("test").metadata()
        assert (by_hand.generation_id, by_hand.member_id) == (None, ""), "what is assigned by hand has no owner"
    else:
        member.poll()
        assert machine.the_group("test").metadata().generation_id == member.group.generation


def test_a_commit_that_waits_is_not_sent_once_its_partitions_are_gone() -> None:
    member = joined(enable_auto_commit=False)
    member.group.refuse_with[COMMIT] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1_000
    promise = member.commit({ORDERS[0]: 3})
    rebalance(member)
    member.poll(5_000)
    assert isinstance(promise.error, AbortableError)
    member.group.refuse_with.clear()
    member.away(5_000)
    assert member.group.offsets == {}


def test_a_commit_that_a_rebalance_overtook_is_repeated_for_what_the_member_has_kept() -> None:
    member = cooperative(enable_auto_commit=False)
    member.held = {COMMIT}
    promise = member.commit({ORDERS[0]: 3})
    (sent,) = member.bench.waiting(COMMIT)
    member.held = set()
    member.machine.group._membership._generation_id = 2  # type: ignore[union-attr]
    member.group.generation = 2
    member.bench.answer(sent)
    member.away(1_000)
    assert promise.settled
    assert promise.error is None
    assert [r.message.generation_id_or_member_epoch for r in member.bench.requests(COMMIT)] == [1, 2]
    assert member.machine.assignment == ORDERS, "and nothing was lost"


def test_a_commit_that_is_refused_before_the_join_is_answered_waits_for_the_new_generation() -> None:
    """Both go over connections of their own: the coordinator has completed the join, and its answer comes last."""
    member = cooperative(enable_auto_commit=False)
    member.held = {JOIN}
    rebalance(member)
    member.poll(100)
    (join,) = member.bench.waiting(JOIN)
    member.group.generation += 1
    promise = member.commit({ORDERS[0]: 3})
    member.poll(500)
    assert member.bench.requests(COMMIT), "it was sent, and refused"
    assert not promise.settled

    member.held = set()
    member.group.generation -= 1
    member.bench.answer(join)
    member.poll(2_000)
    assert promise.settled
    assert promise.error is None
    assert member.group.offsets == {ORDERS[0]: 3}
    assert member.events == [("assigned", [0, 1, 2, 3]), ("assigned", [])], "nothing was given up"


def test_work_is_lost_when_partitions_go_after_records_were_read_and_before_they_are_committed() -> None:
    """Scenario 54: a transaction with such records in it must not be committed."""
    member = Member(enable_auto_commit=False)
    member.fill(0, 3)
    member.subscribe("orders")
    assert member.poll(count=1) == [(0, 0)]
    assert not member.machine.has_lost_partitions
    rebalance(member)
    member.poll(count=1)
    assert member.machine.has_lost_partitions, "even though the partition came back"
    member.machine.rewind()
    assert not member.machine.has_lost_partitions
    assert member.poll(count=1) == [(0, 0)]
    member.commit()
    rebalance(member)
    member.poll(count=1)
    assert not member.machine.has_lost_partitions, "there was nothing to lose"


def test_work_is_lost_in_another_generation_even_if_no_partition_goes() -> None:
    """Scenario 54: a coordinator may take a member that it has removed for a new one; others had its partitions."""
    member = cooperative(enable_auto_commit=False)
    member.commit()
    member.fill(0, 1)
    assert member.poll(count=1) == [(0, 3)]
    rebalance(member)
    member.away(1_000)
    assert [change for change, _ in member.events] == ["assigned"]
    assert member.machine.has_lost_partitions
    member.machine.rewind()
    assert not member.machine.has_lost_partitions
    assert member.poll(count=1) == [(0, 3)]


def test_work_is_lost_with_the_membership() -> None:
    member = joined(enable_auto_commit=False)
    while member.poll():
        pass
    assert not member.machine.has_lost_partitions
    member.group.refuse_with[ApiKey.HEARTBEAT] = [ErrorCode.ILLEGAL_GENERATION]
    member.away(4_000)
    assert member.machine.has_lost_partitions


def test_nothing_is_asked_about_partitions_that_the_application_does_not_know_of() -> None:
    member = Member()
    asked: list[list[str]] = []
    member.on_callback = lambda callback: asked.append(member.order(ApiKey.OFFSET_FETCH, ApiKey.LIST_OFFSETS))
    member.subscribe("orders")
    member.poll()
    assert asked == [[]]


def test_without_a_group_id_there_is_no_group() -> None:
    from tests.unit.client.machine.consumer.test_consumer import Consuming

    consumer = Consuming()
    with pytest.raises(StateError, match=r"subscribe: this consumer has no group\.id"):
        consumer.machine.the_group("subscribe")


def test_partitions_that_were_assigned_by_hand_begin_at_the_committed_offset_and_commit_as_nobody() -> None:
    member = Member()
    member.fill(0, 3)
    member.group.offsets = {ORDERS[0]: 1}
    member.machine.assign([ORDERS[0]], 0.0)
    assert member.poll() == [(0, 1), (0, 2)]
    member.poll(6_000)
    assert member.group.offsets == {ORDERS[0]: 3}
    assert (member.last(COMMIT).generation_id_or_member_epoch, member.last(COMMIT).member_id) == (None, "")
    with pytest.raises(StateError, match="assigned by hand"):
        member.subscribe("orders")


@pytest.mark.parametrize("refused", [ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_FETCH, COMMIT])
@pytest.mark.parametrize("title", ["commit", "committed", "position"])
def test_an_application_that_does_not_poll_gets_an_outcome_of_every_call(refused: ApiKey, title: str) -> None:
    """The permission for the group is given after the first call. No poll raises the error in between."""
    member = Member()
    member.fill(0, 3)
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    refusals = member.cluster.transactions if refused is ApiKey.FIND_COORDINATOR else member.group
    member.machine.assign([ORDERS[0]], 0.0)
    calls: dict[str, Callable[[], Promise[Any]]] = {
        "commit": lambda: member.machine.commit({ORDERS[0]: OffsetAndMetadata(2)}, member.bench.now_ms),
        "committed": lambda: member.machine.committed([ORDERS[0]]),
        "position": lambda: member.machine.position(ORDERS[0]),
    }
    refusals.refuse_with[refused] = [code] * 2
    first = calls[title]()
    member.bench.advance(1_000)
    assert first.settled
    refusals.refuse_with[refused] = []
    again = calls[title]()
    member.bench.advance(1_000)
    assert again.settled
    assert again.error is None


def test_an_error_that_a_later_call_has_settled_is_not_raised_by_poll() -> None:
    member = Member()
    member.fill(0, 3)
    member.group.offsets = {ORDERS[0]: 1}
    member.machine.assign([ORDERS[0]], 0.0)
    member.group.refuse_with[ApiKey.OFFSET_FETCH] = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    refused = member.machine.position(ORDERS[0])
    member.bench.advance(1_000)
    assert isinstance(refused.error, AbortableError)
    known = member.machine.position(ORDERS[0])
    member.bench.advance(1_000)
    assert known.value == 1
    assert member.poll() == [(0, 1), (0, 2)]
    assert member.poll() == []


# Going back


def test_rewinding_goes_back_to_what_was_committed() -> None:
    """Scenario 57."""
    member = joined(enable_auto_commit=False)
    while member.poll():
        pass
    member.commit({ORDERS[0]: 2})
    member.machine.rewind()
    again = member.poll() + member.poll() + member.poll() + member.poll()
    assert sorted(again) == [(0, 2), *((p, offset) for p in (1, 2, 3) for offset in range(3))]


def test_rewinding_goes_back_to_where_reading_began_if_nothing_was_committed() -> None:
    """Scenario 57, with auto.offset.reset=latest: to begin at the end again would skip records."""
    member = Member(auto_offset_reset="latest", enable_auto_commit=False)
    member.fill(0, 3)
    member.subscribe("orders")
    member.poll()
    member.fill(0, 2)
    assert member.poll() == [(0, 3), (0, 4)]
    member.machine.rewind()
    assert member.poll() == [(0, 3), (0, 4)]


@pytest.mark.parametrize("policy", ["latest", "earliest", "none"])
def test_rewinding_goes_back_to_what_was_committed_although_it_has_expired(policy: str) -> None:
    """The offsets of a group without members expire, also while a consumer reads partitions assigned by hand."""
    member = Member(auto_offset_reset=policy, enable_auto_commit=False)
    member.fill(0, 5)
    member.group.offsets = {ORDERS[0]: 1}
    member.machine.assign([ORDERS[0]], 0.0)
    assert member.poll(count=2) == [(0, 1), (0, 2)]
    assert member.commit().error is None
    assert member.poll(count=2) == [(0, 3), (0, 4)]
    member.group.offsets.clear()
    member.machine.rewind()
    assert member.poll(count=2) == [(0, 3), (0, 4)]


def test_records_that_were_put_back_do_not_shorten_the_way_back() -> None:
    """Scenario 57: what could not be handed out is read again, and so is what came before it."""
    member = Member(enable_auto_commit=False)
    member.fill(0, 3)
    member.subscribe("orders")
    assert member.poll() == [(0, 0), (0, 1), (0, 2)]
    member.machine.put_back(ORDERS[0], 2)
    assert member.poll() == [(0, 2)]
    member.machine.rewind()
    assert member.poll() == [(0, 0), (0, 1), (0, 2)]


def test_rewinding_goes_back_to_where_the_application_has_put_it() -> None:
    member = joined(enable_auto_commit=False)
    while member.poll():
        pass
    member.commit()
    member.machine.seek(ORDERS[0], 1)
    assert member.poll() == [(0, 1), (0, 2)]
    member.machine.rewind()
    assert member.poll() == [(0, 1), (0, 2)]
