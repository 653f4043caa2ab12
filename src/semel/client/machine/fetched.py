"""What one fetch brought of one partition, and which of its records a reader may see.

Control batches are never seen. With the aborted list (read_committed), the batches of an aborted transaction are passed
over: from the transaction's first offset, which the list says, to its abort marker, which stands in the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from semel.client.values import ConsumerRecord
from semel.errors import DecodeError
from semel.types import Buffer, TopicPartition
from semel.wire.control import parse_marker
from semel.wire.messages.fetch import AbortedTransaction
from semel.wire.records import BatchHeader, iterate_headers, iterate_records, verify_crc

_NOBODY: Final[Sequence[AbortedTransaction]] = ()


class FetchedRecords:
    """Records of one partition, to be taken in order."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        generation: int,
        records: Buffer,
        *,
        fetch_offset: int,
        aborted: Sequence[AbortedTransaction] | None,
        check_crcs: bool,
    ) -> None:
        self.topic_partition = topic_partition
        self.generation = generation
        self.size_bytes = len(records)
        headers = list(iterate_headers(records, allow_partial_tail=True))
        if not headers and len(records):
            raise DecodeError(f"{topic_partition}: {len(records)} bytes at offset {fetch_offset} hold no whole batch")
        self.next_offset = max(headers[-1][1].next_offset, fetch_offset) if headers else fetch_offset
        """Where to read on after this."""
        self._records = _decoded(
            topic_partition, records, _visible(records, headers, aborted), fetch_offset, check_crcs
        )

        self.error: DecodeError | None = None
        """What is wrong with the next record."""

    def take(self, count: int) -> list[ConsumerRecord]:
        """Up to so many records. Fewer means that there are no more, or that ``error`` says why."""
        taken: list[ConsumerRecord] = []
        try:
            taken.extend(islice(self._records, count))
        except DecodeError as error:
            self.error = error
        return taken


def _decoded(
    topic_partition: TopicPartition,
    records: Buffer,
    batches: Iterator[tuple[int, BatchHeader]],
    fetch_offset: int,
    check_crcs: bool,
) -> Iterator[ConsumerRecord]:
    place = tuple(topic_partition)
    new = tuple.__new__
    for position, header in batches:
        if check_crcs and not verify_crc(records, position, header):
            raise DecodeError(f"{topic_partition}: the batch at offset {header.base_offset} fails its checksum")
        for record in iterate_records(records, position):
            # A batch may begin before the offset that was asked for.
            if record[0] >= fetch_offset:
                yield new(ConsumerRecord, place + record)


def _visible(
    records: Buffer, headers: Sequence[tuple[int, BatchHeader]], aborted: Sequence[AbortedTransaction] | None
) -> Iterator[tuple[int, BatchHeader]]:
    upcoming = sorted(aborted or _NOBODY, key=lambda transaction: transaction.first_offset, reverse=True)
    aborting: set[int] = set()
    for position, header in headers:
        while upcoming and upcoming[-1].first_offset <= header.last_offset:
            aborting.add(upcoming.pop().producer_id)
        if header.is_control:
            marker = parse_marker(records, position) if aborting and header.producer_id in aborting else None
            if marker is not None and not marker.committed:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield position, header
