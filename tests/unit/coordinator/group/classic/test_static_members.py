"""Static membership (KIP-345): a member that comes back under its instance id takes the place of its former self."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from semel.coordinator.group.classic.requests import OfferedProtocol
from semel.coordinator.group.classic.results import JoinResult
from semel.errors import ErrorCode
from semel.types import TopicPartition
from semel.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
    grouped,
)
from tests.unit.coordinator.group.classic.bench import (
    REBALANCE_MS,
    SESSION_MS,
    Bench,
    joined,
    offers,
    synced,
)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def cooperative(*, owned: Sequence[TopicPartition]) -> tuple[OfferedProtocol, ...]:
    subscription = ConsumerProtocolSubscription(topics=["orders"], owned_partitions=grouped(owned))
    return (OfferedProtocol("cooperative-sticky", encode_subscription(subscription)),)


def form(bench: Bench) -> tuple[str, str]:
    """A stable group of the static members ``one``, who leads, and ``two``. Returns their member ids."""
    joins = [bench.join(instance_id=name) for name in ("one", "two")]
    bench.pass_ms(6000)
    ids = {joined(join).member_id: name for join, name in zip(joins, ("one", "two"), strict=True)}
    bench.settle(list(ids), instances=ids)
    first, second = ids
    return first, second


class TestAStaticMember:
    def test_needs_no_second_request_for_its_id(self, bench: Bench) -> None:
        join = bench.join(instance_id="one")
        bench.pass_ms(3000)
        assert joined(join).member_id == "one-00000000-0000-0000-0000-000000000001"

    def test_comes_back_to_its_assignment_without_a_rebalance(self, bench: Bench) -> None:
        first, second = form(bench)
        back = joined(bench.join(instance_id="two"))
        assert back.member_id != second
        assert (back.generation, back.leader, back.skip_assignment) == (1, first, False)
        assert bench.state == "Stable"
        assert synced(bench.sync(back.member_id, 1, instance_id="two")).assignment == second.encode()
        assert bench.heartbeat(first, 1) is ErrorCode.NONE, "the other one did not notice"

    def test_that_came_back_is_remembered_over_a_restart(self, bench: Bench) -> None:
        form(bench)
        back = joined(bench.join(instance_id="two")).member_id
        bench.restart()
        assert bench.heartbeat(back, 1, instance_id="two") is ErrorCode.NONE

    def test_that_came_back_and_could_not_be_written_down_did_not_come_back(self, bench: Bench) -> None:
        _, second = form(bench)
        bench.disk_is_full = True
        assert bench.join(instance_id="two").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert bench.heartbeat(second, 1, instance_id="two") is ErrorCode.NONE

    def test_that_comes_back_with_other_topics_starts_a_rebalance(self, bench: Bench) -> None:
        form(bench)
        bench.join(instance_id="two", protocols=offers("range", topics=["refunds"]))
        assert bench.state == "PreparingRebalance"

    def test_that_comes_back_while_partitions_change_hands_starts_the_rebalance_that_is_due(self, bench: Bench) -> None:
        """Cooperative: ``one`` gives up what ``two`` gets when they join once more. With both of them, that is lost."""
        orders = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
        joins = [
            bench.join(instance_id="one", protocols=cooperative(owned=orders)),
            bench.join(instance_id="two", protocols=cooperative(owned=[])),
        ]
        bench.pass_ms(6000)
        first, _ = (joined(join).member_id for join in joins)
        kept = encode_assignment(ConsumerProtocolAssignment(grouped(orders[:1])))
        bench.sync(first, 1, {first: kept}, instance_id="one")
        bench.restart()
        bench.join(instance_id="two", protocols=cooperative(owned=[]))
        assert bench.state == "PreparingRebalance"

    def test_that_comes_back_with_another_protocol_starts_a_rebalance(self, bench: Bench) -> None:
        join = bench.join(instance_id="one", protocols=offers("range", "sticky"))
        bench.pass_ms(3000)
        bench.settle([joined(join).member_id])
        back = bench.join(instance_id="one", protocols=offers("sticky", "range"))
        assert (joined(back).generation, joined(back).protocol) == (2, "sticky")

    def test_whose_protocol_is_not_consumer_comes_back_with_whatever_it_says(self, bench: Bench) -> None:
        protocols = offers("default")
        join = bench.join(instance_id="one", protocol_type="connect", protocols=protocols)
        bench.pass_ms(3000)
        bench.settle([joined(join).member_id])
        other = (protocols[0]._replace(metadata=b"other"),)
        assert joined(bench.join(instance_id="one", protocol_type="connect", protocols=other)).generation == 1

    def test_whose_session_ends_while_it_is_away_is_out(self, bench: Bench) -> None:
        first, _ = form(bench)
        bench.pass_ms(SESSION_MS - 1)
        bench.heartbeat(first, 1)
        bench.pass_ms(1)
        assert list(bench.group.members) == [first]

    def test_stays_in_a_rebalance_it_did_not_come_to(self, bench: Bench) -> None:
        first, second = form(bench)
        join = bench.join(first, instance_id="one")
        for _ in range(REBALANCE_MS // 5000):
            bench.heartbeat(second, 1, instance_id="two")
            bench.pass_ms(5000)
        assert [member.member_id for member in joined(join).members] == [first, second]

    def test_of_whom_nobody_came_to_a_rebalance_leaves_it_waiting_for_sessions(self, bench: Bench) -> None:
        first, second = form(bench)
        bench.leave(first)
        for _ in range(2 * REBALANCE_MS // 5000):
            assert bench.heartbeat(second, 1, instance_id="two") is ErrorCode.REBALANCE_IN_PROGRESS
            bench.pass_ms(5000)
        assert joined(bench.join(second, instance_id="two")).generation == 2

    def test_is_not_taken_for_the_dynamic_member_whose_id_it_names(self, bench: Bench) -> None:
        (dynamic,) = bench.form(1)
        assert bench.join(dynamic, instance_id="one").error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_that_came_back_owes_the_sync_that_its_former_self_owed(self, bench: Bench) -> None:
        joins = [bench.join(instance_id=name) for name in ("one", "two")]
        bench.pass_ms(6000)
        first, second = (joined(join).member_id for join in joins)
        bench.sync(first, 1, {second: b"b"}, instance_id="one")
        back = joined(bench.join(instance_id="two")).member_id
        for _ in range(REBALANCE_MS // 5000):
            bench.pass_ms(5000)
            bench.heartbeat(first, 1, instance_id="one")
            bench.heartbeat(back, 1, instance_id="two")
        assert list(bench.group.members) == [first]


class TestTheLeader:
    def test_that_comes_back_is_told_to_skip_the_assignment(self, bench: Bench) -> None:
        form(bench)
        back = joined(bench.join(instance_id="one"))
        assert (back.leader, back.skip_assignment, len(back.members)) == (back.member_id, True, 2)

    def test_that_comes_back_before_version_9_is_not_told_that_it_leads(self, bench: Bench) -> None:
        first, _ = form(bench)
        back = joined(bench.join(instance_id="one", version=8))
        assert (back.leader, back.skip_assignment, back.members) == (first, False, ())
        assert bench.leader == back.member_id


class TestTheFormerSelf:
    """Scenario 53: a static instance that was replaced is fenced."""

    def test_is_fenced_whatever_it_does(self, bench: Bench) -> None:
        _, second = form(bench)
        bench.join(instance_id="two")
        assert bench.heartbeat(second, 1, instance_id="two") is ErrorCode.FENCED_INSTANCE_ID
        assert bench.sync(second, 1, instance_id="two").error is ErrorCode.FENCED_INSTANCE_ID
        assert bench.join(second, instance_id="two").error is ErrorCode.FENCED_INSTANCE_ID
        assert bench.commit(1, second, "two") is ErrorCode.FENCED_INSTANCE_ID
        assert bench.leave((second, "two")).members[0].error is ErrorCode.FENCED_INSTANCE_ID
        assert bench.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID, "without its instance id it is nobody"

    def test_that_waits_for_a_rebalance_is_told_so(self, bench: Bench) -> None:
        first, second = form(bench)
        waits = bench.join(first, instance_id="one")
        back = bench.join(instance_id="one")
        assert waits.answer == JoinResult(ErrorCode.FENCED_INSTANCE_ID, first)
        bench.join(second, instance_id="two")
        assert joined(back).generation == 2

    def test_that_waits_for_its_assignment_is_told_so_and_a_rebalance_follows(self, bench: Bench) -> None:
        """The leader assigns to the former id, so the new one would get nothing."""
        joins = [bench.join(instance_id=name) for name in ("one", "two")]
        bench.pass_ms(6000)
        first, second = (joined(join).member_id for join in joins)
        waits = bench.sync(second, 1, instance_id="two")
        back = bench.join(instance_id="two")
        assert waits.error is ErrorCode.FENCED_INSTANCE_ID
        assert bench.sync(first, 1, {second: b"lost"}, instance_id="one").error is ErrorCode.REBALANCE_IN_PROGRESS
        bench.join(first, instance_id="one")
        assert joined(back).generation == 2

    def test_that_was_new_is_followed_by_a_member_that_waits_for_longer_than_its_session(self, bench: Bench) -> None:
        """Another member is slow to join again, and the client of the new one was started twice."""
        bench.form(1)
        bench.join(instance_id="two")
        back = bench.join(instance_id="two")
        for _ in range(3):
            bench.pass_ms(SESSION_MS - 1)
            bench.heartbeat(bench.leader, 1)
        bench.join(bench.leader)
        assert joined(back).generation == 2

    def test_that_waits_in_the_first_rebalance_does_not_end_it_early(self, bench: Bench) -> None:
        first = bench.join(instance_id="one")
        second = bench.join(instance_id="one")
        assert first.error is ErrorCode.FENCED_INSTANCE_ID
        assert second.answer is None
        bench.pass_ms(6000)
        assert len(joined(second).members) == 1
