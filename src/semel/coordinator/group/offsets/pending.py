"""Pending offsets: those that were committed in a transaction that has not ended yet.

They belong to a producer id until its marker is replayed: then they are committed or dropped. They are indexed by
producer id, because a marker names one, and by group, because fetches and deletions need a group's pending offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from semel.coordinator.group.offsets.committed import StoredOffset
from semel.coordinator.group.offsets.offset_results import OpenTransaction
from semel.coordinator.group.records import OffsetKey
from semel.types import ProducerIdentity


class PendingOffsets:
    def __init__(self) -> None:
        self._transactions: dict[int, _Transaction] = {}
        self._producers: dict[str, dict[OffsetKey, dict[int, None]]] = {}

    def __contains__(self, key: OffsetKey) -> bool:
        return key in self._producers.get(key.group_id, ())

    def group_ids(self) -> Iterable[str]:
        return self._producers

    def has_group(self, group_id: str) -> bool:
        return group_id in self._producers

    def of_group(self, group_id: str) -> Iterable[OffsetKey]:
        return self._producers.get(group_id, ())

    def of_topic(self, topic: str) -> Iterator[StoredOffset]:
        """Yield the pending offsets of a topic. All open transactions are searched: they are few, and this is rare."""
        for transaction in self._transactions.values():
            for key, stored in transaction.offsets.items():
                if key.topic == topic:
                    yield stored

    def of_key(self, key: OffsetKey) -> Iterator[StoredOffset]:
        for producer_id in self._producers.get(key.group_id, {}).get(key, ()):
            yield self._transactions[producer_id].offsets[key]

    def epoch_of(self, producer_id: int) -> int | None:
        transaction = self._transactions.get(producer_id)
        return None if transaction is None else transaction.producer_epoch

    def describe(self, group_id: str) -> tuple[OpenTransaction, ...]:
        """The open transactions that have pending offsets of the group, sorted by producer id."""
        partitions: dict[int, list[tuple[str, int]]] = {}
        for key, producer_ids in sorted(self._producers.get(group_id, {}).items()):
            for producer_id in producer_ids:
                partitions.setdefault(producer_id, []).append((key.topic, key.partition))
        return tuple(
            OpenTransaction(producer_id, self._transactions[producer_id].producer_epoch, tuple(held))
            for producer_id, held in sorted(partitions.items())
        )

    def put(self, producer: ProducerIdentity, stored: StoredOffset) -> None:
        producer_id, producer_epoch = producer
        transaction = self._transactions.get(producer_id)
        if transaction is None:
            transaction = self._transactions[producer_id] = _Transaction(producer_epoch)
        transaction.producer_epoch = producer_epoch
        key = stored.commit.key
        transaction.offsets[key] = stored
        self._producers.setdefault(key.group_id, {}).setdefault(key, {})[producer_id] = None

    def remove(self, key: OffsetKey) -> None:
        """Remove the pending offsets of the key, of every transaction."""
        if key not in self:
            return
        for producer_id in self._producers[key.group_id].pop(key):
            offsets = self._transactions[producer_id].offsets
            del offsets[key]
            if not offsets:
                del self._transactions[producer_id]
        self._drop_group_if_empty(key.group_id)

    def end(self, producer_id: int) -> tuple[StoredOffset, ...]:
        """Remove the producer's transaction, and return its pending offsets."""
        transaction = self._transactions.pop(producer_id, None)
        if transaction is None:
            return ()
        for key in transaction.offsets:
            keys = self._producers[key.group_id]
            del keys[key][producer_id]
            if not keys[key]:
                del keys[key]
                self._drop_group_if_empty(key.group_id)
        return tuple(transaction.offsets.values())

    def _drop_group_if_empty(self, group_id: str) -> None:
        if not self._producers[group_id]:
            del self._producers[group_id]


@dataclass(slots=True)
class _Transaction:
    """The pending offsets of one producer. There is at least one, except in a transaction that was just created."""

    producer_epoch: int
    offsets: dict[OffsetKey, StoredOffset] = field(default_factory=dict)
