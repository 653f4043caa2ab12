"""The requests and results of offsets, as values.

A handler refuses with a code and raises nothing. ``None`` stands where Kafka's messages have -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from semel.coordinator.group.membership import Committer
from semel.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    """How far a group has read one partition, as OffsetCommit and TxnOffsetCommit say it."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int | None = None
    metadata: str | None = ""
    topic_id: UUID | None = None
    """The id that the topic has now, if the broker knows it. An offset with an id does not outlive its topic."""


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """OffsetCommit or TxnOffsetCommit of a group."""

    group_id: str
    committer: Committer
    offsets: Sequence[OffsetToCommit]
    api_version: int
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CommitResult:
    errors: tuple[ErrorCode, ...]
    """One for each offset of the request, in its order. A request refused as a whole has the same one everywhere."""


@dataclass(frozen=True, slots=True)
class PartitionToFetch:
    topic: str
    partition: int
    topic_id: UUID | None = None
    """If given, an offset that was committed for another topic of the same name counts as absent."""


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    topic: str
    partition: int
    offset: int | None = None
    """``None``: nothing is committed, or ``error`` says why it is not told."""
    leader_epoch: int | None = None
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class FetchResult:
    error: ErrorCode = ErrorCode.NONE
    """Of the group. Then there are no offsets."""
    offsets: tuple[FetchedOffset, ...] = ()
    """In the order of the request; of all partitions, sorted by topic and partition."""
    rest: tuple[tuple[str, int], ...] = ()
    """Topics and partitions of which the group has an offset too, where all were asked for and these are too many."""


@dataclass(frozen=True, slots=True)
class DeleteOffsetsResult:
    error: ErrorCode = ErrorCode.NONE
    """Of the group. Then there are no errors of partitions."""
    errors: tuple[ErrorCode, ...] = ()
    """One for each partition of the request, in its order."""


@dataclass(frozen=True, slots=True)
class DeleteGroupResult:
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Removed:
    """What a sweep, or the end of a topic, takes away."""

    offsets: int
    groups: int = 0


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction whose end decides about offsets of a group. Until then they are unstable."""

    producer_id: int
    producer_epoch: int
    partitions: tuple[tuple[str, int], ...]
    """Topic and partition, sorted."""
