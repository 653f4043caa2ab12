"""JoinGroup: who is let in, under which id, and when he is answered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from semel.coordinator.group.classic.pending_ids import PENDING_IDS_MAX
from semel.coordinator.group.classic.results import JoinedMember, JoinResult
from semel.errors import ErrorCode
from tests.unit.coordinator.group.classic.scene import (
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    Scene,
    joined,
    offers,
)


@pytest.fixture
def scene() -> Scene:
    return Scene()


class TestANewMember:
    def test_is_told_its_id_first_and_joins_with_it(self, scene: Scene) -> None:
        first = scene.join()
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        member_id = first.answer.member_id
        assert member_id == "client-00000000-0000-0000-0000-000000000001"
        second = scene.join(member_id)
        scene.pass_ms(INITIAL_DELAY_MS)
        assert joined(second).member_id == member_id

    def test_is_let_in_at_once_up_to_version_3(self, scene: Scene) -> None:
        join = scene.join(version=3)
        scene.pass_ms(INITIAL_DELAY_MS)
        assert joined(join).member_id == "client-00000000-0000-0000-0000-000000000001"

    def test_that_does_not_use_its_id_within_the_session_timeout_is_forgotten(self, scene: Scene) -> None:
        member_id = scene.join().answer.member_id
        scene.pass_ms(SESSION_MS - 1)
        assert scene.state == "Empty"
        scene.pass_ms(1)
        assert scene.state == "Dead", "nothing was left but an id that was handed out"
        assert scene.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_that_has_not_used_its_id_holds_a_rebalance_up_until_the_id_expires(self, scene: Scene) -> None:
        (member_id,) = scene.form(1)
        scene.join(session_timeout_ms=7000)
        rejoin = scene.join(member_id)
        assert rejoin.answer is None
        scene.pass_ms(7000)
        assert joined(rejoin).generation == 2

    def test_gets_no_id_while_ten_thousand_are_handed_out_and_not_used(self, scene: Scene) -> None:
        """Whatever ``group.max.size`` says, which counts members. Kafka gives out as many as are asked for."""
        scene.join()
        ids = scene.group.pending_ids
        for number in range(PENDING_IDS_MAX - 2):
            ids = ids.with_id(f"id-{number}")
        scene.shard.directory.groups[scene.group_id] = replace(scene.group, pending_ids=ids)

        last = scene.join(session_timeout_ms=SESSION_MS + 1)
        assert last.error is ErrorCode.MEMBER_ID_REQUIRED
        assert scene.join().answer == JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        assert len(scene.group.pending_ids) == PENDING_IDS_MAX
        scene.pass_ms(SESSION_MS)
        assert scene.join().error is ErrorCode.MEMBER_ID_REQUIRED, "one has expired"
        scene.leave(last.answer.member_id)
        assert scene.join().error is ErrorCode.MEMBER_ID_REQUIRED, "one was given back"
        assert scene.join("id-7").answer is None, "those that were handed out are good"

    def test_may_not_bring_an_instance_id_for_an_id_that_was_handed_out(self, scene: Scene) -> None:
        member_id = scene.join().answer.member_id
        assert scene.join(member_id, instance_id="one").error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_whose_answer_takes_too_long_is_asked_to_join_anew(self, scene: Scene) -> None:
        """It sends no heartbeats, so nobody knows whether it is still there."""
        (first,) = scene.form(1, rebalance_timeout_ms=900_000)
        new = scene.join_v3(rebalance_timeout_ms=900_000)
        for _ in range(60):
            scene.pass_ms(5000)
            scene.heartbeat(first, 1)
        assert new.answer == JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, "")

    def test_named_by_an_unknown_id_is_refused(self, scene: Scene) -> None:
        assert scene.join("stranger").error is ErrorCode.UNKNOWN_MEMBER_ID
        scene.form(1)
        assert scene.join("stranger").error is ErrorCode.UNKNOWN_MEMBER_ID


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
def test_a_join_that_cannot_be_is_refused(scene: Scene, wishes: dict[str, object], error: ErrorCode) -> None:
    assert scene.join_v3(**wishes).error is error
    assert scene.state == "Dead", "it has made a group"


@pytest.mark.parametrize("timeout_ms", [6000, 1_800_000])
def test_the_bounds_of_the_session_timeout_are_allowed(scene: Scene, timeout_ms: int) -> None:
    assert scene.join(session_timeout_ms=timeout_ms).error is ErrorCode.MEMBER_ID_REQUIRED


class TestTheFirstRebalance:
    def test_waits_for_more_members(self, scene: Scene) -> None:
        first = scene.join_v3()
        scene.pass_ms(INITIAL_DELAY_MS - 1)
        second = scene.join_v3()
        assert first.answer is None
        scene.pass_ms(1)
        assert first.answer is None, "somebody came within the delay"
        scene.pass_ms(INITIAL_DELAY_MS)
        assert joined(first).generation == joined(second).generation == 1

    def test_waits_longer_while_members_keep_coming_but_not_beyond_the_rebalance_timeout(self, scene: Scene) -> None:
        joins = [scene.join_v3(rebalance_timeout_ms=7000)]
        started_ms = scene.now_ms
        while joins[0].answer is None:
            scene.pass_ms(1000)
            joins.append(scene.join_v3(rebalance_timeout_ms=7000))
        assert 7000 <= scene.now_ms - started_ms <= 8000
        assert len(joined(joins[0]).members) == 7

    def test_is_over_when_nobody_has_come_for_the_length_of_the_delay(self, scene: Scene) -> None:
        first = scene.join_v3()
        scene.pass_ms(INITIAL_DELAY_MS)
        assert first.error is ErrorCode.NONE

    def test_begins_again_after_the_group_was_empty(self, scene: Scene) -> None:
        (member_id,) = scene.form(1)
        scene.leave(member_id)
        join = scene.join_v3()
        assert join.answer is None
        scene.pass_ms(INITIAL_DELAY_MS)
        assert joined(join).generation == 3

    def test_of_members_that_all_left_ends_empty(self, scene: Scene) -> None:
        member_id = scene.join().answer.member_id
        scene.join(member_id)
        scene.leave(member_id)
        scene.pass_ms(INITIAL_DELAY_MS)
        assert (scene.state, scene.waiting) == ("Empty", [])


class TestTheAnswer:
    def test_tells_the_leader_of_all_members_and_the_others_of_none(self, scene: Scene) -> None:
        protocols = offers("range")
        joins = [scene.join_v3(protocols=protocols), scene.join_v3(protocols=protocols, instance_id="one")]
        scene.pass_ms(2 * INITIAL_DELAY_MS)
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
    def test_starts_a_rebalance_when_the_leader_joins_again(self, scene: Scene) -> None:
        leader, follower = scene.form(2)
        rejoin = scene.join(leader)
        assert (rejoin.answer, scene.state) == (None, "PreparingRebalance")
        assert scene.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        follows = scene.join(follower)
        assert joined(rejoin).generation == joined(follows).generation == 2

    def test_starts_none_when_a_follower_joins_again_with_what_it_said(self, scene: Scene) -> None:
        _, follower = scene.form(2)
        assert joined(scene.join(follower)).generation == 1
        assert scene.state == "Stable"

    def test_starts_one_when_a_follower_says_something_else(self, scene: Scene) -> None:
        _, follower = scene.form(2)
        scene.join(follower, protocols=offers("range", topics=["refunds"]))
        assert scene.state == "PreparingRebalance"

    def test_is_told_again_while_the_leader_assigns(self, scene: Scene) -> None:
        """The first answer was lost."""
        joins = [scene.join_v3(), scene.join_v3()]
        scene.pass_ms(2 * INITIAL_DELAY_MS)
        for join in joins:
            again = scene.join(joined(join).member_id)
            assert again.answer == join.answer

    def test_that_says_something_else_while_the_leader_assigns_starts_a_rebalance(self, scene: Scene) -> None:
        joins = [scene.join_v3(), scene.join_v3()]
        scene.pass_ms(2 * INITIAL_DELAY_MS)
        leader, follower = (joined(join).member_id for join in joins)
        waits = scene.sync(follower, 1)
        scene.join(leader, protocols=offers("range", topics=["refunds"]))
        assert waits.error is ErrorCode.REBALANCE_IN_PROGRESS

    def test_that_joins_twice_in_a_rebalance_has_the_second_answered_and_the_first_told_so(self, scene: Scene) -> None:
        first, second = scene.form(2)
        one = scene.join(first)
        two = scene.join(first)
        assert one.error is ErrorCode.REBALANCE_IN_PROGRESS
        scene.join(second)
        assert joined(two).generation == 2

    def test_may_not_be_of_an_empty_group(self, scene: Scene) -> None:
        (member_id,) = scene.form(1)
        scene.leave(member_id)
        assert scene.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_that_has_not_rejoined_in_time_is_out(self, scene: Scene) -> None:
        leader, late = scene.form(2)
        rejoin = scene.join(leader)
        for _ in range(REBALANCE_MS // 5000):
            scene.heartbeat(late, 1)
            scene.pass_ms(5000)
        assert [member.member_id for member in joined(rejoin).members] == [leader]
        assert scene.heartbeat(late, 1) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_becomes_leader_when_the_leader_has_not_rejoined_in_time(self, scene: Scene) -> None:
        leader, follower = scene.form(2)
        rejoin = scene.join(follower, protocols=offers("range", topics=["refunds"]))
        for _ in range(REBALANCE_MS // 5000):
            scene.heartbeat(leader, 1)
            scene.pass_ms(5000)
        assert joined(rejoin).leader == follower


class TestTheProtocol:
    def test_is_one_that_all_offer_and_most_prefer(self, scene: Scene) -> None:
        joins = [
            scene.join_v3(protocols=offers("range", "sticky", "own")),
            scene.join_v3(protocols=offers("sticky", "range")),
            scene.join_v3(protocols=offers("sticky", "range")),
        ]
        scene.pass_ms(2 * INITIAL_DELAY_MS)
        assert {joined(join).protocol for join in joins} == {"sticky"}

    def test_of_a_tie_is_the_first_members_preference(self, scene: Scene) -> None:
        joins = [scene.join_v3(protocols=offers("range", "sticky")), scene.join_v3(protocols=offers("sticky", "range"))]
        scene.pass_ms(2 * INITIAL_DELAY_MS)
        assert {joined(join).protocol for join in joins} == {"range"}

    @pytest.mark.parametrize("wishes", [{"protocols": offers("own")}, {"protocol_type": "connect"}, {"protocols": ()}])
    def test_that_nobody_shares_keeps_a_new_member_out(self, scene: Scene, wishes: dict[str, object]) -> None:
        scene.form(2)
        assert scene.join_v3(**wishes).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert scene.state == "Stable"

    def test_type_may_change_once_the_group_is_empty(self, scene: Scene) -> None:
        scene.leave(*scene.form(2))
        scene.form(1, protocol_type="connect")
        assert scene.group.protocol_type == "connect"


class TestTheSizeLimit:
    def test_keeps_a_new_member_out_of_a_full_group(self) -> None:
        scene = Scene(size_max=2)
        scene.form(2)
        assert scene.join().answer == JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        assert scene.state == "Stable"

    def test_keeps_those_out_who_come_last_to_a_rebalance(self) -> None:
        scene = Scene(size_max=2)
        joins = [scene.join_v3() for _ in range(3)]
        assert joins[2].error is ErrorCode.GROUP_MAX_SIZE_REACHED
        scene.pass_ms(2 * INITIAL_DELAY_MS)
        assert len(joined(joins[0]).members) == 2

    def test_that_was_lowered_puts_members_out_in_the_rebalance_that_follows_a_restart(self) -> None:
        scene = Scene()
        ids = scene.form(3)
        scene.size_max = 2
        scene.restart()
        assert scene.state == "PreparingRebalance"
        joins = [scene.join(member_id) for member_id in ids]
        assert [join.error for join in joins] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]
