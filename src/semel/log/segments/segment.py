"""One segment: a ``.log`` file and the three indexes derived from it.

The law: the state in memory is the result of ``index_batch`` over the batches of the file, in order. An append writes a
batch and indexes it, recovery indexes the batches it reads, so both give the same state. Index entries are kept in
memory and written to their files at a checkpoint; before that the recovery point is below them, and recovery builds
them again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from semel.errors import DecodeError
from semel.log.config import LogConfig
from semel.log.disk import Disk, File
from semel.log.segments.index_file import Index, IndexTail
from semel.log.segments.offset_index import OffsetIndex
from semel.log.segments.on_demand_file import OnDemandFile
from semel.log.segments.segment_checksums import CHECKSUMS_SUFFIX, SegmentChecksums
from semel.log.segments.time_index import ENTRY_SIZE as TIME_INDEX_ENTRY_SIZE
from semel.log.segments.time_index import TimeIndex
from semel.log.segments.transaction_index import TransactionIndex
from semel.types import INT32_MAX, Buffer
from semel.wire.records import HEADER_SIZE, LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader, parse_header

_BASE_OFFSET_AND_LENGTH: Final = Struct(">qi")
_LAST_OFFSET_DELTA: Final = Struct(">i")
_LAST_OFFSET_DELTA_POSITION: Final = 23

# Enough to step over the batches between two index entries in one read, where batches are small.
_STEP_BYTES: Final = 8 * 1024
# Large enough that reading a segment from end to end costs few system calls.
_SCAN_BYTES: Final = 4 * 1024 * 1024

INDEX_SUFFIXES: Final = (".index", ".timeindex", ".txnindex")
SUFFIXES: Final = (".log", *INDEX_SUFFIXES, CHECKSUMS_SUFFIX)


def file_name(offset: int, suffix: str) -> str:
    """The name of a file, as in Kafka: the offset in twenty digits, so that names sort like offsets."""
    return f"{offset:020d}{suffix}"


class Place(NamedTuple):
    """The position of a batch in the file, and its size."""

    position: int
    size_bytes: int


class IndexWrite(NamedTuple):
    """The write that brings one index file up to date. It is prepared on the loop and carried out by a worker."""

    segment: Segment
    source: Index
    path: str
    tail: IndexTail
    create: bool  # whether a missing file is created; an existing one is always written: it may hold wrong entries

    def carry_out(self, disk: Disk, *, sync: bool) -> None:
        try:
            file = disk.open(self.path, create=self.create)
        except FileNotFoundError:
            if self.create:
                raise
            return
        with contextlib.closing(file):
            self.tail.write(file)
            if sync:
                file.sync()


class Segment:
    def __init__(
        self,
        disk: Disk,
        folder: str,
        base_offset: int,
        *,
        created_ms: int,
        create: bool = False,
        ending: str = "",
        on_demand: bool = False,
    ) -> None:
        self._disk = disk
        self.folder = folder
        self.base_offset = base_offset
        self.ending = ending  # the last suffix of the file names, as long as the segment is not part of the log
        self.created_ms = created_ms
        self.file: File = self._on_demand() if on_demand else disk.open(self.path(".log"), create=create)
        self.size_bytes = 0 if create else self.file.size()
        self.offset_index = OffsetIndex(base_offset)
        self.time_index = TimeIndex(base_offset)
        self.transaction_index = TransactionIndex()
        self.largest_timestamp = NO_TIMESTAMP
        self.offset_of_largest_timestamp = base_offset
        self._bytes_since_index_entry = 0
        self._index_entries = 0  # the entries of the offset index or of the time index: the larger number of the two
        self._first_timestamp: int | None = None
        self._finished = False
        self.index_files_are_stale = False  # whether they may hold wrong entries of an earlier process

    def __repr__(self) -> str:
        return f"<Segment {self.path('.log')} {self.size_bytes} bytes>"

    def path(self, suffix: str) -> str:
        return f"{self.folder}/{file_name(self.base_offset, suffix)}{self.ending}"

    # Writing

    def append(self, batch: Buffer, header: BatchHeader, index_interval_bytes: int) -> None:
        """Write one batch at the end. Raises ``OSError``: the segment is then as before, but the file may be longer."""
        position = self.size_bytes
        self.file.write(position, batch)
        self.size_bytes = position + len(batch)
        self.index_batch(header, position, index_interval_bytes)

    def appended(self, header: BatchHeader, index_interval_bytes: int) -> None:
        """Add a batch that one write has put at the end of the file, together with others."""
        position = self.size_bytes
        self.size_bytes = position + header.size_bytes
        self.index_batch(header, position, index_interval_bytes)

    def index_batch(self, header: BatchHeader, position: int, index_interval_bytes: int) -> None:
        """Add a batch of the file to the indexes."""
        if header.max_timestamp > self.largest_timestamp:
            self.largest_timestamp = header.max_timestamp
            self.offset_of_largest_timestamp = header.base_offset + header.last_offset_delta
        if position == 0:
            self._first_timestamp = header.max_timestamp
        if self._bytes_since_index_entry > index_interval_bytes:
            self.offset_index.append(header.last_offset, position)
            self.time_index.append(self.largest_timestamp, self.offset_of_largest_timestamp)
            self._index_entries += 1
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += header.batch_length + LOG_OVERHEAD

    def takes(self, header: BatchHeader, config: LogConfig, age_max_ms: int, now_ms: int) -> bool:
        """Whether the batch fits here, or needs a new segment: by size, age, index size, and relative offset."""
        if self.size_bytes == 0:
            return True
        first_timestamp = self._first_timestamp
        if first_timestamp is None or first_timestamp < 0 or header.max_timestamp < 0:
            age_ms = self._age_ms(now_ms, header.max_timestamp)
        else:
            age_ms = header.max_timestamp - first_timestamp
        return (
            self.size_bytes + header.batch_length + LOG_OVERHEAD <= config.segment_bytes
            and age_ms <= age_max_ms
            and header.base_offset + header.last_offset_delta - self.base_offset <= INT32_MAX
            # There must be room for one more entry: ``finish`` adds it to the time index.
            and (self._index_entries + 2) * TIME_INDEX_ENTRY_SIZE <= config.segment_index_bytes
        )

    def takes_all(self, headers: Sequence[BatchHeader], size_bytes: int, config: LogConfig, age_max_ms: int) -> bool:
        """Whether all these batches, of ``size_bytes`` together, fit here one after the other (see ``takes``).

        This may return ``False`` for batches that would fit: it compares only the extreme timestamps, and an upper
        bound of the index size.
        """
        newest = max([header.max_timestamp for header in headers])
        oldest = min([header.max_timestamp for header in headers])
        first_timestamp = self.first_timestamp() if self.size_bytes else headers[0].max_timestamp
        index_entries = min(len(headers), size_bytes // (config.index_interval_bytes + 1) + 1)
        return (
            oldest >= 0
            and first_timestamp is not None
            and first_timestamp >= 0
            and newest - first_timestamp <= age_max_ms
            and self.size_bytes + size_bytes <= config.segment_bytes
            and headers[-1].last_offset - self.base_offset <= INT32_MAX
            and (self._index_entries + index_entries + 1) * TIME_INDEX_ENTRY_SIZE <= config.segment_index_bytes
        )

    def _age_ms(self, now_ms: int, timestamp: int) -> int:
        """The segment's age by the records' timestamps, or since its creation if they have none."""
        first = self.first_timestamp()
        if first is not None and first >= 0 and timestamp >= 0:
            return timestamp - first
        return now_ms - self.created_ms

    def cut(self, position: int, offset: int) -> None:
        """Truncate the file to ``position``, where the batch at ``offset`` would begin, and truncate the indexes."""
        self.file.truncate(position)
        self.size_bytes = position
        self._finished = False
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self._index_entries = self._count_index_entries()
        self._bytes_since_index_entry = 0
        if position == 0:
            self._first_timestamp = None
        self.find_largest_timestamp(offset)

    def finish(self) -> None:
        """No batch will follow: add the largest timestamp to the time index, so that a start finds it there."""
        self.time_index.append(self.largest_timestamp, self.offset_of_largest_timestamp)
        self._index_entries = self._count_index_entries()
        self._finished = True

    def index_writes(self) -> list[IndexWrite]:
        """The writes that bring the index files up to date. A checkpoint carries them out and calls
        ``indexes_written``.

        Nothing else writes these files: a file that was written and not synced could be torn below a recovery point.
        """
        writes: list[IndexWrite] = []
        for suffix, index in zip(INDEX_SUFFIXES, self.indexes, strict=True):
            # A finished segment has an offset and a time index even if they are empty: operators look for them.
            wanted = index.file.is_behind(index) or (self._finished and index is not self.transaction_index)
            if wanted or self.index_files_are_stale:
                writes.append(IndexWrite(self, index, self.path(suffix), index.file.tail(index), create=wanted))
        return writes

    def indexes_written(self, writes: Sequence[IndexWrite]) -> None:
        """Note that the ``writes`` that belong to this segment were carried out and synced."""
        for write in writes:
            if write.segment is self:
                write.source.file.written(write.tail)
        self.index_files_are_stale = False

    def open_on_demand(self) -> None:
        """Keep no descriptor open: nothing more will be appended, and everything is synced.

        A sync on another thread may still use the open file, which is closed with its last reference.
        """
        self.file = self._on_demand()

    def keep_open(self) -> None:
        """Open the file again for appends."""
        if isinstance(self.file, OnDemandFile):
            # If no descriptor is free, the file continues to be opened on demand, which is slower.
            with contextlib.suppress(OSError):
                self.file = self._disk.open(self.path(".log"))

    def _on_demand(self) -> File:
        return OnDemandFile(self._disk, lambda: self.path(".log"))

    def checksums(self, end_offset: int) -> SegmentChecksums:
        """The checksums that the index files will have once they are written, and the current size of the log file.

        ``end_offset``: the offset at which the log file ends now.
        """
        return SegmentChecksums(
            end_offset, self.size_bytes, tuple(index.file.checksum(index) for index in self.indexes)
        )

    @property
    def indexes(self) -> tuple[OffsetIndex | TimeIndex | TransactionIndex, ...]:
        """The three indexes, in the order of ``INDEX_SUFFIXES``."""
        return self.offset_index, self.time_index, self.transaction_index

    def _count_index_entries(self) -> int:
        return max(self.offset_index.entries, self.time_index.entries)

    def indexes_loaded(
        self, offset_index: OffsetIndex, time_index: TimeIndex, transaction_index: TransactionIndex
    ) -> None:
        """Take over the indexes that were read from their files."""
        self.offset_index, self.time_index, self.transaction_index = offset_index, time_index, transaction_index
        self._index_entries = self._count_index_entries()

    def forget_indexes(self) -> None:
        """Empty the indexes: they are built again from the log, and the files are overwritten."""
        self.indexes_loaded(OffsetIndex(self.base_offset), TimeIndex(self.base_offset), TransactionIndex())
        self.largest_timestamp, self.offset_of_largest_timestamp = NO_TIMESTAMP, self.base_offset
        self.index_files_are_stale = True

    def close(self) -> None:
        self.file.close()

    def remove(self) -> None:
        """Remove the files. A log file that is open can still be read; it is closed with its last reference."""
        for suffix in SUFFIXES:
            self._disk.remove(self.path(suffix))

    # Reading

    def locate(self, offset: int) -> Place | None:
        """The place of the first batch that ends at or after ``offset``; ``None`` if this segment has none.

        Raises ``DecodeError`` if the file holds something else than whole batches there. The headers before that batch
        must be sound, too: their lengths and last offsets decide which batch comes next.
        """
        _, position = self.offset_index.lookup(offset)
        reached = self.base_offset
        step, before = b"", -1
        while position < self.size_bytes:
            step, before = self.file.read(position, min(_STEP_BYTES, self.size_bytes - position)), -1
            within = 0
            while within + HEADER_SIZE <= len(step):
                base_offset, batch_length = _BASE_OFFSET_AND_LENGTH.unpack_from(step, within)
                (delta,) = _LAST_OFFSET_DELTA.unpack_from(step, within + _LAST_OFFSET_DELTA_POSITION)
                if batch_length < HEADER_SIZE - LOG_OVERHEAD or delta < 0 or base_offset < reached:
                    raise DecodeError(
                        f"{self.path('.log')}: batch length {batch_length}, base offset {base_offset} and last offset "
                        f"delta {delta} at {position + within}, behind offset {reached - 1}"
                    )
                reached = base_offset + delta + 1
                if reached > offset:
                    if base_offset > offset and before >= 0:
                        # Either compaction left a hole here, or the header before it is damaged and that batch holds
                        # more offsets than the header says. The full check of that header finds the damage.
                        parse_header(step, before)
                    self._check_batch(step, within, position + within)
                    return Place(position + within, batch_length + LOG_OVERHEAD)
                before = within
                within += batch_length + LOG_OVERHEAD
            if within == 0 or position + within > self.size_bytes:
                raise DecodeError(f"{self.path('.log')}: no batch ends where the file does, behind {position}")
            position += within
        if before >= 0:
            parse_header(step, before)  # No batch reaches ``offset``. The last header must be sound, as above.
        return None

    def _check_batch(self, step: bytes, within: int, position: int) -> None:
        """Raise ``DecodeError`` unless ``locate`` found a whole batch of this segment."""
        header = parse_header(step, within)
        if header.base_offset < self.base_offset or position + header.size_bytes > self.size_bytes:
            raise DecodeError(
                f"{self.path('.log')}: a batch of {header.size_bytes} bytes with base offset {header.base_offset} "
                f"at {position}; the file has {self.size_bytes} bytes"
            )

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of every whole batch from ``position`` on. Stops at the first unsound one."""
        end = self.size_bytes
        while position + HEADER_SIZE <= end:
            step = self.file.read(position, min(_STEP_BYTES, end - position))
            within = 0
            while within + HEADER_SIZE <= len(step):
                try:
                    header = parse_header(step, within)
                except DecodeError:
                    return
                if position + within + header.size_bytes > end:
                    return
                yield position + within, header
                within += header.size_bytes
            if within == 0:
                return
            position += within

    def headers_below(self, end_offset: int, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """The headers below ``end_offset``, which are known to be sound.

        It ends with the batch that reaches the offset, without reading the offset of the next one: a power cut may have
        damaged just those bytes, which no checksum covers.
        """
        reached = self.base_offset
        for at, header in self.headers(position):
            if header.base_offset >= end_offset or header.base_offset < reached:
                return
            yield at, header
            reached = header.next_offset
            if reached >= end_offset:
                return

    def batches(
        self, position: int = 0, *, step_bytes: int = _SCAN_BYTES
    ) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Every whole batch from ``position`` on, with its bytes. Stops at the first unsound one."""
        end = self.size_bytes
        size = step_bytes
        while position + HEADER_SIZE <= end:
            chunk = memoryview(self.file.read(position, min(size, end - position)))
            within = 0
            size = step_bytes
            while within + HEADER_SIZE <= len(chunk):
                try:
                    header = parse_header(chunk, within)
                except DecodeError:
                    return
                if within + header.size_bytes > len(chunk):
                    size = max(step_bytes, header.size_bytes)
                    break
                yield position + within, header, chunk[within : within + header.size_bytes]
                within += header.size_bytes
            if within == 0 and size <= len(chunk):
                return
            if within == 0 and position + len(chunk) >= end:
                return
            position += within

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        return self.file.read(position, header.size_bytes)

    def first_timestamp(self) -> int | None:
        """The timestamp of the first batch; ``NO_TIMESTAMP`` if its header is damaged: that batch cannot be read, but
        the segment can be appended to and closed. Raises ``OSError``."""
        if self._first_timestamp is None and self.size_bytes >= HEADER_SIZE:
            try:
                self._first_timestamp = parse_header(self.file.read(0, HEADER_SIZE)).max_timestamp
            except DecodeError:
                self._first_timestamp = NO_TIMESTAMP
        return self._first_timestamp

    def trust_time_index(self) -> None:
        """Take the largest timestamp from the last entry of the time index."""
        self.largest_timestamp, self.offset_of_largest_timestamp = self.time_index.last or (
            NO_TIMESTAMP,
            self.base_offset,
        )

    def find_largest_timestamp(self, end_offset: int) -> None:
        """Find the largest timestamp if the time index may be incomplete: later batches are read too."""
        self.trust_time_index()
        _, position = self.offset_index.lookup(self.offset_of_largest_timestamp)
        for _, header in self.headers_below(end_offset, position):
            if header.max_timestamp > self.largest_timestamp:
                self.largest_timestamp, self.offset_of_largest_timestamp = header.max_timestamp, header.last_offset
