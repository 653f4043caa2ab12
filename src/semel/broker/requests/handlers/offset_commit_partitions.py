"""The partitions of an OffsetCommit or TxnOffsetCommit: the offsets that can be committed, and their responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from semel.coordinator.group.offsets.offset_results import CommitResult, OffsetToCommit
from semel.errors import ErrorCode
from semel.metadata.image import Topic
from semel.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitResponsePartition
from semel.wire.messages.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitResponsePartition

RequestPartition: TypeAlias = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
ResponsePartition: TypeAlias = OffsetCommitResponsePartition | TxnOffsetCommitResponsePartition


@dataclass(slots=True)
class OffsetCommitPartitions:
    """The offsets of partitions that exist, and the part of the response for each of them."""

    offsets: list[OffsetToCommit] = field(default_factory=list)
    responses: list[ResponsePartition] = field(default_factory=list)

    def add(
        self,
        topic: Topic | None,
        partitions: Sequence[RequestPartition],
        responses: Sequence[ResponsePartition],
        *,
        unknown: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ) -> None:
        """Add one topic of the request. Partitions that it does not have get the error ``unknown`` at once."""
        for partition, response in zip(partitions, responses, strict=True):
            if topic is None or not 0 <= partition.partition_index < len(topic.partitions):
                response.error_code = unknown
            else:
                self.offsets.append(_offset(topic, partition))
                self.responses.append(response)

    def refused(self, error: ErrorCode) -> CommitResult:
        """Return the result if the coordinator refuses the request as a whole."""
        return CommitResult((error,) * len(self.offsets))

    def answer(self, errors: Iterable[ErrorCode]) -> None:
        for response, error in zip(self.responses, errors, strict=True):
            response.error_code = error


def generation_of(number: int | None) -> int | None:
    """Return the generation of a member, or None if the request has none: a negative number means none, too."""
    return None if number is None or number < 0 else number


def _offset(topic: Topic, partition: RequestPartition) -> OffsetToCommit:
    return OffsetToCommit(
        topic.name,
        partition.partition_index,
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata,
        topic.id,
    )
