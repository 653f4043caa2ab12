"""The cost of the ``uniform`` assignor. Its laws are in tests/properties/coordinator/test_assignors.py."""

from __future__ import annotations

from uuid import UUID

from semel.coordinator.group.consumer.assignor import Subscriber
from semel.coordinator.group.consumer.uniform_assignor import assign_uniform
from tests.unit.coordinator.group.counted_calls import calls

TOPICS = [UUID(int=number) for number in range(1, 11)]


def cost_of_an_assignment(members: int) -> int:
    """Of all partitions to members of which every second one subscribes to half of the topics."""
    subscribers = {
        f"member-{number}": Subscriber(topics=frozenset(TOPICS[: 5 + 5 * (number % 2)])) for number in range(members)
    }
    counts = dict.fromkeys(TOPICS, 20)
    return calls(lambda: assign_uniform(subscribers, counts))


def test_members_that_cannot_give_anything_away_are_found_together() -> None:
    """Not one after the other, each among all the others: an assignment to 1,000 members took more than a second."""
    assert cost_of_an_assignment(200) < 5 * cost_of_an_assignment(50)
