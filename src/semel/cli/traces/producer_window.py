"""``semel producer list --window``: the last batches of each producer of a partition, read from its log.

A partition recognises a batch that is sent again among the last five of its producer's epoch, and answers it with the
offset that it had. No request tells these five; the log does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from semel.cli.terminal.output import print_rows
from semel.inspection.log_reading import fetches
from semel.inspection.offsets import offsets_at
from semel.inspection.times import time_text
from semel.log.producers.known_producer import WINDOW
from semel.types import TopicPartition
from semel.wire.records import NO_SEQUENCE, iterate_headers

if TYPE_CHECKING:
    from semel.blocking import Admin

_COLUMNS: Final = ("partition", "producer_id", "epoch", "first_sequence", "last_sequence", "first_offset", "time")


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


def windows(admin: Admin, partitions: Iterable[tuple[str, int]], within: int) -> list[WindowBatch]:
    """Of the producers that the partitions remember now, oldest batch first."""
    described = admin.partitions.describe_producers(partitions).all()
    found: list[WindowBatch] = []
    for partition, states in described.items():
        epochs = {state.producer_id: state.producer_epoch for state in states}
        for window in _windows_of(admin, partition, epochs, within).values():
            found += window
    return found


def print_windows(found: list[WindowBatch], *, as_json: bool) -> None:
    print_rows([asdict(batch) for batch in found], _COLUMNS, as_json=as_json, empty="no batches with numbers")


def _windows_of(
    admin: Admin, partition: TopicPartition, epochs: dict[int, int], within: int
) -> dict[int, deque[WindowBatch]]:
    from semel.client.admin.partitions import OffsetSpec

    first = offsets_at(admin, [partition], OffsetSpec.EARLIEST)[partition]
    end = offsets_at(admin, [partition], OffsetSpec.LATEST)[partition]
    found: dict[int, deque[WindowBatch]] = {producer_id: deque(maxlen=WINDOW) for producer_id in sorted(epochs)}
    for _, raw in fetches(admin, partition, max(first, end - within), end=end):
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
