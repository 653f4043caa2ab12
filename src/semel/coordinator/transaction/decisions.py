"""What the decisions of the transaction shard have in common: how a transaction is ended, and how a request is refused.

An end is one record, PREPARE, and the markers that follow from it. Where there are no partitions there are no markers
to wait for: PREPARE and COMPLETE are then one batch, and no request ever meets the id between the two.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, TypeAlias, TypeVar

from semel.coordinator.decision import Decision
from semel.coordinator.transaction import transitions
from semel.coordinator.transaction.effects import WriteMarkers
from semel.coordinator.transaction.records import Transaction, TransactionRecord
from semel.coordinator.transaction.settings import TransactionSettings
from semel.errors import ErrorCode

Response = TypeVar("Response")

TransactionDecision: TypeAlias = Decision[Response, TransactionRecord, WriteMarkers]

NO_PRODUCER_ID_AT_HAND: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""As Kafka answers while it waits for a block of producer ids: to be repeated, and here."""


class AbortedFor(Enum):
    """Why the coordinator aborts a transaction. It decides who may go on under the next epoch."""

    OWNER = auto()
    """It starts again, and repeats its request with the identity it had."""
    ANOTHER_INSTANCE = auto()
    """It has taken the transactional id over: the previous producer is fenced for good."""
    TIMEOUT = auto()
    """With transactions V2 its producer may abort, hear of the next epoch, and go on."""


def ask_again(response: Response, transaction: Transaction) -> TransactionDecision[Response]:
    """CONCURRENT_TRANSACTIONS: the id is between PREPARE and COMPLETE, which takes one sync. The request is decided
    again when COMPLETE is there; the client is told only if that takes long."""
    return Decision(response, wait_for=transaction.transactional_id)


def end(response: Response, prepared: Transaction, *, coordinator_epoch: int) -> TransactionDecision[Response]:
    """``prepared`` becomes final."""
    if not prepared.partitions:
        return Decision(response, records=(prepared, transitions.completed(prepared, now_ms=prepared.updated_ms)))
    return Decision(
        response,
        records=(prepared,),
        effects=(transitions.markers_of(prepared, coordinator_epoch=coordinator_epoch),),
    )


def aborted(
    transaction: Transaction,
    why: AbortedFor,
    *,
    settings: TransactionSettings,
    new_producer_id: int | None,
    now_ms: int,
) -> Transaction | None:
    """The PREPARE_ABORT of a transaction that the coordinator ends, in the cluster's own protocol.

    ``None`` if that takes a new producer id and there is none.
    """
    if settings.transaction_version < 2:
        return transitions.fenced_v1(transaction, by_owner=why is AbortedFor.OWNER, now_ms=now_ms)
    if not transaction.epochs_exhausted:
        new_producer_id = None
    elif new_producer_id is None:
        return None
    return transitions.prepared_v2(
        transaction,
        committed=False,
        new_producer_id=new_producer_id,
        takeover=why is AbortedFor.ANOTHER_INSTANCE,
        now_ms=now_ms,
    )
