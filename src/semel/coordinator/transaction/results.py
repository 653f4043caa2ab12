"""The results of the transaction coordinator: the responses of its handlers, and the effect ``WriteMarkers``.

A handler refuses with one of Kafka's error codes and raises nothing. ``None`` represents the -1 of Kafka's responses.
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
    """One error for all partitions, or, in the response to a verification, one for each."""

    error: ErrorCode = ErrorCode.NONE
    errors: Mapping[TopicPartition, ErrorCode] = _NO_ERRORS
    """Set only for a verification whose ``error`` is NONE: the partitions that are not in the transaction."""


class EndTxnResult(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    producer_id: int | None = None
    """The producer id with which the producer continues; set with transactions V2 only."""
    producer_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id, as DescribeTransactions shows it. With an error, only the id is set."""

    transactional_id: str
    error: ErrorCode = ErrorCode.NONE
    state: TxnState | None = None
    timeout_ms: int = 0
    started_ms: int | None = None
    producer_id: int = 0
    producer_epoch: int = 0
    partitions: tuple[TopicPartition, ...] = ()
    """The partitions of the transaction, sorted."""


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    transactional_id: str
    producer_id: int
    state: TxnState


@dataclass(frozen=True, slots=True)
class TransactionListing:
    error: ErrorCode = ErrorCode.NONE
    unknown_states: tuple[str, ...] = ()
    """The names in the state filter that are not states."""
    transactions: tuple[ListedTransaction, ...] = ()


class WriteMarkers(NamedTuple):
    """An effect: write this marker to all partitions until each has acknowledged it, then call ``markers_written``.

    Writing it twice is harmless: a marker changes nothing in a partition where the producer has no open transaction.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: frozenset[TopicPartition]
    coordinator_epoch: int
    transaction_version: int
    """With 2, the marker's epoch is higher than that of the records that it ends, and a partition may require that."""


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
    """Return ``error``, or the older error code for it if the request's version is too old for it.

    PRODUCER_FENCED (KIP-588) means that another instance has taken over. Before KIP-588, INVALID_PRODUCER_EPOCH meant
    that too, and a client that is older than an error code does not handle it.
    """
    if error is ErrorCode.PRODUCER_FENCED and version < FENCED_SINCE[api]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
