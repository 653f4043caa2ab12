"""The last batches of each producer of a partition, read from its log.

A partition recognises a batch that is sent again if it is one of the last five of its producer's epoch, and answers
with the offset that the batch has. No request returns these five, so they are read from the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from semel.inspection.log_reading import fetches
from semel.inspection.offsets import offsets_at
from semel.inspection.times import time_text
from semel.types import TopicPartition
from semel.wire.records import NO_SEQUENCE, iterate_headers

if TYPE_CHECKING:
    from semel.blocking import Admin

WINDOW: Final = 5
"""The number of batches of a producer that a partition remembers, in Semel (``KnownProducer``) and in Apache Kafka."""


@dataclass(frozen=True, slots=True)
class WindowBatch:
    """One of the last batches of a producer."""

    partition: str
    producer_id: int
    epoch: int
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    time: str | None


class TooMuchToRead(Exception):
    """The last offsets of the partition take more bytes than the caller wanted to read."""


def windows(admin: Admin, partitions: Iterable[tuple[str, int]], within: int) -> list[WindowBatch]:
    """Return the last batches of the producers that the partitions remember now, the oldest batch of a producer first.

    ``within`` is the number of offsets at the end of each partition that are read.
    """
    described = admin.partitions.describe_producers(partitions).all()
    found: list[WindowBatch] = []
    for partition, states in described.items():
        epochs = {state.producer_id: state.producer_epoch for state in states}
        for window in windows_of(admin, partition, epochs, within).values():
            found += window
    return found


def windows_of(
    admin: Admin, partition: TopicPartition, epochs: Mapping[int, int], within: int, bytes_max: int | None = None
) -> dict[int, deque[WindowBatch]]:
    """Return the last batches of each producer, by producer id, from the last ``within`` offsets of the partition.

    Only batches with the epoch of ``epochs`` count. Raises ``TooMuchToRead``.
    """
    from semel.client.admin.partitions import OffsetSpec

    first = offsets_at(admin, [partition], OffsetSpec.EARLIEST)[partition]
    end = offsets_at(admin, [partition], OffsetSpec.LATEST)[partition]
    found: dict[int, deque[WindowBatch]] = {producer_id: deque(maxlen=WINDOW) for producer_id in sorted(epochs)}
    read = 0
    for _, raw in fetches(admin, partition, max(first, end - within), end=end):
        read += len(raw.records)
        if bytes_max is not None and read > bytes_max:
            raise TooMuchToRead(f"the last {within} offsets of {partition.topic}:{partition.partition}")
        for _, header in iterate_headers(raw.records, allow_partial_tail=True):
            if header.base_sequence == NO_SEQUENCE or epochs.get(header.producer_id) != header.producer_epoch:
                continue
            found[header.producer_id].append(
                WindowBatch(
                    f"{partition.topic}:{partition.partition}",
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.last_sequence,
                    header.base_offset,
                    header.last_offset,
                    time_text(header.max_timestamp),
                )
            )
    return found
