"""The cooperative-sticky assignor: even, few partitions move, and each member goes on reading what it keeps.

A partition moves in two rounds. The law: it is assigned to no member in the round in which another member still has it;
that member gives it up, joins again, and in the next round it is free.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from semel.client.assignors.assignor import Assignment, RebalanceProtocol, Subscription, Subscriptions
from semel.client.assignors.ownership import Claim, owners_of
from semel.client.assignors.placement import place
from semel.client.assignors.sticky_user_data import decode_generation, encode_generation
from semel.types import TopicPartition


class CooperativeStickyAssignor:
    name: Final = "cooperative-sticky"
    protocols: Final = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation_id: int | None = None

    def subscription_user_data(self, topics: Collection[str]) -> bytes:
        return encode_generation(self._generation_id)

    def assign(self, partition_counts: Mapping[str, int], subscriptions: Subscriptions) -> dict[str, Assignment]:
        claims = {member_id: _claim(subscription) for member_id, subscription in subscriptions.items()}
        owners = owners_of(claims)
        placed = place(partition_counts, subscriptions, owners)
        claimed = {partition for partitions, _ in claims.values() for partition in partitions}

        def is_free_for(member_id: str, partition: TopicPartition) -> bool:
            return partition not in claimed or owners.get(partition) == member_id

        return {
            member_id: Assignment(tuple(partition for partition in partitions if is_free_for(member_id, partition)))
            for member_id, partitions in placed.items()
        }

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        self._generation_id = generation_id


def _claim(subscription: Subscription) -> Claim:
    generation_id = subscription.generation_id
    if generation_id is None:
        generation_id = decode_generation(subscription.user_data)
    return Claim(subscription.owned_partitions, generation_id)
