"""SyncGroup and Heartbeat: from a generation to its assignment, and how members hear of rebalances."""

from __future__ import annotations

import pytest

from semel.coordinator.group.classic.results import SyncResult
from semel.errors import ErrorCode
from tests.unit.coordinator.group.classic.scene import (
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    Asked,
    Scene,
    joined,
    synced,
)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def ids(scene: Scene) -> list[str]:
    """Leader and two followers that have joined and not synced."""
    joins = [scene.join_v3() for _ in range(3)]
    scene.pass_ms(2 * INITIAL_DELAY_MS)
    return [joined(join).member_id for join in joins]


class TestTheLeadersSync:
    def test_gives_everybody_his_assignment(self, scene: Scene, ids: list[str]) -> None:
        leader, one, two = ids
        waits = scene.sync(one, 1)
        assert (waits.answer, scene.state) == (None, "CompletingRebalance")
        leads = scene.sync(leader, 1, {leader: b"a", one: b"b", two: b"c"})
        assert leads.answer == SyncResult(ErrorCode.NONE, "consumer", "range", b"a")
        assert synced(waits).assignment == b"b"
        assert scene.state == "Stable"
        assert synced(scene.sync(two, 1)).assignment == b"c", "who comes later gets it at once"

    def test_gives_nothing_to_whom_it_leaves_out(self, scene: Scene, ids: list[str]) -> None:
        leader, one, _ = ids
        waits = scene.sync(one, 1)
        scene.sync(leader, 1, {leader: b"a"})
        assert synced(waits).assignment == b""

    def test_that_cannot_be_written_changes_nothing_and_may_be_repeated(self, scene: Scene, ids: list[str]) -> None:
        leader, one, two = ids
        waits = scene.sync(one, 1)
        scene.disk_is_full = True
        assert scene.sync(leader, 1, {one: b"lost"}).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (waits.answer, scene.state) == (None, "CompletingRebalance")
        scene.disk_is_full = False
        scene.sync(leader, 1, {one: b"b"})
        assert synced(waits).assignment == b"b"
        assert two in scene.group.members

    def test_repeated_when_the_group_is_stable_changes_nothing(self, scene: Scene, ids: list[str]) -> None:
        """Law 2: all assignments of a generation are from one SyncGroup."""
        leader = ids[0]
        scene.sync(leader, 1, {leader: b"first"})
        again = scene.sync(leader, 1, {leader: b"second"})
        assert synced(again).assignment == b"first"


