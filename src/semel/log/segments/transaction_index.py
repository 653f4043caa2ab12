"""The transaction index of one segment (``.txnindex``): the aborted transactions whose marker is in the segment.

A Fetch with read_committed is answered with the list of aborted transactions in the fetched records; the list comes
from here. On disk an entry is 34 bytes, as in Kafka: a version (0), the producer id, the first offset, the last offset
(the marker's), and the last stable offset at the time of the abort.

The law: last offsets ascend, because markers are indexed in the order of the log, and last stable offsets never
descend. Committed transactions have no entry, nor have transactions without records. The index is derived from the log.
Entries are kept in memory and written at a checkpoint; a file that breaks the law is built again from the log.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from semel.errors import DecodeError
from semel.log.segments.index_file import IndexFile, require_whole_entries
from semel.types import INT64_MAX, Buffer

VERSION: Final = 0

_ENTRY: Final = Struct(">hqqqq")
ENTRY_SIZE: Final = _ENTRY.size


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    __slots__ = ("_first_offsets", "_last_offsets", "_last_stable_offsets", "_producer_ids", "file")

    def __init__(self) -> None:
        self._producer_ids = array("q")
        self._first_offsets = array("q")
        self._last_offsets = array("q")
        self._last_stable_offsets = array("q")
        self.file = IndexFile(ENTRY_SIZE)

    @classmethod
    def load(cls, data: Buffer, base_offset: int, *, end_offset: int = INT64_MAX) -> TransactionIndex:
        """Read an index file, without the markers at or beyond the log end. Raises ``DecodeError``."""
        require_whole_entries(data, ENTRY_SIZE)
        index = cls()
        last = AbortedTransaction(-1, -1, base_offset - 1, -1)
        for version, *fields in _ENTRY.iter_unpack(data):
            if version != VERSION:
                raise DecodeError(f"transaction index entry version {version}; only version {VERSION} is known")
            entry = AbortedTransaction(*fields)
            if not _may_follow(entry, last):
                raise DecodeError(f"{entry} after {last} in a transaction index (base {base_offset})")
            index._add(entry)
            last = entry
        index.file.loaded(index.entries, data)
        index.truncate_to(end_offset)
        return index

    @property
    def entries(self) -> int:
        return len(self._producer_ids)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return map(self._entry, range(self.entries))

    def append(self, aborted: AbortedTransaction) -> None:
        if self._last_offsets:
            last = self._entry(-1)
            assert _may_follow(aborted, last), f"{aborted} after {last}"
        self._add(aborted)

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions that overlap a fetch (upper bound exclusive), and whether these are all of them.

        They are all if the last stable offset of an entry has reached the upper bound: transactions that were aborted
        after it began at or above that offset. Otherwise the search continues in the next segment.
        """
        collected = []
        for slot in range(bisect_left(self._last_offsets, fetch_offset), self.entries):
            if self._first_offsets[slot] < upper_bound_offset:
                collected.append(self._entry(slot))
            if self._last_stable_offsets[slot] >= upper_bound_offset:
                return collected, True
        return collected, False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose marker is at or beyond ``offset``."""
        entries = bisect_left(self._last_offsets, offset)
        self.file.cut(entries)
        for column in (self._producer_ids, self._first_offsets, self._last_offsets, self._last_stable_offsets):
            del column[entries:]

    def packed(self, first: int, end: int) -> bytes:
        return b"".join(_ENTRY.pack(VERSION, *self._entry(slot)) for slot in range(first, end))

    def _add(self, aborted: AbortedTransaction) -> None:
        self._producer_ids.append(aborted.producer_id)
        self._first_offsets.append(aborted.first_offset)
        self._last_offsets.append(aborted.last_offset)
        self._last_stable_offsets.append(aborted.last_stable_offset)

    def _entry(self, slot: int) -> AbortedTransaction:
        return AbortedTransaction(
            self._producer_ids[slot],
            self._first_offsets[slot],
            self._last_offsets[slot],
            self._last_stable_offsets[slot],
        )


def _may_follow(entry: AbortedTransaction, last: AbortedTransaction) -> bool:
    return (
        entry.producer_id >= 0
        and 0 <= entry.first_offset < entry.last_offset
        and entry.last_offset > last.last_offset
        and last.last_stable_offset <= entry.last_stable_offset <= entry.last_offset + 1
    )
