"""LeaveGroup, one by one and in batches, and what is left of a group."""

from __future__ import annotations

import pytest

from semel.coordinator.group.classic.results import LeaveResult, LeftMember
from semel.coordinator.group.records import GroupMetadata, decode
from semel.errors import ErrorCode
from tests.unit.coordinator.group.classic.scene import SESSION_MS, Scene, joined


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_member_that_leaves_starts_a_rebalance_of_the_others(scene: Scene) -> None:
    first, second = scene.form(2)
    assert scene.leave(second) == LeaveResult(ErrorCode.NONE, (LeftMember(second, None, ErrorCode.NONE),))
    assert scene.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert joined(scene.join(first)).generation == 2


def test_a_leader_that_leaves_is_followed_by_the_oldest_member(scene: Scene) -> None:
    _, second, third = scene.form(3)
    scene.leave(scene.leader)
    rejoins = [scene.join(third), scene.join(second)]
    assert {joined(rejoin).leader for rejoin in rejoins} == {second}


def test_the_last_one_leaves_an_empty_group_that_is_written_down(scene: Scene) -> None:
    (member_id,) = scene.form(1)
    scene.pass_ms(100)
    scene.leave(member_id)
    assert scene.state == "Empty"
    assert decode(*scene.entries[-1]) == GroupMetadata("payments", "consumer", 2, None, None, scene.now_ms, ())


def test_a_batch_is_one_rebalance_and_says_of_each_how_it_went(scene: Scene) -> None:
    dynamic, static, stays = (
        scene.join_v3(),
        scene.join_v3(instance_id="one"),
        scene.join_v3(instance_id="two"),
    )
    scene.pass_ms(6000)
    scene.settle([joined(join).member_id for join in (dynamic, static, stays)])
    dynamic_id, static_id = joined(dynamic).member_id, joined(static).member_id
    result = scene.leave(dynamic_id, ("", "one"), ("", "nobody"), ("stranger", None), ("wrong", "two"), ("", None))
    assert [left.error for left in result.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(scene.group.members) == [joined(stays).member_id]
    assert static_id not in scene.group.members
    assert joined(scene.join(joined(stays).member_id, instance_id="two")).generation == 2


def test_a_batch_of_strangers_changes_nothing(scene: Scene) -> None:
    scene.form(2)
    scene.leave("stranger")
    assert scene.state == "Stable"


def test_an_id_that_was_handed_out_can_be_given_back(scene: Scene) -> None:
    (member_id,) = scene.form(1)
    pending = scene.join().answer.member_id
    assert scene.leave(pending).members[0].error is ErrorCode.NONE
    assert scene.state == "Stable", "nobody was lost who had a part in the assignment"
    assert joined(scene.join(member_id)).generation == 2, "the rebalance need not wait for it"


def test_an_id_given_back_in_a_rebalance_lets_it_complete(scene: Scene) -> None:
    (member_id,) = scene.form(1)
    pending = scene.join().answer.member_id
    rejoin = scene.join(member_id)
    assert rejoin.answer is None
    scene.leave(pending)
    assert joined(rejoin).generation == 2


def test_a_member_that_leaves_while_it_waits_is_told_so(scene: Scene) -> None:
    first, _ = scene.form(2)
    waits = scene.join(first)
    scene.leave(first)
    assert waits.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_one_missing_lets_a_rebalance_complete_when_it_leaves(scene: Scene) -> None:
    first, second = scene.form(2)
    waits = scene.join(first)
    scene.leave(second)
    assert joined(waits).generation == 2


@pytest.mark.parametrize(("group_id", "error"), [("", ErrorCode.INVALID_GROUP_ID), ("other", ErrorCode.NONE)])
def test_leaving_a_group_that_is_not_there(scene: Scene, group_id: str, error: ErrorCode) -> None:
    scene.group_id = group_id
    result = scene.leave("m")
    members = () if error else (LeftMember("m", None, ErrorCode.UNKNOWN_MEMBER_ID),)
    assert result == LeaveResult(error, members)


def test_a_session_that_would_have_ended_later_does_nothing(scene: Scene) -> None:
    first, second = scene.form(2)
    scene.leave(second)
    scene.settle([joined(scene.join(first)).member_id])
    for _ in range(3):
        scene.pass_ms(SESSION_MS - 1)
        assert scene.heartbeat(first, 2) is ErrorCode.NONE
