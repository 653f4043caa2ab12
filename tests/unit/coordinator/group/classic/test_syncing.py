"""SyncGroup and Heartbeat: from a generation to its assignment, and how members hear of rebalances."""

from __future__ import annotations

import pytest

from semel.coordinator.group.classic.results import SyncResult
from semel.errors import ErrorCode
from tests.unit.coordinator.group.classic.bench import (
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    Asked,
    Bench,
    joined,
    synced,
)


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def ids(bench: Bench) -> list[str]:
    """Leader and two followers that have joined and not synced."""
    joins = [bench.join_v3() for _ in range(3)]
    bench.pass_ms(2 * INITIAL_DELAY_MS)
    return [joined(join).member_id for join in joins]


class TestTheLeadersSync:
    def test_gives_everybody_his_assignment(self, bench: Bench, ids: list[str]) -> None:
        leader, one, two = ids
        waits = bench.sync(one, 1)
        assert (waits.answer, bench.state) == (None, "CompletingRebalance")
        leads = bench.sync(leader, 1, {leader: b"a", one: b"b", two: b"c"})
        assert leads.answer == SyncResult(ErrorCode.NONE, "consumer", "range", b"a")
        assert synced(waits).assignment == b"b"
        assert bench.state == "Stable"
        assert synced(bench.sync(two, 1)).assignment == b"c", "who comes later gets it at once"

    def test_gives_nothing_to_whom_it_leaves_out(self, bench: Bench, ids: list[str]) -> None:
        leader, one, _ = ids
        waits = bench.sync(one, 1)
        bench.sync(leader, 1, {leader: b"a"})
        assert synced(waits).assignment == b""

    def test_that_cannot_be_written_changes_nothing_and_may_be_repeated(self, bench: Bench, ids: list[str]) -> None:
        leader, one, two = ids
        waits = bench.sync(one, 1)
        bench.disk_is_full = True
        assert bench.sync(leader, 1, {one: b"lost"}).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (waits.answer, bench.state) == (None, "CompletingRebalance")
        bench.disk_is_full = False
        bench.sync(leader, 1, {one: b"b"})
        assert synced(waits).assignment == b"b"
        assert two in bench.group.members

    def test_repeated_when_the_group_is_stable_changes_nothing(self, bench: Bench, ids: list[str]) -> None:
        """Law 2: all assignments of a generation are from one SyncGroup."""
        leader = ids[0]
        bench.sync(leader, 1, {leader: b"first"})
        again = bench.sync(leader, 1, {leader: b"second"})
        assert synced(again).assignment == b"first"


class TestASyncIsRefused:
    def test_of_a_group_that_is_not_there(self, bench: Bench) -> None:
        assert bench.sync("m", 1).error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_without_a_group(self, bench: Bench) -> None:
        bench.group_id = ""
        assert bench.sync("m", 1).error is ErrorCode.INVALID_GROUP_ID
        assert bench.heartbeat("m", 1) is ErrorCode.INVALID_GROUP_ID

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
        self, bench: Bench, ids: list[str], wishes: dict[str, object], error: ErrorCode
    ) -> None:
        request = {"member_id": ids[1], "generation": 1, "protocol": "range", "protocol_type": "consumer", **wishes}
        assert bench.sync(**request).error is error  # type: ignore[arg-type]

    def test_while_members_join(self, bench: Bench) -> None:
        leader, follower = bench.form(2)
        bench.join(leader)
        assert bench.sync(follower, 1).error is ErrorCode.REBALANCE_IN_PROGRESS

    def test_that_another_one_of_the_same_member_overtakes(self, bench: Bench, ids: list[str]) -> None:
        first, second = bench.sync(ids[1], 1), bench.sync(ids[1], 1)
        assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
        bench.sync(ids[0], 1, {ids[1]: b"b"})
        assert synced(second).assignment == b"b"

    def test_when_a_rebalance_begins_before_the_leader_has_assigned(self, bench: Bench, ids: list[str]) -> None:
        waits = bench.sync(ids[1], 1)
        bench.leave(ids[2])
        assert waits.error is ErrorCode.REBALANCE_IN_PROGRESS

    def test_when_the_member_leaves_meanwhile(self, bench: Bench, ids: list[str]) -> None:
        waits = bench.sync(ids[1], 1)
        bench.leave(ids[1])
        assert waits.error is ErrorCode.UNKNOWN_MEMBER_ID


