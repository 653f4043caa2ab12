"""The transactions and producers that a compaction pass must know before it drops a batch.

Both are collected once, when the pass begins. That is enough: all transactions in its range are complete by then. If a
producer writes more afterwards, the pass has only kept one batch more than needed. There may be very many of both, so
they are collected in slices.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterable
from typing import Final

from semel.log.compaction.pace import Pace
from semel.log.producers.producer_snapshot import ProducerEntry
from semel.log.segments.transaction_index import AbortedTransaction
from semel.wire.records import BatchHeader

_PRODUCER_COST: Final = 4


class AbortedTransactions:
    """The aborted transactions of a log, to find out whether a batch belongs to one: it does if it is of the same
    producer and lies between the transaction's first record and its marker.

    The entries come in the order of the log, from all of it: a transaction's marker may lie far beyond its records.
    """

    def __init__(self, entries: Iterable[AbortedTransaction]) -> None:
        """``entries`` are read by ``collect``, not before."""
        self._entries = entries
        self._by_producer: dict[int, tuple[list[int], list[int]]] = {}

    def collect(self, pace: Pace) -> Generator[None, None, None]:
        for entry in self._entries:
            first_offsets, last_offsets = self._by_producer.setdefault(entry.producer_id, ([], []))
            first_offsets.append(entry.first_offset)
            last_offsets.append(entry.last_offset)
            if pace.spend(1):
                yield

    def contains(self, header: BatchHeader) -> bool:
        if not header.is_transactional or header.is_control:
            return False
        found = self._by_producer.get(header.producer_id)
        if found is None:
            return False
        first_offsets, last_offsets = found
        # A producer has one transaction at a time: the first that ends after the batch is the only one it can be in.
        slot = bisect_left(last_offsets, header.base_offset)
        return slot < len(first_offsets) and first_offsets[slot] <= header.base_offset


class LiveProducers:
    """The batches that must be kept for known producers: one of each, without which a start would not know the
    producer's next sequence or its epoch."""

    def __init__(self, entries: Iterable[ProducerEntry]) -> None:
        """``entries`` are read by ``collect``, not before."""
        self._entries = entries
        self._by_producer: dict[int, ProducerEntry] = {}

    def collect(self, pace: Pace) -> Generator[None, None, None]:
        for entry in self._entries:
            self._by_producer[entry.producer_id] = entry
            if pace.spend(_PRODUCER_COST):
                yield

    def must_keep(self, header: BatchHeader) -> bool:
        entry = self._by_producer.get(header.producer_id)
        if entry is None:
            return False
        if entry.last_offset is None:
            # Only a marker of this epoch is known: it fences the earlier epochs.
            return header.is_control and header.producer_epoch == entry.producer_epoch
        return not header.is_control and header.last_offset == entry.last_offset
