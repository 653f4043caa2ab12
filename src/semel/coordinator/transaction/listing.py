"""ListTransactions: the transactions that match its filters.

If only open transactions can match, only those are examined: the cost then does not depend on the number of idle ids,
of which there may be a million.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from semel.coordinator.regex.regex import Regex
from semel.coordinator.regex.syntax import RegexError
from semel.coordinator.transaction.records import Transaction
from semel.coordinator.transaction.results import ListedTransaction, TransactionListing
from semel.coordinator.transaction.states import IDLE, KAFKA_NAMES, TxnState
from semel.errors import ErrorCode

WORK_MAX: Final = 100_000
"""How many positions of a pattern may be examined for the ids of a shard, or of a slice of it: about 20 ms of work."""

_BY_NAME: Final = {name: state for state, name in KAFKA_NAMES.items()}


@dataclass(frozen=True, slots=True)
class ListFilters:
    """The filters of ListTransactions. A transaction must pass all of them; an empty filter lets every one pass."""

    states: tuple[str, ...] = ()
    """Kafka's names, such as ``PrepareCommit``. A name that is not a state matches nothing and is reported."""
    producer_ids: frozenset[int] = frozenset()
    with_last_producer_id: bool = False
    """Whether a transaction also passes ``producer_ids`` with the producer id that it had in the record before."""
    duration_ms: int | None = None
    """Only transactions that are open for longer than this, as in KIP-994. (Kafka 4.3 also shows idle ids.)"""
    pattern: str | None = None
    """A regular expression that the whole transactional id must match."""

    def known_states(self) -> frozenset[TxnState]:
        return frozenset(_BY_NAME[name] for name in self.states if name in _BY_NAME)

    def only_open(self) -> bool:
        """Whether no idle transaction can match."""
        return self.duration_ms is not None or (bool(self.states) and self.known_states().isdisjoint(IDLE))


def listing(transactions: Iterable[Transaction], filters: ListFilters, *, now_ms: int) -> TransactionListing:
    """Return the transactions that match. A pattern that takes too long for these ids is refused like a wrong one."""
    try:
        pattern = _compiled(filters.pattern) if filters.pattern else None
    except RegexError:
        return TransactionListing(ErrorCode.INVALID_REGULAR_EXPRESSION)
    matches = _matcher(filters, pattern, now_ms)
    work_max = 0 if pattern is None else pattern.work + WORK_MAX
    found = []
    for transaction in transactions:
        if matches(transaction):
            found.append(ListedTransaction(transaction.transactional_id, transaction.producer_id, transaction.state))
        if pattern is not None and pattern.work > work_max:
            return TransactionListing(ErrorCode.INVALID_REGULAR_EXPRESSION)
    return TransactionListing(
        unknown_states=tuple(name for name in dict.fromkeys(filters.states) if name not in _BY_NAME),
        transactions=tuple(found),
    )


@lru_cache(maxsize=8)
def _compiled(pattern: str) -> Regex:
    """Compile a pattern, once for all shards."""
    return Regex(pattern)


def _matcher(filters: ListFilters, pattern: Regex | None, now_ms: int) -> Callable[[Transaction], bool]:
    states = filters.known_states() if filters.states else None

    def matches(transaction: Transaction) -> bool:
        if filters.producer_ids and not _has_producer(transaction, filters):
            return False
        if states is not None and transaction.state not in states:
            return False
        if filters.duration_ms is not None and not _open_for(transaction, filters.duration_ms, now_ms):
            return False
        return pattern is None or pattern.matches(transaction.transactional_id)

    return matches


def _has_producer(transaction: Transaction, filters: ListFilters) -> bool:
    return transaction.producer_id in filters.producer_ids or (
        filters.with_last_producer_id and transaction.last_producer_id in filters.producer_ids
    )


def _open_for(transaction: Transaction, duration_ms: int, now_ms: int) -> bool:
    if transaction.state in IDLE or transaction.started_ms is None:
        return False
    return now_ms - transaction.started_ms > duration_ms
