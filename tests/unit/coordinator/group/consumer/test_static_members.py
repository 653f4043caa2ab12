"""Static members: an instance id outlives the member id, and whoever leaves for a while finds its partitions again."""

from __future__ import annotations

from typing import Any

import pytest

from semel.coordinator.group.consumer.requests import ConsumerHeartbeatResult
from semel.errors import ErrorCode
from tests.unit.coordinator.group.consumer.simulated_group import Coordinator, Member, settle

SESSION_TIMEOUT_MS = 45_000


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def static(coordinator: Coordinator, member_id: str, **fields: Any) -> Member:
    return Member(coordinator, member_id, instance_id="one", **fields)


def test_a_static_member_that_comes_back_under_a_new_id_gets_what_it_had_and_nobody_else_notices(
    coordinator: Coordinator,
) -> None:
    first, other = static(coordinator, "first"), Member(coordinator, "other")
    settle(first, other)
    owned, epoch = first.owned, coordinator.group.epoch

    assert first.leave(-2) == ConsumerHeartbeatResult("first", -2)
    assert other.beat().assigned is None
    second = static(coordinator, "second")
    back = second.beat()

    assert (back.member_epoch, back.assigned) == (epoch, owned)
    assert (coordinator.group.epoch, set(coordinator.group.members)) == (epoch, {"second", "other"})
    coordinator.pass_time(SESSION_TIMEOUT_MS - 1)
    assert set(coordinator.group.members) == {"second", "other"}, "no deadline of the first one is left"


def test_a_static_member_that_stays_away_is_removed_after_the_session_timeout(coordinator: Coordinator) -> None:
    first, other = static(coordinator, "first"), Member(coordinator, "other")
    settle(first, other)
    first.leave(-2)

    coordinator.pass_time(SESSION_TIMEOUT_MS - 1)
    other.beat()
    coordinator.pass_time(1)
    other.beat()

    assert other.owned == coordinator.topics.partitions()


def test_an_instance_id_in_use_is_not_given_away(coordinator: Coordinator) -> None:
    settle(static(coordinator, "first"))

    result = static(coordinator, "second").beat()

    assert result.error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert result.message is not None
    assert "first" in result.message


def test_the_one_that_was_replaced_is_fenced(coordinator: Coordinator) -> None:
    first = static(coordinator, "first")
    settle(first)
    epoch = first.epoch
    first.leave(-2)
    settle(static(coordinator, "second"))

    first.epoch = epoch
    assert first.beat().error is ErrorCode.FENCED_INSTANCE_ID
    assert first.leave().error is ErrorCode.FENCED_INSTANCE_ID
    assert first.leave(-2).error is ErrorCode.FENCED_INSTANCE_ID


def test_while_it_is_away_it_is_fenced_until_it_joins(coordinator: Coordinator) -> None:
    first = static(coordinator, "first")
    settle(first)
    owned, epoch = first.owned, first.epoch
    first.leave(-2)

    first.epoch = epoch
    assert first.beat().error is ErrorCode.FENCED_MEMBER_EPOCH
    assert first.beat().assigned == owned


def test_an_unknown_instance_is_an_unknown_member(coordinator: Coordinator) -> None:
    settle(Member(coordinator, "other"))

    assert static(coordinator, "first", epoch=1).beat().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert static(coordinator, "first", epoch=1).leave(-2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_what_it_was_about_to_give_up_is_free_when_it_leaves_for_a_while(coordinator: Coordinator) -> None:
    first, other = static(coordinator, "first", hesitates=True), Member(coordinator, "other")
    first.beat()
    other.beat()
    first.beat()
    first.leave(-2)

    other.beat()

    assert len(other.owned) == 6
    coordinator.pass_time(SESSION_TIMEOUT_MS - 1)
    assert "first" in coordinator.group.members, "it owes no revocation any more"


def test_coming_back_with_another_subscription_raises_the_epoch(coordinator: Coordinator) -> None:
    first = static(coordinator, "first")
    settle(first)
    epoch = coordinator.group.epoch
    first.leave(-2)

    static(coordinator, "second", topics=("payments",)).beat()

    assert coordinator.group.epoch == epoch + 1
