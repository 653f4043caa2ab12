"""Verification of one segment's index files against the batches of its log.

The offset index and the time index are sparse: entries may be missing, but every entry must be right. The transaction
index must have every abort of the log: a missing entry would let read_committed consumers read aborted records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from semel.errors import DecodeError
from semel.log.disk import Disk, read_file
from semel.log.segments import segment_checksums
from semel.log.segments.offset_index import OffsetIndex
from semel.log.segments.segment import INDEX_SUFFIXES
from semel.log.segments.segment_checksums import CHECKSUMS_SUFFIX
from semel.log.segments.time_index import TimeIndex
from semel.log.segments.transaction_index import AbortedTransaction, TransactionIndex
from semel.log.verification.findings import Finding, Severity
from semel.log.verification.producers import Ended
from semel.log.verification.walk import Walk, WalkedBatch
from semel.types import TopicPartition

_MADE_AGAIN: Final = "makes it again from the log"
_OFFLINE: Final = "does not serve the partition and leaves its files as they are"


class SegmentIndexes:
    """The check of one segment's index files. The caller passes every batch to ``batch``, in order, and calls
    ``findings`` at the end."""

    def __init__(self, disk: Disk, stem: str, base_offset: int, partition: TopicPartition, end_offset: int) -> None:
        """``stem`` is the path without its suffix; entries at or above ``end_offset`` are not checked."""
        self._disk = disk
        self._stem = stem
        self._partition = partition
        self._end_offset = end_offset
        self._findings: list[Finding] = []
        self._largest_timestamp = -1
        self._last_offset = base_offset - 1
        self._positions: dict[int, int] = {}
        self._times: dict[int, int] = {}
        self._aborted: dict[tuple[int, int], AbortedTransaction] = {}
        self._contents: dict[str, bytes] = {}
        self.files = 0
        self.match_checksums = False
        """Whether the checksums are sound and the log is as long as they say: then a start does not read it."""
        self._load(base_offset)

    def _load(self, base_offset: int) -> None:
        end = self._end_offset
        try:
            if (data := self._read(".index")) is not None:
                index = OffsetIndex.load(data, base_offset, end_offset=end)
                self._positions = {position: offset for offset, position in index}
        except DecodeError as error:
            self._damaged(".index", str(error))
        try:
            if (data := self._read(".timeindex")) is not None:
                times = TimeIndex.load(data, base_offset, end_offset=end)
                self._times = {offset: timestamp for timestamp, offset in times}
        except DecodeError as error:
            self._damaged(".timeindex", str(error))
        try:
            if (data := self._read(".txnindex")) is not None:
                aborted = TransactionIndex.load(data, base_offset, end_offset=end)
                self._aborted = {(entry.producer_id, entry.last_offset): entry for entry in aborted}
        except DecodeError as error:
            self._damaged(".txnindex", str(error))

    def batch(self, batch: WalkedBatch) -> None:
        header = batch.header
        self._largest_timestamp = max(self._largest_timestamp, header.max_timestamp)
        self._last_offset = header.last_offset
        offset = self._positions.pop(batch.position, None)
        if offset is not None and offset != header.last_offset:
            self._damaged(
                ".index", f"it has offset {offset} at position {batch.position}; the log has {header.last_offset}"
            )
        timestamp = self._times.pop(header.last_offset, None)
        if timestamp is not None and timestamp != self._largest_timestamp:
            self._damaged(
                ".timeindex",
                f"it has {timestamp} as the largest timestamp up to offset {header.last_offset}; "
                f"the log has {self._largest_timestamp}",
            )

    def completed(self, ended: Sequence[Ended], *, known_from: int) -> None:
        """Check the entries of the transactions whose markers are in this segment.

        ``known_from``: the offset from which on all records are known. The offsets in the entry of a transaction that
        began below it are not compared.
        """
        for transaction, last_stable_offset in ended:
            entry = self._aborted.get((transaction.producer_id, transaction.last_offset))
            said = f"the transaction of producer {transaction.producer_id} that ended at {transaction.last_offset}"
            if transaction.committed:
                if entry is not None:
                    self._damaged(".txnindex", f"it has {said}, which was committed")
            elif entry is None:
                self._damaged(
                    ".txnindex",
                    f"it has not {said}, which was aborted",
                    lost=f"readers of committed records would get offsets {transaction.first_offset} to "
                    f"{transaction.last_offset} of an aborted transaction",
                )
            elif transaction.first_offset >= known_from and last_stable_offset >= known_from:
                expected = AbortedTransaction(
                    transaction.producer_id, transaction.first_offset, transaction.last_offset, last_stable_offset
                )
                if entry != expected:
                    self._damaged(".txnindex", f"it has {entry}; the log has {expected}")

    def check_checksums(self, walked: Walk) -> None:
        """Compare the segment's files with its checksums from the last checkpoint."""
        if (data := self._read(CHECKSUMS_SUFFIX)) is None:
            return
        try:
            checksums = segment_checksums.decode(data)
        except (DecodeError, ValueError) as error:
            self._damaged(CHECKSUMS_SUFFIX, str(error), next_start="makes the indexes of the segment again")
            return
        if walked.trouble is None and walked.size_bytes < checksums.log_size_bytes:
            problem = f"it has {walked.size_bytes} bytes; at the last checkpoint it had {checksums.log_size_bytes}"
            lost = f"offsets {walked.end_offset} to {checksums.end_offset - 1}"
            self._findings.append(Finding(walked.path, Severity.LOSS, problem, _OFFLINE, lost, self._partition))
        self.match_checksums = walked.size_bytes == checksums.log_size_bytes
        for suffix, index in zip(INDEX_SUFFIXES, checksums.indexes, strict=True):
            if not index.matches(self._contents.get(suffix, b"")):
                self.match_checksums = False
                self._damaged(suffix, "its checksum is not that of the last checkpoint")

    def closed(self) -> None:
        """Check that the files of the offset index and the time index exist. A closed segment has them even if they are
        empty."""
        for suffix in (".index", ".timeindex"):
            if not self._disk.exists(self._stem + suffix):
                self._damaged(suffix, "it is missing")

    def findings(self) -> list[Finding]:
        """All findings, after the last batch. An index entry that belongs to no batch is damage."""
        below = [(position, offset) for position, offset in self._positions.items() if offset <= self._last_offset]
        if below:
            self._damaged(".index", f"it has offset {below[0][1]} at position {below[0][0]}, where no batch begins")
        offsets = [offset for offset in self._times if offset <= self._last_offset]
        if offsets:
            self._damaged(".timeindex", f"it has offset {offsets[0]}, with which no batch ends")
        return self._findings

    def _read(self, suffix: str) -> bytes | None:
        path = self._stem + suffix
        if not self._disk.exists(path):
            return None
        self.files += 1
        self._contents[suffix] = read_file(self._disk, path)
        return self._contents[suffix]

    def _damaged(self, suffix: str, problem: str, *, lost: str | None = None, next_start: str = _MADE_AGAIN) -> None:
        path = self._stem + suffix
        if any(finding.path == path for finding in self._findings):
            return  # One line for a file is enough.
        self._findings.append(Finding(path, Severity.DERIVED, problem, next_start, lost, self._partition))
