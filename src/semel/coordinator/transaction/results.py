"""What the transaction shard answers: values, with an error code of the wire where Kafka has one for it.

A handler refuses with a code and raises nothing. ``None`` stands where Kafka's answer has -1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from semel.coordinator.transaction.states import TxnState
from semel.errors import ErrorCode
from semel.types import TopicPartition

_NO_ERRORS: Final[Mapping[TopicPartition, ErrorCode]] = MappingProxyType({})


class InitProducerIdResult(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    producer_id: int | None = None
    producer_epoch: int | None = None


class AddPartitionsResult(NamedTuple):
    """One error for all partitions, or, of a verification, one for each."""

    error: ErrorCode = ErrorCode.NONE
    errors: Mapping[TopicPartition, ErrorCode] = _NO_ERRORS
    """Only of a verification, and only when ``error`` is NONE: the partitions that are not in the transaction."""


class EndTxnResult(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    producer_id: int | None = None
    """What the producer goes on with. With transactions V2 only."""
    producer_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """One id, as DescribeTransactions shows it. With an error, nothing but the id."""

    transactional_id: str
    error: ErrorCode = ErrorCode.NONE
    state: TxnState | None = None
    timeout_ms: int = 0
    started_ms: int | None = None
    producer_id: int = 0
    producer_epoch: int = 0
    partitions: tuple[TopicPartition, ...] = ()
    """Sorted."""


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    transactional_id: str
    producer_id: int
    state: TxnState


@dataclass(frozen=True, slots=True)
class TransactionListing:
    error: ErrorCode = ErrorCode.NONE
    unknown_states: tuple[str, ...] = ()
    """Names in the state filter that are no states."""
    transactions: tuple[ListedTransaction, ...] = ()
