"""The requests and results of offsets, as values.

A handler refuses with an error code and raises nothing. ``None`` represents the -1 of Kafka's messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from semel.coordinator.group.membership import Committer
from semel.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    """The offset of one partition in an OffsetCommit or TxnOffsetCommit request."""

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
    """One for each offset of the request, in its order. If the whole request is refused, all are the same."""


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
    """``None`` if no offset is committed for the partition, or if ``error`` is set."""
    leader_epoch: int | None = None
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class FetchResult:
    error: ErrorCode = ErrorCode.NONE
    """The error of the whole request. If it is set, there are no offsets."""
    offsets: tuple[FetchedOffset, ...] = ()
    """In the order of the request; sorted by topic and partition if all partitions were requested."""
    rest: tuple[tuple[str, int], ...] = ()
    """Further topics and partitions with an offset, if all were requested and there are more than ``at_most``."""


@dataclass(frozen=True, slots=True)
class DeleteOffsetsResult:
    error: ErrorCode = ErrorCode.NONE
    """The error of the whole request. If it is set, there are no errors of partitions."""
    errors: tuple[ErrorCode, ...] = ()
    """One for each partition of the request, in its order."""


@dataclass(frozen=True, slots=True)
class DeleteGroupResult:
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Removed:
    """How many offsets and groups a decision removes because they expired or because a topic was deleted."""

    offsets: int
    groups: int = 0


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction with pending offsets of a group. They are unstable until it ends."""

    producer_id: int
    producer_epoch: int
    partitions: tuple[tuple[str, int], ...]
    """The topics and partitions with a pending offset, sorted."""
