"""A group tells what has changed as values, and none of its parts holds the consumer's machine, or the group."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest

from semel.client.machine.group.group import Group
from semel.client.machine.group.reassignment import Announced, Assigned, Change, Reassignment, Withdrawn
from semel.types import TopicPartition
from tests.unit.client.machine.group.model_group import Member

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def reachable(start: object) -> Iterator[object]:
    """Everything that an object holds, directly or not; of functions, what they enclose."""
    seen, waiting = {id(start)}, [start]
    while waiting:
        held = waiting.pop()
        yield held
        if isinstance(held, FunctionType):
            referents: Any = held.__closure__ or ()
        else:
            referents = gc.get_referents(held)
        for referent in referents:
            if id(referent) not in seen and not isinstance(referent, type | ModuleType):
                seen.add(id(referent))
                waiting.append(referent)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_no_part_of_a_group_holds_the_group_or_the_consumers_machine(protocol: str) -> None:
    machine = Member(group_protocol=protocol).machine
    group = machine.group
    assert isinstance(group, Group)
    assert any(held is group for held in reachable(machine)), "the search finds what is held"
    for name, part in vars(group).items():
        found = [held for held in reachable(part) if held is machine or held is group]
        assert not found, f"{name} holds {found}"


def no_commit(now_ms: float) -> None:
    return None


def test_partitions_are_assigned_when_the_listener_is_about_to_be_told_and_announced_afterwards() -> None:
    reassignment = Reassignment(commit_timeout_ms=1_000)
    reassignment.take_over([SECOND, FIRST], done=lambda now_ms: None)
    reassignment.go_on(0.0, no_commit)
    assert reassignment.take_changes() == []
    callback = reassignment.due()
    assert callback is not None
    assert reassignment.take_changes() == [Assigned((FIRST, SECOND))]
    reassignment.callback_done(callback, 0.0)
    assert reassignment.take_changes() == [Announced((FIRST, SECOND))]
    assert reassignment.take_changes() == [], "each change is told once"


def test_partitions_that_are_given_up_are_withdrawn_after_the_listener_was_told_and_before_the_group_hears() -> None:
    reassignment = owning(FIRST, SECOND)
    heard: list[object] = []
    reassignment.give_up([FIRST], done=lambda now_ms: heard.append(reassignment.owned))
    reassignment.go_on(0.0, no_commit)
    callback = reassignment.due()
    assert callback is not None
    assert (callback.change, reassignment.take_changes()) == (Change.REVOKED, [])
    reassignment.callback_done(callback, 0.0)
    assert reassignment.take_changes() == [Withdrawn((FIRST,))]
    assert heard == [(SECOND,)]


def test_partitions_that_are_lost_are_withdrawn_at_once() -> None:
    reassignment = owning(FIRST, SECOND)
    reassignment.lose()
    assert reassignment.take_changes() == [Withdrawn((FIRST, SECOND))]
    callback = reassignment.due()
    assert callback is not None
    reassignment.callback_done(callback, 0.0)
    assert (callback.change, reassignment.take_changes()) == (Change.LOST, [])


def owning(*partitions: TopicPartition) -> Reassignment:
    reassignment = Reassignment(commit_timeout_ms=1_000)
    reassignment.take_over(partitions, done=lambda now_ms: None)
    reassignment.go_on(0.0, no_commit)
    callback = reassignment.due()
    assert callback is not None
    reassignment.callback_done(callback, 0.0)
    reassignment.take_changes()
    return reassignment
