"""JoinGroup: who is let in, under which id, and when he is answered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from semel.coordinator.group.classic.pending_ids import PENDING_IDS_MAX
from semel.coordinator.group.classic.results import JoinedMember, JoinResult
from semel.errors import ErrorCode
from tests.unit.coordinator.group.classic.bench import (
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    Bench,
    joined,
    offers,
)


@pytest.fixture
def bench() -> Bench:
    return Bench()


class TestANewMember:
    def test_is_told_its_id_first_and_joins_with_it(self, bench: Bench) -> None:
        first = bench.join()
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        member_id = first.answer.member_id
        assert member_id == "client-00000000-0000-0000-0000-000000000001"
        second = bench.join(member_id)
        bench.pass_ms(INITIAL_DELAY_MS)
        assert joined(second).member_id == member_id

    def test_is_let_in_at_once_up_to_version_3(self, bench: Bench) -> None:
        join = bench.join(version=3)
        bench.pass_ms(INITIAL_DELAY_MS)
        assert joined(join).member_id == "client-00000000-0000-0000-0000-000000000001"

    def test_that_does_not_use_its_id_within_the_session_timeout_is_forgotten(self, bench: Bench) -> None:
        member_id = bench.join().answer.member_id
        bench.pass_ms(SESSION_MS - 1)
        assert bench.state == "Empty"
        bench.pass_ms(1)
        assert bench.state == "Dead", "nothing was left but an id that was handed out"
        assert bench.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_that_has_not_used_its_id_holds_a_rebalance_up_until_the_id_expires(self, bench: Bench) -> None:
        (member_id,) = bench.form(1)
        bench.join(session_timeout_ms=7000)
        rejoin = bench.join(member_id)
        assert rejoin.answer is None
        bench.pass_ms(7000)
        assert joined(rejoin).generation == 2

    def test_gets_no_id_while_ten_thousand_are_handed_out_and_not_used(self, bench: Bench) -> None:
        """Whatever ``group.max.size`` says, which counts members. Kafka gives out as many as are asked for."""
        bench.join()
        ids = bench.group.pending_ids
        for number in range(PENDING_IDS_MAX - 2):
            ids = ids.with_id(f"id-{number}")
        bench.shard.directory.groups[bench.group_id] = replace(bench.group, pending_ids=ids)

        last = bench.join(session_timeout_ms=SESSION_MS + 1)
        assert last.error is ErrorCode.MEMBER_ID_REQUIRED
        assert bench.join().answer == JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        assert len(bench.group.pending_ids) == PENDING_IDS_MAX
        bench.pass_ms(SESSION_MS)
        assert bench.join().error is ErrorCode.MEMBER_ID_REQUIRED, "one has expired"
        bench.leave(last.answer.member_id)
        assert bench.join().error is ErrorCode.MEMBER_ID_REQUIRED, "one was given back"
        assert bench.join("id-7").answer is None, "those that were handed out are good"

    def test_may_not_bring_an_instance_id_for_an_id_that_was_handed_out(self, bench: Bench) -> None:
        member_id = bench.join().answer.member_id
        assert bench.join(member_id, instance_id="one").error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_whose_answer_takes_too_long_is_asked_to_join_anew(self, bench: Bench) -> None:
        """It sends no heartbeats, so nobody knows whether it is still there."""
        (first,) = bench.form(1, rebalance_timeout_ms=900_000)
        new = bench.join_v3(rebalance_timeout_ms=900_000)
        for _ in range(60):
            bench.pass_ms(5000)
            bench.heartbeat(first, 1)
        assert new.answer == JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, "")

    def test_named_by_an_unknown_id_is_refused(self, bench: Bench) -> None:
        assert bench.join("stranger").error is ErrorCode.UNKNOWN_MEMBER_ID
        bench.form(1)
        assert bench.join("stranger").error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("wishes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_join_that_cannot_be_is_refused(bench: Bench, wishes: dict[str, object], error: ErrorCode) -> None:
    assert bench.join_v3(**wishes).error is error
    assert bench.state == "Dead", "it has made a group"


@pytest.mark.parametrize("timeout_ms", [6000, 1_800_000])
def test_the_bounds_of_the_session_timeout_are_allowed(bench: Bench, timeout_ms: int) -> None:
    assert bench.join(session_timeout_ms=timeout_ms).error is ErrorCode.MEMBER_ID_REQUIRED


class TestTheFirstRebalance:
    def test_waits_for_more_members(self, bench: Bench) -> None:
        first = bench.join_v3()
        bench.pass_ms(INITIAL_DELAY_MS - 1)
        second = bench.join_v3()
        assert first.answer is None
        bench.pass_ms(1)
        assert first.answer is None, "somebody came within the delay"
        bench.pass_ms(INITIAL_DELAY_MS)
        assert joined(first).generation == joined(second).generation == 1

    def test_waits_longer_while_members_keep_coming_but_not_beyond_the_rebalance_timeout(self, bench: Bench) -> None:
        joins = [bench.join_v3(rebalance_timeout_ms=7000)]
        started_ms = bench.now_ms
        while joins[0].answer is None:
            bench.pass_ms(1000)
            joins.append(bench.join_v3(rebalance_timeout_ms=7000))
        assert 7000 <= bench.now_ms - started_ms <= 8000
        assert len(joined(joins[0]).members) == 7

    def test_is_over_when_nobody_has_come_for_the_length_of_the_delay(self, bench: Bench) -> None:
        first = bench.join_v3()
        bench.pass_ms(INITIAL_DELAY_MS)
        assert first.error is ErrorCode.NONE

    def test_begins_again_after_the_group_was_empty(self, bench: Bench) -> None:
        (member_id,) = bench.form(1)
        bench.leave(member_id)
        join = bench.join_v3()
        assert join.answer is None
        bench.pass_ms(INITIAL_DELAY_MS)
        assert joined(join).generation == 3

    def test_of_members_that_all_left_ends_empty(self, bench: Bench) -> None:
        member_id = bench.join().answer.member_id
        bench.join(member_id)
        bench.leave(member_id)
        bench.pass_ms(INITIAL_DELAY_MS)
        assert (bench.state, bench.waiting) == ("Empty", [])


class TestTheAnswer:
    def test_tells_the_leader_of_all_members_and_the_others_of_none(self, bench: Bench) -> None:
        protocols = offers("range")
        joins = [bench.join_v3(protocols=protocols), bench.join_v3(protocols=protocols, instance_id="one")]
        bench.pass_ms(2 * INITIAL_DELAY_MS)
        leader, follower = (joined(join) for join in joins)
        members = (
            JoinedMember(leader.member_id, None, protocols[0].metadata),
            JoinedMember(follower.member_id, "one", protocols[0].metadata),
        )
        common = {"generation": 1, "protocol_type": "consumer", "protocol": "range", "leader": leader.member_id}
        assert leader == JoinResult(ErrorCode.NONE, leader.member_id, **common, members=members)  # type: ignore[arg-type]
        assert follower == JoinResult(ErrorCode.NONE, follower.member_id, **common)  # type: ignore[arg-type]
        assert follower.member_id.startswith("one-"), "a static member's id is made of its instance id"


class TestAMemberThatIsIn:
    def test_starts_a_rebalance_when_the_leader_joins_again(self, bench: Bench) -> None:
        leader, follower = bench.form(2)
        rejoin = bench.join(leader)
        assert (rejoin.answer, bench.state) == (None, "PreparingRebalance")
        assert bench.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        follows = bench.join(follower)
        assert joined(rejoin).generation == joined(follows).generation == 2

    def test_starts_none_when_a_follower_joins_again_with_what_it_said(self, bench: Bench) -> None:
        _, follower = bench.form(2)
        assert joined(bench.join(follower)).generation == 1
        assert bench.state == "Stable"

    def test_starts_one_when_a_follower_says_something_else(self, bench: Bench) -> None:
        _, follower = bench.form(2)
        bench.join(follower, protocols=offers("range", topics=["refunds"]))
        assert bench.state == "PreparingRebalance"

    def test_is_told_again_while_the_leader_assigns(self, bench: Bench) -> None:
        """The first answer was lost."""
        joins = [bench.join_v3(), bench.join_v3()]
        bench.pass_ms(2 * INITIAL_DELAY_MS)
        for join in joins:
            again = bench.join(joined(join).member_id)
            assert again.answer == join.answer

    def test_that_says_something_else_while_the_leader_assigns_starts_a_rebalance(self, bench: Bench) -> None:
        joins = [bench.join_v3(), bench.join_v3()]
        bench.pass_ms(2 * INITIAL_DELAY_MS)
        leader, follower = (joined(join).member_id for join in joins)
        waits = bench.sync(follower, 1)
        bench.join(leader, protocols=offers("range", topics=["refunds"]))
        assert waits.error is ErrorCode.REBALANCE_IN_PROGRESS

    def test_that_joins_twice_in_a_rebalance_has_the_second_answered_and_the_first_told_so(self, bench: Bench) -> None:
        first, second = bench.form(2)
        one = bench.join(first)
        two = bench.join(first)
        assert one.error is ErrorCode.REBALANCE_IN_PROGRESS
        bench.join(second)
        assert joined(two).generation == 2

    def test_may_not_be_of_an_empty_group(self, bench: Bench) -> None:
        (member_id,) = bench.form(1)
        bench.leave(member_id)
        assert bench.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_that_has_not_rejoined_in_time_is_out(self, bench: Bench) -> None:
        leader, late = bench.form(2)
        rejoin = bench.join(leader)
        for _ in range(REBALANCE_MS // 5000):
            bench.heartbeat(late, 1)
            bench.pass_ms(5000)
        assert [member.member_id for member in joined(rejoin).members] == [leader]
        assert bench.heartbeat(late, 1) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_becomes_leader_when_the_leader_has_not_rejoined_in_time(self, bench: Bench) -> None:
        leader, follower = bench.form(2)
        rejoin = bench.join(follower, protocols=offers("range", topics=["refunds"]))
        for _ in range(REBALANCE_MS // 5000):
            bench.heartbeat(leader, 1)
            bench.pass_ms(5000)
        assert joined(rejoin).leader == follower


class TestTheProtocol:
    def test_is_one_that_all_offer_and_most_prefer(self, bench: Bench) -> None:
        joins = [
            bench.join_v3(protocols=offers("range", "sticky", "own")),
            bench.join_v3(protocols=offers("sticky", "range")),
            bench.join_v3(protocols=offers("sticky", "range")),
        ]
        bench.pass_ms(2 * INITIAL_DELAY_MS)
        assert {joined(join).protocol for join in joins} == {"sticky"}

    def test_of_a_tie_is_the_first_members_preference(self, bench: Bench) -> None:
        joins = [bench.join_v3(protocols=offers("range", "sticky")), bench.join_v3(protocols=offers("sticky", "range"))]
        bench.pass_ms(2 * INITIAL_DELAY_MS)
        assert {joined(join).protocol for join in joins} == {"range"}

    @pytest.mark.parametrize("wishes", [{"protocols": offers("own")}, {"protocol_type": "connect"}, {"protocols": ()}])
    def test_that_nobody_shares_keeps_a_new_member_out(self, bench: Bench, wishes: dict[str, object]) -> None:
        bench.form(2)
        assert bench.join_v3(**wishes).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert bench.state == "Stable"

    def test_type_may_change_once_the_group_is_empty(self, bench: Bench) -> None:
        bench.leave(*bench.form(2))
        bench.form(1, protocol_type="connect")
        assert bench.group.protocol_type == "connect"


class TestTheSizeLimit:
    def test_keeps_a_new_member_out_of_a_full_group(self) -> None:
        bench = Bench(size_max=2)
        bench.form(2)
        assert bench.join().answer == JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        assert bench.state == "Stable"

    def test_keeps_those_out_who_come_last_to_a_rebalance(self) -> None:
        bench = Bench(size_max=2)
        joins = [bench.join_v3() for _ in range(3)]
        assert joins[2].error is ErrorCode.GROUP_MAX_SIZE_REACHED
        bench.pass_ms(2 * INITIAL_DELAY_MS)
        assert len(joined(joins[0]).members) == 2

    def test_that_was_lowered_puts_members_out_in_the_rebalance_that_follows_a_restart(self) -> None:
        bench = Bench()
        ids = bench.form(3)
        bench.size_max = 2
        bench.restart()
        assert bench.state == "PreparingRebalance"
        joins = [bench.join(member_id) for member_id in ids]
        assert [join.error for join in joins] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]
