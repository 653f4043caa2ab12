"""The lag of a group: how many records a read_committed consumer still has to read.

The difference of two offsets is not the lag, because markers and aborted records have offsets too, and consumers do not
get them. So the headers of the batches in between are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from semel.client.machine.consumer.fetched import visible_batches
from semel.inspection.log_reading import fetches
from semel.wire.messages.fetch import AbortedTransaction
from semel.wire.records import iterate_headers

if TYPE_CHECKING:
    from semel.blocking import Admin
    from semel.types import TopicPartition


def readable_after(admin: Admin, partition: TopicPartition, offset: int) -> int:
    """Return how many records a read_committed consumer would get from ``offset`` up to the last stable offset."""
    count = 0
    for asked, raw in fetches(admin, partition, offset, stable_only=True):
        headers = list(iterate_headers(raw.records, allow_partial_tail=True))
        aborted = [AbortedTransaction(*transaction) for transaction in raw.aborted]
        for _, header in visible_batches(raw.records, headers, aborted):
            # A batch that begins before the offset has been read in part.
            count += min(header.record_count, header.last_offset - max(header.base_offset, asked) + 1)
    return count