class TestMembersThatNeverSync:
    def test_are_out_after_the_rebalance_timeout_and_the_others_join_again(self, bench: Bench, ids: list[str]) -> None:
        leader, one, silent = ids
        bench.sync(one, 1)
        bench.sync(leader, 1)
        for _ in range(REBALANCE_MS // 5000):
            bench.pass_ms(5000)
            for member_id in ids:
                bench.heartbeat(member_id, 1)
        assert bench.state == "PreparingRebalance"
        assert list(bench.group.members) == [leader, one]
        assert bench.heartbeat(silent, 1) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_take_the_leader_with_them_if_it_is_he(self, bench: Bench, ids: list[str]) -> None:
        leader, one, two = ids
        waits = [bench.sync(one, 1), bench.sync(two, 1)]
        for _ in range(REBALANCE_MS // 5000):
            bench.pass_ms(5000)
            bench.heartbeat(leader, 1)
        assert [wait.error for wait in waits] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
        rejoins = [bench.join(one), bench.join(two)]
        assert {joined(rejoin).leader for rejoin in rejoins} == {one}

    def test_are_none_once_all_have_asked(self, bench: Bench, ids: list[str]) -> None:
        bench.settle(ids)
        for _ in range(2 * REBALANCE_MS // 5000):
            bench.pass_ms(5000)
            assert {bench.heartbeat(member_id, 1) for member_id in ids} == {ErrorCode.NONE}


class TestAHeartbeat:
    def test_keeps_a_member_in_whatever_the_others_do(self, bench: Bench) -> None:
        """Law 5."""
        first, second = bench.form(2)
        for _ in range(5):
            bench.pass_ms(SESSION_MS - 1)
            bench.heartbeat(first, 1)
        assert list(bench.group.members) == [first]
        assert second not in bench.group.members

    def test_is_good_while_the_leader_assigns(self, bench: Bench, ids: list[str]) -> None:
        assert bench.heartbeat(ids[1], 1) is ErrorCode.NONE

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
        self, bench: Bench, member_id: str | None, generation: int, instance_id: str | None, error: ErrorCode
    ) -> None:
        (own,) = bench.form(1)
        assert bench.heartbeat(own if member_id is None else member_id, generation, instance_id=instance_id) is error

    def test_to_an_empty_group_is_refused(self, bench: Bench) -> None:
        (member_id,) = bench.form(1)
        bench.leave(member_id)
        assert bench.heartbeat(member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_may_be_an_offset_commit(self, bench: Bench) -> None:
        (member_id,) = bench.form(1)
        for _ in range(3):
            bench.pass_ms(SESSION_MS - 1)
            assert bench.commit(1, member_id) is ErrorCode.NONE
        assert bench.state == "Stable"


class TestASession:
    def test_that_ends_puts_the_member_out_and_starts_a_rebalance(self, bench: Bench) -> None:
        first, _ = bench.form(2)
        bench.pass_ms(SESSION_MS - 1)
        bench.heartbeat(first, 1)
        bench.pass_ms(1)
        assert bench.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        assert len(joined(bench.join(first)).members) == 1

    def test_of_the_last_member_leaves_the_group_empty(self, bench: Bench) -> None:
        bench.form(1)
        bench.pass_ms(SESSION_MS)
        assert (bench.state, bench.group.generation) == ("Empty", 2)

    def test_does_not_end_while_the_member_waits_for_us(self, bench: Bench) -> None:
        first, second = bench.form(2)
        waits = bench.join(first)
        for _ in range(4):
            bench.pass_ms(SESSION_MS - 1)
            bench.heartbeat(second, 1)
        assert waits.answer is None
        bench.join(second)
        assert joined(waits).generation == 2

    def test_of_a_client_that_went_away_while_it_waited_begins_with_the_answer(self, bench: Bench) -> None:
        first, second = bench.form(2)
        gone = bench.join(first)
        bench.pass_ms(SESSION_MS - 1)
        bench.join(second)
        assert joined(gone).generation == 2
        bench.pass_ms(SESSION_MS - 1)
        bench.heartbeat(second, 2)
        bench.pass_ms(1)
        assert list(bench.group.members) == [second]

    def test_begins_with_the_assignment(self, bench: Bench, ids: list[str]) -> None:
        waits: list[Asked] = [bench.sync(ids[1], 1), bench.sync(ids[2], 1)]
        for _ in range(3):
            bench.pass_ms(SESSION_MS - 1)
            bench.heartbeat(ids[0], 1)
        bench.pass_ms(SESSION_MS - 1)
        bench.sync(ids[0], 1)
        assert all(wait.error is ErrorCode.NONE for wait in waits)
        bench.pass_ms(SESSION_MS - 1)
        assert len(bench.group.members) == 3
        bench.pass_ms(1)
        assert bench.state == "Empty"

    def test_that_ends_is_looked_at_again_when_it_could_not_be_written(self, bench: Bench) -> None:
        bench.form(1)
        bench.disk_is_full = True
        bench.pass_ms(SESSION_MS + 500)
        assert bench.state == "Stable"
        bench.disk_is_full = False
        bench.pass_ms(1000)
        assert bench.state == "Empty"
