"""The micro-batches of a Spark pipeline, as any client can read them: a note beside each committed offset, and one
transaction for each attempt at a micro-batch.

The notes are in the group's offsets, the transactions in the logs. From these a client with read access knows how far a
pipeline is, and how each of its last attempts ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from semel.coordinator.group import records as group_records
from semel.coordinator.group.records import OffsetCommit
from semel.coordinator.partitioning import partition_for
from semel.errors import DecodeError
from semel.inspection.log_reading import batches
from semel.inspection.pipeline_note import Note
from semel.types import CONSUMER_OFFSETS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from semel.blocking import Admin


@dataclass(frozen=True, slots=True)
class NotedOffset:
    """An offset commit with a note, in the log of the group's coordinator. Its transaction may be committed or not."""

    log_offset: int
    producer_id: int
    partition: TopicPartition
    offset: int
    note: Note


@dataclass(frozen=True, slots=True)
class NotedOffsets:
    coordinator_partition: TopicPartition
    """The partition of ``__consumer_offsets`` that has the group's offsets."""
    found: tuple[NotedOffset, ...]

    def within(self, producer_id: int, first: int, last: int) -> tuple[NotedOffset, ...]:
        """Return the offsets that one transaction has written: those of a producer id in a range of log offsets."""
        return tuple(one for one in self.found if one.producer_id == producer_id and first <= one.log_offset <= last)


def noted_offsets(admin: Admin, group_id: str, *, offsets_max: int | None = None) -> NotedOffsets:
    """Read the offset commits of a group that have a note. ``offsets_max`` limits the reading to the last offsets of
    the partition."""
    partitions = len(admin.topics.describe(CONSUMER_OFFSETS_TOPIC).partitions)
    coordinator_partition = TopicPartition(CONSUMER_OFFSETS_TOPIC, partition_for(group_id, partitions))
    found: list[NotedOffset] = []
    for batch in batches(admin, coordinator_partition, offsets_max=offsets_max):
        if batch.header.is_control or not batch.header.is_transactional:
            continue
        for record in batch.records():
            commit = _commit(record.key, record.value)
            if commit is None or commit.key.group_id != group_id:
                continue
            note = Note.parse(commit.metadata)
            if note is not None:
                partition = TopicPartition(commit.key.topic, commit.key.partition)
                found.append(NotedOffset(record.offset, batch.header.producer_id, partition, commit.offset, note))
    return NotedOffsets(coordinator_partition, tuple(found))


def _commit(key: bytes | None, value: bytes | None) -> OffsetCommit | None:
    try:
        record = group_records.decode(key, value)
    except DecodeError:
        return None
    return record if isinstance(record, OffsetCommit) else None
