"""The forms in which callers may give partitions, offsets and groups, and their conversion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from semel.client.arguments import as_offset, as_partition_index, as_topic
from semel.client.values import GroupMetadata, OffsetAndMetadata
from semel.types import TopicPartition

PartitionLike: TypeAlias = TopicPartition | tuple[str, int]
OffsetsLike: TypeAlias = (
    Mapping[PartitionLike, int | OffsetAndMetadata]
    | Mapping[TopicPartition, int]
    | Mapping[TopicPartition, OffsetAndMetadata]
)
GroupLike: TypeAlias = str | GroupMetadata


def as_partition(partition: PartitionLike) -> TopicPartition:
    if isinstance(partition, str) or len(partition) != 2:
        raise TypeError(f"a partition is a topic and a number, such as ('orders', 0), not {partition!r}")
    return TopicPartition(as_topic(partition[0]), as_partition_index(partition[1]))


def as_offsets(offsets: OffsetsLike) -> dict[TopicPartition, OffsetAndMetadata]:
    return {as_partition(partition): _as_committed(offset) for partition, offset in offsets.items()}


def as_group(group: GroupLike) -> GroupMetadata:
    return group if isinstance(group, GroupMetadata) else GroupMetadata(group)


def _as_committed(offset: int | OffsetAndMetadata) -> OffsetAndMetadata:
    if isinstance(offset, OffsetAndMetadata):
        as_offset(offset.offset)
        return offset
    return OffsetAndMetadata(as_offset(offset))
