"""The steps of a transaction, as values: what must be requested from a coordinator next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from semel.client.machine.connection.promise import Promise
from semel.client.machine.producer.sequences import Identity
from semel.client.values import GroupMetadata, OffsetAndMetadata
from semel.types import TopicPartition


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """Get a producer id and epoch. ``resume``: the current ones, whose epoch is bumped; ``None`` takes over the id."""

    resume: Identity | None


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Transactions V1: add partitions to the transaction, before they are written to."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class AddOffsets:
    """Transactions V1: add a group to the transaction, before offsets are committed for it."""

    group_id: str


@dataclass(slots=True, eq=False)
class CommitOffsets:
    """Offsets that become the group's if the transaction commits. ``remaining`` are those not yet accepted."""

    group: GroupMetadata
    remaining: dict[TopicPartition, OffsetAndMetadata]
    promise: Promise[None] = field(default_factory=Promise)


@dataclass(frozen=True, slots=True)
class EndTransaction:
    committed: bool


Step: TypeAlias = InitProducerId | AddPartitions | AddOffsets | CommitOffsets | EndTransaction
