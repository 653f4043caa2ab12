"""The records of one partition from one Fetch response, and which of them the application may see.

Control batches are never visible. With a list of aborted transactions (read_committed), the batches of an aborted
transaction are skipped: from the transaction's first offset, which the list has, to its abort marker in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias

from semel.client.values import ConsumerRecord
from semel.errors import DecodeError
from semel.types import Buffer, TopicPartition
from semel.wire.control import parse_marker
from semel.wire.messages.fetch import AbortedTransaction
from semel.wire.records import BatchHeader, RecordBlock, iterate_headers, verify_crc

# Records that are taken one by one are still decoded many at a time.
_RECORDS_AT_ONCE: Final = 64
_NOTHING_TAKEN: Final = -1
_NONE_ABORTED: Final[Sequence[AbortedTransaction]] = ()


class Rows(Protocol):
    """Records as columns, in the order of their offsets."""

    num_rows: int

    def slice(self, offset: int, length: int | None = None) -> Any: ...

    def column(self, name: str) -> Any: ...


DecodeRows: TypeAlias = Callable[[Buffer, Iterable[tuple[int, BatchHeader]]], Iterator[Rows]]
"""Decodes the records of the batches at these places in a buffer: see ``client.arrow.decode``."""


class FetchedRecords:
    """The fetched records of one partition, taken in the order of their offsets. A batch is decoded when it is needed.

    They may be taken as records or as rows, also by turns.
    """

    __slots__ = (
        "_batches",
        "_block",
        "_buffer",
        "_check_crcs",
        "_chunks",
        "_current",
        "_decoded",
        "_fetch_offset",
        "_handed_out",
        "_rows",
        "_visible",
        "error",
        "generation",
        "last_epoch",
        "next_offset",
        "size_bytes",
        "taken_epoch",
        "taken_offset",
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
        """The offset to fetch from after these records."""
        self.last_epoch = _epoch(headers[-1][1]) if headers else None
        """The leader epoch of the last batch, which belongs to ``next_offset``."""
        self.taken_epoch: int | None = None
        """The leader epoch of the record that was taken last."""
        self.taken_offset = _NOTHING_TAKEN
        """The offset of the row that was taken last."""
        self.error: DecodeError | None = None
        """The error of the next record, which cannot be decoded."""
        self._buffer = records
        self._fetch_offset = fetch_offset
        self._check_crcs = check_crcs
        self._batches = visible_batches(records, headers, aborted)
        self._current: tuple[int, BatchHeader] | None = None
        self._block: RecordBlock | None = None
        self._visible: list[tuple[int, BatchHeader]] = []
        """The batches whose rows are being taken."""
        self._chunks: Iterator[Rows] | None = None
        self._rows: Rows | None = None
        self._decoded: list[ConsumerRecord] = []
        self._handed_out = 0

    def take(self, count: int) -> list[ConsumerRecord]:
        """Return up to ``count`` records. Fewer mean that there are no more, or that ``error`` is set."""
        if self._chunks is not None:
            self._leave_rows()
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

    def take_decoded(self) -> ConsumerRecord | None:
        """Return the next record if it is already decoded."""
        if self._handed_out >= len(self._decoded):
            return None
        record = self._decoded[self._handed_out]
        self._handed_out += 1
        return record

    def take_rows(self, count: int, decode: DecodeRows) -> list[Rows]:
        """Return up to ``count`` records as columns. A batch that holds a bad record is rejected as a whole."""
        if self._chunks is None:
            self._leave_records(decode)
        assert self._chunks is not None
        taken: list[Rows] = []
        try:
            while count and self.error is None:
                if self._rows is None:
                    self._rows = next(self._chunks, None)
                    if self._rows is None:
                        break
                part = self._rows.slice(0, count)
                taken.append(part)
                count -= part.num_rows
                self._rows = self._rows.slice(part.num_rows) if part.num_rows < self._rows.num_rows else None
        except DecodeError as error:
            self.error = error
        if taken:
            self.taken_offset = last = _offset(taken[-1], -1)
            self._fetch_offset = last + 1
            self.taken_epoch = next(_epoch(header) for _, header in self._visible if header.last_offset >= last)
        return taken

    def _leave_records(self, decode: DecodeRows) -> None:
        """Switch from records to rows: what was decoded and not returned is decoded again, as rows."""
        left = self._decoded[self._handed_out :]
        if left:
            self._fetch_offset = left[0].offset
        elif self._decoded:
            self._fetch_offset = self._decoded[-1].offset + 1
        current = [] if self._block is None or self._current is None else [self._current]
        self._visible = [*current, *self._batches]
        self._block, self._current, self._decoded, self._handed_out = None, None, [], 0
        self._chunks = self._decode_rows(decode)

    def _leave_rows(self) -> None:
        first = self._fetch_offset
        self._batches = iter([batch for batch in self._visible if batch[1].last_offset >= first])
        self._chunks = self._rows = None

    def _decode_rows(self, decode: DecodeRows) -> Iterator[Rows]:
        sound: list[tuple[int, BatchHeader]] = []
        error: DecodeError | None = None
        for position, header in self._visible:
            error = self._checksum_error(position, header)
            if error is not None:
                break
            sound.append((position, header))
        behind = self._fetch_offset
        try:
            for rows in decode(self._buffer, sound):
                yield from self._from(behind, rows)
                behind = _offset(rows, -1) + 1
        except DecodeError:
            # Of the batches that were decoded together, the ones before the bad one are sound.
            for batch in sound:
                if batch[1].last_offset >= behind:
                    for rows in decode(self._buffer, [batch]):
                        yield from self._from(behind, rows)
        if error is not None:
            raise error

    def _from(self, first: int, rows: Rows) -> Iterator[Rows]:
        """Yield the rows from offset ``first`` on: a batch may begin before the offset that was fetched."""
        before = 0
        if _offset(rows, 0) < first:
            before = sum(offset < first for offset in rows.column("offset").to_pylist())
        if before < rows.num_rows:
            yield rows.slice(before) if before else rows

    def _has_block(self) -> bool:
        if self._block is None:
            for position, header in self._batches:
                error = self._checksum_error(position, header)
                if error is not None:
                    raise error
                self._current = position, header
                self._block = RecordBlock(self._buffer, position)
                break
        return self._block is not None

    def _checksum_error(self, position: int, header: BatchHeader) -> DecodeError | None:
        if not self._check_crcs or verify_crc(self._buffer, position, header):
            return None
        return DecodeError(f"{self.topic_partition}: the batch at offset {header.base_offset} fails its checksum")


def _offset(rows: Rows, row: int) -> int:
    return int(rows.column("offset")[row].as_py())


def visible_batches(
    records: Buffer, headers: Sequence[tuple[int, BatchHeader]], aborted: Sequence[AbortedTransaction] | None
) -> Iterator[tuple[int, BatchHeader]]:
    upcoming = sorted(aborted or _NONE_ABORTED, key=lambda transaction: transaction.first_offset, reverse=True)
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
