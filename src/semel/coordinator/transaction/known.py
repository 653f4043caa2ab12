"""The transactional ids of a shard, and the state of each.

There may be a million of them, and most are idle: they were loaded, and no request has named them since. Such an id is
kept as the bytes of its record, which are decoded when a request names it. That makes a start faster, halves the memory
of an id, and saves work of the garbage collector, since bytes contain no references.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from semel.coordinator.transaction.records import EncodedIdleTransaction, Transaction
from semel.types import INT64_MAX

_PRODUCER_ID: Final = Struct(">q")
# The places in the value of a record: of its producer id, after the version, and of the one in the record before it,
# which is the first tagged field.
_PRODUCER_ID_AT: Final = slice(2, 10)
_LAST_PRODUCER_ID_AT: Final = slice(37, 45)


class KnownTransactions:
    """Transactions by transactional id, in the order in which the ids were added."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, Transaction | bytes] = {}

    def get(self, transactional_id: str) -> Transaction | None:
        known = self._known.get(transactional_id)
        return EncodedIdleTransaction(transactional_id, known).transaction() if isinstance(known, bytes) else known

    def ids_of_producers(self, producer_ids: frozenset[int], *, with_last: bool = False) -> Iterator[str]:
        """Yield the ids of the transactions that have one of these producer ids, without decoding any.

        ``with_last``: also those that had one in the record before.
        """
        written = {_PRODUCER_ID.pack(producer_id) for producer_id in producer_ids if 0 <= producer_id <= INT64_MAX}
        for transactional_id, known in self._known.items():
            if isinstance(known, bytes):
                if known[_PRODUCER_ID_AT] in written or (with_last and known[_LAST_PRODUCER_ID_AT] in written):
                    yield transactional_id
            elif known.producer_id in producer_ids or (with_last and known.last_producer_id in producer_ids):
                yield transactional_id

    def put(self, record: Transaction | EncodedIdleTransaction) -> None:
        """Set the state of the record's transactional id."""
        self._known[record.transactional_id] = record.value if isinstance(record, EncodedIdleTransaction) else record

    def pop(self, transactional_id: str) -> None:
        """Remove the transactional id, if it is known."""
        self._known.pop(transactional_id, None)

    def __getitem__(self, transactional_id: str) -> Transaction:
        transaction = self.get(transactional_id)
        assert transaction is not None, f"{transactional_id!r} is not known"
        return transaction

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
