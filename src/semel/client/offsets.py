"""What callers may write for headers, offsets and groups, and what it means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from semel.client.values import GroupMetadata, OffsetAndMetadata
from semel.types import TopicPartition
from semel.wire.records import Headers

HeadersLike: TypeAlias = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]
PartitionLike: TypeAlias = TopicPartition | tuple[str, int]
OffsetsLike: TypeAlias = (
    Mapping[PartitionLike, int | OffsetAndMetadata]
    | Mapping[TopicPartition, int]
    | Mapping[TopicPartition, OffsetAndMetadata]
)
GroupLike: TypeAlias = str | GroupMetadata


def as_headers(headers: HeadersLike) -> Headers:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple(
        (name, text if text is None or type(text) is bytes else bytes(memoryview(text))) for name, text in pairs
    )


def as_partition(partition: PartitionLike) -> TopicPartition:
    topic, index = partition
    return TopicPartition(topic, index)


def as_offsets(offsets: OffsetsLike) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        as_partition(partition): offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        for partition, offset in offsets.items()
    }


def as_group(group: GroupLike) -> GroupMetadata:
    return group if isinstance(group, GroupMetadata) else GroupMetadata(group)
