"""The interface of an assignor, which decides in a classic group which member reads which partitions.

Every member offers assignors, the coordinator picks one that all of them offer, and the member that it made the leader
runs it. The law for ``assign``: every partition of a subscribed topic goes to one member that subscribes to it. (A
cooperative assignor may hold a partition back for one round.) An application's own assignor is any object with these
attributes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeAlias

from semel.types import Buffer, TopicPartition
from semel.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    flattened,
    grouped,
)


class RebalanceProtocol(IntEnum):
    """What members do with their partitions while they join: give up all (eager), or keep them (cooperative)."""

    EAGER = 0
    COOPERATIVE = 1


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member tells the leader of the group when it joins."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int | None = None
    """The generation that ``owned_partitions`` were assigned in."""

    rack_id: str | None = None
    group_instance_id: str | None = None
    """Not among the bytes: JoinGroup has a field for it."""

    @classmethod
    def from_bytes(cls, metadata: Buffer, group_instance_id: str | None = None) -> Subscription:
        """Return the subscription in these bytes. Raises ``DecodeError``."""
        read = decode_subscription(metadata)
        return cls(
            tuple(read.topics),
            read.user_data,
            tuple(flattened(read.owned_partitions)),
            read.generation_id,
            read.rack_id,
            group_instance_id,
        )

    def to_bytes(self) -> bytes:
        owned = grouped(self.owned_partitions)
        return encode_subscription(
            ConsumerProtocolSubscription(sorted(self.topics), self.user_data, owned, self.generation_id, self.rack_id)
        )


Subscriptions: TypeAlias = Mapping[str, Subscription]
"""The subscriptions of all members, by member id."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions that one member is to read."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None

    @classmethod
    def from_bytes(cls, assignment: Buffer) -> Assignment:
        """Return the assignment in these bytes. Raises ``DecodeError``."""
        read = decode_assignment(assignment)
        return cls(tuple(flattened(read.assigned_partitions)), read.user_data)

    def to_bytes(self) -> bytes:
        return encode_assignment(ConsumerProtocolAssignment(grouped(self.partitions), self.user_data))


class Assignor(Protocol):
    @property
    def name(self) -> str:
        """The name that the members of a group agree on."""
        ...

    @property
    def protocols(self) -> Collection[RebalanceProtocol]:
        """The rebalance protocols that it can be used with."""
        ...

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return what this member sends to the leader's assignor, besides the topics that it subscribes to."""
        ...

    def assign(self, partition_counts: Mapping[str, int], subscriptions: Subscriptions) -> Mapping[str, Assignment]:
        """Return the assignments of all members, by id. A topic that is not in ``partition_counts`` does not exist."""
        ...

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Receive the assignment of this member."""
        ...


def in_order(subscriptions: Subscriptions) -> list[str]:
    """Return the members in Kafka's order: static ones by instance id, which outlives a restart, then the others."""

    def rank(member_id: str) -> tuple[bool, str, str]:
        instance_id = subscriptions[member_id].group_instance_id
        return (instance_id is None, instance_id or "", member_id)

    return sorted(subscriptions, key=rank)
