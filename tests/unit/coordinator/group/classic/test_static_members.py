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
from tests.unit.coordinator.group.classic.scene import (
    REBALANCE_MS,
    SESSION_MS,
    Scene,
    joined,
    offers,
    synced,
)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def cooperative(*, owned: Sequence[TopicPartition]) -> tuple[OfferedProtocol, ...]:
    subscription = ConsumerProtocolSubscription(topics=["orders"], owned_partitions=grouped(owned))
    return (OfferedProtocol("cooperative-sticky", encode_subscription(subscription)),)


def form(scene: Scene) -> tuple[str, str]:
    """A stable group of the static members ``one``, who leads, and ``two``. Returns their member ids."""
    joins = [scene.join(instance_id=name) for name in ("one", "two")]
    scene.pass_ms(6000)
    ids = {joined(join).member_id: name for join, name in zip(joins, ("one", "two"), strict=True)}
    scene.settle(list(ids), instances=ids)
    first, second = ids
    return first, second


class TestAStaticMember:
    def test_needs_no_second_request_for_its_id(self, scene: Scene) -> None:
        join = scene.join(instance_id="one")
        scene.pass_ms(3000)
        assert joined(join).member_id == "one-00000000-0000-0000-0000-000000000001"

    def test_comes_back_to_its_assignment_without_a_rebalance(self, scene: Scene) -> None:
        first, second = form(scene)
        back = joined(scene.join(instance_id="two"))
        assert back.member_id != second
        assert (back.generation, back.leader, back.skip_assignment) == (1, first, False)
        assert scene.state == "Stable"
        assert synced(scene.sync(back.member_id, 1, instance_id="two")).assignment == second.encode()
        assert scene.heartbeat(first, 1) is ErrorCode.NONE, "the other one did not notice"

    def test_that_came_back_is_remembered_over_a_restart(self, scene: Scene) -> None:
        form(scene)
        back = joined(scene.join(instance_id="two")).member_id
        scene.restart()
        assert scene.heartbeat(back, 1, instance_id="two") is ErrorCode.NONE

    def test_that_came_back_and_could_not_be_written_down_did_not_come_back(self, scene: Scene) -> None:
        _, second = form(scene)
        scene.disk_is_full = True
        assert scene.join(instance_id="two").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert scene.heartbeat(second, 1, instance_id="two") is ErrorCode.NONE

    def test_that_comes_back_with_other_topics_starts_a_rebalance(self, scene: Scene) -> None:
        form(scene)
        scene.join(instance_id="two", protocols=offers("range", topics=["refunds"]))
        assert scene.state == "PreparingRebalance"

    def test_that_comes_back_while_partitions_change_hands_starts_the_rebalance_that_is_due(self, scene: Scene) -> None:
        """Cooperative: ``one`` gives up what ``two`` gets when they join once more. With both of them, that is lost."""
        orders = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
        joins = [
            scene.join(instance_id="one", protocols=cooperative(owned=orders)),
            scene.join(instance_id="two", protocols=cooperative(owned=[])),
        ]
        scene.pass_ms(6000)
        first, _ = (joined(join).member_id for join in joins)
        kept = encode_assignment(ConsumerProtocolAssignment(grouped(orders[:1])))
        scene.sync(first, 1, {first: kept}, instance_id="one")
        scene.restart()
        scene.join(instance_id="two", protocols=cooperative(owned=[]))
        assert scene.state == "PreparingRebalance"

    def test_that_comes_back_with_another_protocol_starts_a_rebalance(self, scene: Scene) -> None:
        join = scene.join(instance_id="one", protocols=offers("range", "sticky"))
        scene.pass_ms(3000)
        scene.settle([joined(join).member_id])
        back = scene.join(instance_id="one", protocols=offers("sticky", "range"))
        assert (joined(back).generation, joined(back).protocol) == (2, "sticky")

    def test_whose_protocol_is_not_consumer_comes_back_with_whatever_it_says(self, scene: Scene) -> None:
        protocols = offers("default")
        join = scene.join(instance_id="one", protocol_type="connect", protocols=protocols)
        scene.pass_ms(3000)
        scene.settle([joined(join).member_id])
        other = (protocols[0]._replace(metadata=b"other"),)
        assert joined(scene.join(instance_id="one", protocol_type="connect", protocols=other)).generation == 1

    def test_whose_session_ends_while_it_is_away_is_out(self, scene: Scene) -> None:
        first, _ = form(scene)
        scene.pass_ms(SESSION_MS - 1)
        scene.heartbeat(first, 1)
        scene.pass_ms(1)
        assert list(scene.group.members) == [first]

    def test_stays_in_a_rebalance_it_did_not_come_to(self, scene: Scene) -> None:
        first, second = form(scene)
        join = scene.join(first, instance_id="one")
        for _ in range(REBALANCE_MS // 5000):
            scene.heartbeat(second, 1, instance_id="two")
            scene.pass_ms(5000)
        assert [member.member_id for member in joined(join).members] == [first, second]

    def test_of_whom_nobody_came_to_a_rebalance_leaves_it_waiting_for_sessions(self, scene: Scene) -> None:
        first, second = form(scene)
        scene.leave(first)
        for _ in range(2 * REBALANCE_MS // 5000):
            assert scene.heartbeat(second, 1, instance_id="two") is ErrorCode.REBALANCE_IN_PROGRESS
            scene.pass_ms(5000)
        assert joined(scene.join(second, instance_id="two")).generation == 2

    def test_is_not_taken_for_the_dynamic_member_whose_id_it_names(self, scene: Scene) -> None:
        (dynamic,) = scene.form(1)
        assert scene.join(dynamic, instance_id="one").error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_that_came_back_owes_the_sync_that_its_former_self_owed(self, scene: Scene) -> None:
        joins = [scene.join(instance_id=name) for name in ("one", "two")]
        scene.pass_ms(6000)
        first, second = (joined(join).member_id for join in joins)
        scene.sync(first, 1, {second: b"b"}, instance_id="one")
        back = joined(scene.join(instance_id="two")).member_id
        for _ in range(REBALANCE_MS // 5000):
            scene.pass_ms(5000)
            scene.heartbeat(first, 1, instance_id="one")
            scene.heartbeat(back, 1, instance_id="two")
        assert list(scene.group.members) == [first]


class TestTheLeader:
    def test_that_comes_back_is_told_to_skip_the_assignment(self, scene: Scene) -> None:
        form(scene)
        back = joined(scene.join(instance_id="one"))
        assert (back.leader, back.skip_assignment, len(back.members)) == (back.member_id, True, 2)

    def test_that_comes_back_before_version_9_is_not_told_that_it_leads(self, scene: Scene) -> None:
        first, _ = form(scene)
        back = joined(scene.join(instance_id="one", version=8))
        assert (back.leader, back.skip_assignment, back.members) == (first, False, ())
        assert scene.leader == back.member_id


class TestTheFormerSelf:
    """Scenario 53: a static instance that was replaced is fenced."""

    def test_is_fenced_whatever_it_does(self, scene: Scene) -> None:
        _, second = form(scene)
        scene.join(instance_id="two")
        assert scene.heartbeat(second, 1, instance_id="two") is ErrorCode.FENCED_INSTANCE_ID
        assert scene.sync(second, 1, instance_id="two").error is ErrorCode.FENCED_INSTANCE_ID
        assert scene.join(second, instance_id="two").error is ErrorCode.FENCED_INSTANCE_ID
        assert scene.commit(1, second, "two") is ErrorCode.FENCED_INSTANCE_ID
        assert scene.leave((second, "two")).members[0].error is ErrorCode.FENCED_INSTANCE_ID
        assert scene.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID, "without its instance id it is nobody"

    def test_that_waits_for_a_rebalance_is_told_so(self, scene: Scene) -> None:
        first, second = form(scene)
        waits = scene.join(first, instance_id="one")
        back = scene.join(instance_id="one")
        assert waits.answer == JoinResult(ErrorCode.FENCED_INSTANCE_ID, first)
        scene.join(second, instance_id="two")
        assert joined(back).generation == 2

    def test_that_waits_for_its_assignment_is_told_so_and_a_rebalance_follows(self, scene: Scene) -> None:
        """The leader assigns to the former id, so the new one would get nothing."""
        joins = [scene.join(instance_id=name) for name in ("one", "two")]
        scene.pass_ms(6000)
        first, second = (joined(join).member_id for join in joins)
        waits = scene.sync(second, 1, instance_id="two")
        back = scene.join(instance_id="two")
        assert waits.error is ErrorCode.FENCED_INSTANCE_ID
        assert scene.sync(first, 1, {second: b"lost"}, instance_id="one").error is ErrorCode.REBALANCE_IN_PROGRESS
        scene.join(first, instance_id="one")
        assert joined(back).generation == 2

    def test_that_waits_in_the_first_rebalance_does_not_end_it_early(self, scene: Scene) -> None:
        first = scene.join(instance_id="one")
        second = scene.join(instance_id="one")
        assert first.error is ErrorCode.FENCED_INSTANCE_ID
        assert second.answer is None
        scene.pass_ms(6000)
        assert len(joined(second).members) == 1