class TestASyncIsRefused:
    def test_of_a_group_that_is_not_there(self, scene: Scene) -> None:
        assert scene.sync("m", 1).error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_without_a_group(self, scene: Scene) -> None:
        scene.group_id = ""
        assert scene.sync("m", 1).error is ErrorCode.INVALID_GROUP_ID
        assert scene.heartbeat("m", 1) is ErrorCode.INVALID_GROUP_ID

    @pytest.mark.parametrize(
        ("wishes", "error"),
        [
            ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
            ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
            ({"instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"protocol": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
            ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ],
    )
    def test_that_does_not_fit_the_group(
        self, scene: Scene, ids: list[str], wishes: dict[str, object], error: ErrorCode
    ) -> None:
        request = {"member_id": ids[1], "generation": 1, "protocol": "range", "protocol_type": "consumer", **wishes}
        assert scene.sync(**request).error is error  # type: ignore[arg-type]

    def test_while_members_join(self, scene: Scene) -> None:
        leader, follower = scene.form(2)
        scene.join(leader)
        assert scene.sync(follower, 1).error is ErrorCode.REBALANCE_IN_PROGRESS

    def test_that_another_one_of_the_same_member_overtakes(self, scene: Scene, ids: list[str]) -> None:
        first, second = scene.sync(ids[1], 1), scene.sync(ids[1], 1)
        assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
        scene.sync(ids[0], 1, {ids[1]: b"b"})
        assert synced(second).assignment == b"b"

    def test_when_a_rebalance_begins_before_the_leader_has_assigned(self, scene: Scene, ids: list[str]) -> None:
        waits = scene.sync(ids[1], 1)
        scene.leave(ids[2])
        assert waits.error is ErrorCode.REBALANCE_IN_PROGRESS

    def test_when_the_member_leaves_meanwhile(self, scene: Scene, ids: list[str]) -> None:
        waits = scene.sync(ids[1], 1)
        scene.leave(ids[1])
        assert waits.error is ErrorCode.UNKNOWN_MEMBER_ID


class TestMembersThatNeverSync:
    def test_are_out_after_the_rebalance_timeout_and_the_others_join_again(self, scene: Scene, ids: list[str]) -> None:
        leader, one, silent = ids
        scene.sync(one, 1)
        scene.sync(leader, 1)
        for _ in range(REBALANCE_MS // 5000):
            scene.pass_ms(5000)
            for member_id in ids:
                scene.heartbeat(member_id, 1)
        assert scene.state == "PreparingRebalance"
        assert list(scene.group.members) == [leader, one]
        assert scene.heartbeat(silent, 1) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_take_the_leader_with_them_if_it_is_he(self, scene: Scene, ids: list[str]) -> None:
        leader, one, two = ids
        waits = [scene.sync(one, 1), scene.sync(two, 1)]
        for _ in range(REBALANCE_MS // 5000):
            scene.pass_ms(5000)
            scene.heartbeat(leader, 1)
        assert [wait.error for wait in waits] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
        rejoins = [scene.join(one), scene.join(two)]
        assert {joined(rejoin).leader for rejoin in rejoins} == {one}

    def test_are_none_once_all_have_asked(self, scene: Scene, ids: list[str]) -> None:
        scene.settle(ids)
        for _ in range(2 * REBALANCE_MS // 5000):
            scene.pass_ms(5000)
            assert {scene.heartbeat(member_id, 1) for member_id in ids} == {ErrorCode.NONE}


class TestAHeartbeat:
    def test_keeps_a_member_in_whatever_the_others_do(self, scene: Scene) -> None:
        """Law 5."""
        first, second = scene.form(2)
        for _ in range(5):
            scene.pass_ms(SESSION_MS - 1)
            scene.heartbeat(first, 1)
        assert list(scene.group.members) == [first]
        assert second not in scene.group.members

    def test_is_good_while_the_leader_assigns(self, scene: Scene, ids: list[str]) -> None:
        assert scene.heartbeat(ids[1], 1) is ErrorCode.NONE

    @pytest.mark.parametrize(
        ("member_id", "generation", "instance_id", "error"),
        [
            ("stranger", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
            ("", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
            (None, 0, None, ErrorCode.ILLEGAL_GENERATION),
            (None, 1, "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        ],
    )
    def test_of_who_is_no_member_of_the_generation_is_refused(
        self, scene: Scene, member_id: str | None, generation: int, instance_id: str | None, error: ErrorCode
    ) -> None:
        (own,) = scene.form(1)
        assert scene.heartbeat(own if member_id is None else member_id, generation, instance_id=instance_id) is error

    def test_to_an_empty_group_is_refused(self, scene: Scene) -> None:
        (member_id,) = scene.form(1)
        scene.leave(member_id)
        assert scene.heartbeat(member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_may_be_an_offset_commit(self, scene: Scene) -> None:
        (member_id,) = scene.form(1)
        for _ in range(3):
            scene.pass_ms(SESSION_MS - 1)
            assert scene.commit(1, member_id) is ErrorCode.NONE
        assert scene.state == "Stable"


class TestASession:
    def test_that_ends_puts_the_member_out_and_starts_a_rebalance(self, scene: Scene) -> None:
        first, _ = scene.form(2)
        scene.pass_ms(SESSION_MS - 1)
        scene.heartbeat(first, 1)
        scene.pass_ms(1)
        assert scene.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        assert len(joined(scene.join(first)).members) == 1

    def test_of_the_last_member_leaves_the_group_empty(self, scene: Scene) -> None:
        scene.form(1)
        scene.pass_ms(SESSION_MS)
        assert (scene.state, scene.group.generation) == ("Empty", 2)

    def test_does_not_end_while_the_member_waits_for_us(self, scene: Scene) -> None:
        first, second = scene.form(2)
        waits = scene.join(first)
        for _ in range(4):
            scene.pass_ms(SESSION_MS - 1)
            scene.heartbeat(second, 1)
        assert waits.answer is None
        scene.join(second)
        assert joined(waits).generation == 2

    def test_of_a_client_that_went_away_while_it_waited_begins_with_the_answer(self, scene: Scene) -> None:
        first, second = scene.form(2)
        gone = scene.join(first)
        scene.pass_ms(SESSION_MS - 1)
        scene.join(second)
        assert joined(gone).generation == 2
        scene.pass_ms(SESSION_MS - 1)
        scene.heartbeat(second, 2)
        scene.pass_ms(1)
        assert list(scene.group.members) == [second]

    def test_begins_with_the_assignment(self, scene: Scene, ids: list[str]) -> None:
        waits: list[Asked] = [scene.sync(ids[1], 1), scene.sync(ids[2], 1)]
        for _ in range(3):
            scene.pass_ms(SESSION_MS - 1)
            scene.heartbeat(ids[0], 1)
        scene.pass_ms(SESSION_MS - 1)
        scene.sync(ids[0], 1)
        assert all(wait.error is ErrorCode.NONE for wait in waits)
        scene.pass_ms(SESSION_MS - 1)
        assert len(scene.group.members) == 3
        scene.pass_ms(1)
        assert scene.state == "Empty"

    def test_that_ends_is_looked_at_again_when_it_could_not_be_written(self, scene: Scene) -> None:
        scene.form(1)
        scene.disk_is_full = True
        scene.pass_ms(SESSION_MS + 500)
        assert scene.state == "Stable"
        scene.disk_is_full = False
        scene.pass_ms(1000)
        assert scene.state == "Empty"
