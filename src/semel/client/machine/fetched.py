"""What one fetch brought of one partition, and which of its records a reader may see.

Control batches are never seen. With the aborted list (read_committed), the batches of an aborted transaction are passed
over: from the transaction's first offset, which the list says, to its abort marker, which stands in the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from semel.client.values import ConsumerRecord
from semel.errors import DecodeError
from semel.types import Buffer, TopicPartition
from semel.wire.control import parse_marker
from semel.wire.messages.fetch import AbortedTransaction
from semel.wire.records import BatchHeader, RecordBlock, iterate_headers, verify_crc

# Whoever takes records one by one does not have them decoded one by one.
_RECORDS_AT_ONCE: Final = 64
_NOBODY: Final[Sequence[AbortedTransaction]] = ()


class FetchedRecords:
    """Records of one partition, to be taken in order. A batch is decoded when its records are asked for."""

    __slots__ = (
        "_batches",
        "_block",
        "_buffer",
        "_check_crcs",
        "_decoded",
        "_fetch_offset",
        "_handed_out",
        "error",
        "generation",
        "last_epoch",
        "next_offset",
        "size_bytes",
        "taken_epoch",
        "topic_partition",
    )

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
        self.last_epoch = _epoch(headers[-1][1]) if headers else None
        """The leader epoch of the last batch, as ``next_offset`` belongs to it."""
        self.taken_epoch: int | None = None
        """The leader epoch of the record that was taken last."""
        self.error: DecodeError | None = None
        """What is wrong with the next record."""
        self._buffer = records
        self._fetch_offset = fetch_offset
        self._check_crcs = check_crcs
        self._batches = visible_batches(records, headers, aborted)
        self._block: RecordBlock | None = None
        self._decoded: list[ConsumerRecord] = []
        self._handed_out = 0

    def take(self, count: int) -> list[ConsumerRecord]:
        """Up to so many records. Fewer means that there are no more, or that ``error`` says why."""
        taken = self._decoded[self._handed_out : self._handed_out + count]
        self._handed_out += len(taken)
        if len(taken) == count or self.error is not None:
            return taken
        topic, partition = self.topic_partition
        try:
            while len(taken) < count and self._has_block():
                assert self._block is not None
                wanted = count - len(taken)
                records = self._block.read(max(wanted, _RECORDS_AT_ONCE), ConsumerRecord, topic, partition)
                if not records:
                    self._block = None
                    continue
                if records[0].offset < self._fetch_offset:
                    # A batch may begin before the offset that was asked for.
                    records = [record for record in records if record.offset >= self._fetch_offset]
                self.taken_epoch = _epoch(self._block.header)
                self._decoded, self._handed_out = records, wanted
                taken += records[:wanted]
        except DecodeError as error:
            self.error = error
        return taken

    def _has_block(self) -> bool:
        if self._block is None:
            for position, header in self._batches:
                if self._check_crcs and not verify_crc(self._buffer, position, header):
                    text = f"{self.topic_partition}: the batch at offset {header.base_offset} fails its checksum"
                    raise DecodeError(text)
                self._block = RecordBlock(self._buffer, position)
                break
        return self._block is not None


def visible_batches(
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


def _epoch(header: BatchHeader) -> int | None:
    return None if header.partition_leader_epoch < 0 else header.partition_leader_epoch
