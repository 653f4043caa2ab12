"""LeaveGroup, one by one and in batches, and what is left of a group."""

from __future__ import annotations

import pytest

from semel.coordinator.group.classic.results import LeaveResult, LeftMember
from semel.coordinator.group.records import GroupMetadata, decode
from semel.errors import ErrorCode
from tests.unit.coordinator.group.classic.bench import SESSION_MS, Bench, joined


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_member_that_leaves_starts_a_rebalance_of_the_others(bench: Bench) -> None:
    first, second = bench.form(2)
    assert bench.leave(second) == LeaveResult(ErrorCode.NONE, (LeftMember(second, None, ErrorCode.NONE),))
    assert bench.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert joined(bench.join(first)).generation == 2


def test_a_leader_that_leaves_is_followed_by_the_oldest_member(bench: Bench) -> None:
    _, second, third = bench.form(3)
    bench.leave(bench.leader)
    rejoins = [bench.join(third), bench.join(second)]
    assert {joined(rejoin).leader for rejoin in rejoins} == {second}


def test_the_last_one_leaves_an_empty_group_that_is_written_down(bench: Bench) -> None:
    (member_id,) = bench.form(1)
    bench.pass_ms(100)
    bench.leave(member_id)
    assert bench.state == "Empty"
    assert decode(*bench.entries[-1]) == GroupMetadata("payments", "consumer", 2, None, None, bench.now_ms, ())


def test_a_batch_is_one_rebalance_and_says_of_each_how_it_went(bench: Bench) -> None:
    dynamic, static, stays = (
        bench.join_v3(),
        bench.join_v3(instance_id="one"),
        bench.join_v3(instance_id="two"),
    )
    bench.pass_ms(6000)
    bench.settle([joined(join).member_id for join in (dynamic, static, stays)])
    dynamic_id, static_id = joined(dynamic).member_id, joined(static).member_id
    result = bench.leave(dynamic_id, ("", "one"), ("", "nobody"), ("stranger", None), ("wrong", "two"), ("", None))
    assert [left.error for left in result.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(bench.group.members) == [joined(stays).member_id]
    assert static_id not in bench.group.members
    assert joined(bench.join(joined(stays).member_id, instance_id="two")).generation == 2


def test_a_batch_of_strangers_changes_nothing(bench: Bench) -> None:
    bench.form(2)
    bench.leave("stranger")
    assert bench.state == "Stable"


def test_an_id_that_was_handed_out_can_be_given_back(bench: Bench) -> None:
    (member_id,) = bench.form(1)
    pending = bench.join().answer.member_id
    assert bench.leave(pending).members[0].error is ErrorCode.NONE
    assert bench.state == "Stable", "nobody was lost who had a part in the assignment"
    assert joined(bench.join(member_id)).generation == 2, "the rebalance need not wait for it"


def test_an_id_given_back_in_a_rebalance_lets_it_complete(bench: Bench) -> None:
    (member_id,) = bench.form(1)
    pending = bench.join().answer.member_id
    rejoin = bench.join(member_id)
    assert rejoin.answer is None
    bench.leave(pending)
    assert joined(rejoin).generation == 2


def test_a_member_that_leaves_while_it_waits_is_told_so(bench: Bench) -> None:
    first, _ = bench.form(2)
    waits = bench.join(first)
    bench.leave(first)
    assert waits.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_one_missing_lets_a_rebalance_complete_when_it_leaves(bench: Bench) -> None:
    first, second = bench.form(2)
    waits = bench.join(first)
    bench.leave(second)
    assert joined(waits).generation == 2


@pytest.mark.parametrize(("group_id", "error"), [("", ErrorCode.INVALID_GROUP_ID), ("other", ErrorCode.NONE)])
def test_leaving_a_group_that_is_not_there(bench: Bench, group_id: str, error: ErrorCode) -> None:
    bench.group_id = group_id
    result = bench.leave("m")
    members = () if error else (LeftMember("m", None, ErrorCode.UNKNOWN_MEMBER_ID),)
    assert result == LeaveResult(error, members)


def test_a_session_that_would_have_ended_later_does_nothing(bench: Bench) -> None:
    first, second = bench.form(2)
    bench.leave(second)
    bench.settle([joined(bench.join(first)).member_id])
    for _ in range(3):
        bench.pass_ms(SESSION_MS - 1)
        assert bench.heartbeat(first, 2) is ErrorCode.NONE
