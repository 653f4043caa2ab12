"""What an assignor is: who decides, in a group of the classic protocol, which member reads which partitions.

Every member offers assignors, the coordinator picks one that all of them offer, and the member that it made the leader
runs it. The law for ``assign``: every partition of a subscribed topic goes to one member that
subscribes to it. (A cooperative assignor may hold a partition back for one round.) An assignor of an application's own
is any object with these attributes.
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
    """What members do with their partitions while they join: give all of them up, or keep them until told otherwise."""

    EAGER = 0
    COOPERATIVE = 1


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member says of itself."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int | None = None
    """The generation that ``owned_partitions`` were assigned in."""

    rack_id: str | None = None
    group_instance_id: str | None = None
    """Not among the bytes: JoinGroup says it beside them."""

    @classmethod
    def from_bytes(cls, metadata: Buffer, group_instance_id: str | None = None) -> Subscription:
        """Raises ``DecodeError``."""
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
"""By member id."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one member is to read."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None

    @classmethod
    def from_bytes(cls, assignment: Buffer) -> Assignment:
        """Raises ``DecodeError``."""
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
        """Those that it can be used with."""
        ...

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """What this member tells the assignor of the leader, beyond the topics it subscribes to."""
        ...

    def assign(self, partition_counts: Mapping[str, int], subscriptions: Subscriptions) -> Mapping[str, Assignment]:
        """Decide for all members, by their ids. A topic that is not in ``partition_counts`` does not exist."""
        ...

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """This member was assigned this."""
        ...


def in_order(subscriptions: Subscriptions) -> list[str]:
    """Members in Kafka's order: static ones by their instance ids, which outlive a restart, then the others by ids."""

    def rank(member_id: str) -> tuple[bool, str, str]:
        instance_id = subscriptions[member_id].group_instance_id
        return (instance_id is None, instance_id or "", member_id)

    return sorted(subscriptions, key=rank)
