"""Reads a partition from one offset to another, batch by batch, as it is in the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from semel.client.admin.batches import RawBatches
from semel.inspection.offsets import offsets_at
from semel.types import Buffer, TopicPartition
from semel.wire.records import BatchHeader, Record, iterate_headers, iterate_records

if TYPE_CHECKING:
    from semel.blocking import Admin


@dataclass(frozen=True, slots=True)
class RawBatch:
    header: BatchHeader
    buffer: Buffer
    position: int

    def records(self) -> Iterator[Record]:
        return iterate_records(self.buffer, self.position)


def fetches(
    admin: Admin, partition: TopicPartition, offset: int, *, end: int | None = None, stable_only: bool = False
) -> Iterator[tuple[int, RawBatches]]:
    """Yield the results of consecutive Fetch requests, each with its fetch offset, up to ``end`` or the present end."""
    while end is None or offset < end:
        raw = admin.partitions.read_batches(partition, offset, stable_only=stable_only)
        if end is None:
            end = raw.last_stable_offset if stable_only else raw.high_watermark
        yield offset, raw
        next_offset = offset
        for _, header in iterate_headers(raw.records, allow_partial_tail=True):
            next_offset = header.next_offset
        if next_offset <= offset:
            return  # There are no more records before the end: compaction has removed them.
        offset = next_offset


def batches(admin: Admin, partition: TopicPartition, *, offsets_max: int | None = None) -> Iterator[RawBatch]:
    """Yield every batch of a partition, from its first record to its present end; with ``offsets_max`` only those of
    its last offsets."""
    from semel.client.admin.partitions import OffsetSpec

    start = offsets_at(admin, [partition], OffsetSpec.EARLIEST).get(partition, 0)
    end = None
    if offsets_max is not None:
        end = offsets_at(admin, [partition], OffsetSpec.LATEST).get(partition, start)
        start = max(start, end - offsets_max)
    for _, raw in fetches(admin, partition, start, end=end):
        for position, header in iterate_headers(raw.records, allow_partial_tail=True):
            yield RawBatch(header, raw.records, position)
