"""The sticky assignor: even, and as few partitions as possible move. Members still stop reading while they join."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from semel.client.assignors.assignor import Assignment, RebalanceProtocol, Subscriptions
from semel.client.assignors.ownership import owners_of
from semel.client.assignors.placement import place
from semel.client.assignors.sticky_user_data import decode_claim, encode_claim


class StickyAssignor:
    name: Final = "sticky"
    protocols: Final = (RebalanceProtocol.EAGER,)

    def __init__(self) -> None:
        self._user_data: bytes | None = None

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        return self._user_data

    def assign(self, partition_counts: Mapping[str, int], subscriptions: Subscriptions) -> dict[str, Assignment]:
        claims = {member_id: decode_claim(subscription.user_data) for member_id, subscription in subscriptions.items()}
        placed = place(partition_counts, subscriptions, owners_of(claims))
        return {member_id: Assignment(tuple(partitions)) for member_id, partitions in placed.items()}

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        self._user_data = encode_claim(assignment.partitions, generation_id)
