"""Settings of one group take effect on its members, from their next heartbeat on, and on no other group."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.coordinator.group.consumer.simulated_group import GROUP, Coordinator, members_of, settle

SHORT_MS = 10_000


def with_short_sessions() -> Coordinator:
    coordinator = Coordinator()
    coordinator.overridden[GROUP] = replace(coordinator.settings.consumer, session_timeout_ms=SHORT_MS)
    return coordinator


def test_a_member_is_out_after_the_session_timeout_of_its_group() -> None:
    coordinator = with_short_sessions()
    settle(*members_of(coordinator, 1))
    coordinator.pass_time(SHORT_MS - 1)
    assert list(coordinator.group.members) == ["member-0"]
    coordinator.pass_time(1)
    assert coordinator.group.members == {}


def test_a_timeout_that_is_set_later_counts_from_the_next_heartbeat_on() -> None:
    coordinator = Coordinator()
    (member,) = members_of(coordinator, 1)
    settle(member)
    coordinator.overridden[GROUP] = replace(coordinator.settings.consumer, session_timeout_ms=SHORT_MS)
    coordinator.pass_time(SHORT_MS + 1)
    assert list(coordinator.group.members) == ["member-0"]
    member.beat()
    coordinator.pass_time(SHORT_MS)
    assert coordinator.group.members == {}


def test_the_sessions_after_a_restart_have_the_timeout_of_their_group() -> None:
    coordinator = with_short_sessions()
    settle(*members_of(coordinator, 1))
    coordinator.restart()
    coordinator.pass_time(SHORT_MS)
    assert coordinator.group.members == {}


def test_another_group_keeps_the_brokers_settings() -> None:
    coordinator = Coordinator()
    coordinator.overridden["another"] = replace(coordinator.settings.consumer, session_timeout_ms=SHORT_MS)
    settle(*members_of(coordinator, 1))
    coordinator.pass_time(SHORT_MS)
    assert list(coordinator.group.members) == ["member-0"]
