"""The results of the transaction coordinator: what its handlers answer, and what they ask the broker to do.

A handler refuses with an error code of Kafka's and raises nothing. ``None`` stands where Kafka's answer has -1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from semel.coordinator.transaction.states import TxnState
from semel.errors import ErrorCode
from semel.types import TopicPartition
from semel.wire.apis import ApiKey

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


class WriteMarkers(NamedTuple):
    """An effect: write this marker to every partition until it is acknowledged, then call ``markers_written``.

    Doing it twice is harmless: where the producer has no open transaction, a marker changes nothing.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: frozenset[TopicPartition]
    coordinator_epoch: int
    transaction_version: int
    """2: the marker's epoch is higher than that of the data it ends, and a partition may insist on it."""


FENCED_SINCE: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {
        ApiKey.INIT_PRODUCER_ID: 4,
        ApiKey.ADD_PARTITIONS_TO_TXN: 2,
        ApiKey.ADD_OFFSETS_TO_TXN: 2,
        ApiKey.END_TXN: 2,
    }
)
"""The first version of each request that is answered PRODUCER_FENCED."""


def error_for_version(error: ErrorCode, api: ApiKey, version: int) -> ErrorCode:
    """``error``, or what came before it, if the request is too old for it.

    PRODUCER_FENCED (KIP-588) says that another instance has taken over; before it, INVALID_PRODUCER_EPOCH said that
    too, and a client that is older than an error does not know what to do about it.
    """
    if error is ErrorCode.PRODUCER_FENCED and version < FENCED_SINCE[api]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
