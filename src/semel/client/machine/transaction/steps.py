"""What a transaction has to ask for next, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from semel.client.machine.connection.promise import Promise
from semel.client.machine.producer.sequences import Identity
from semel.client.values import GroupMetadata, OffsetAndMetadata
from semel.types import TopicPartition


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """A producer id and epoch; ``resume`` is what we had, if this is to bump it and not to take over."""

    resume: Identity | None


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """V1: announce partitions before they are written to."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class AddOffsets:
    """V1: announce that offsets of a group will be committed."""

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
