"""The decisions of the transaction coordinator: InitProducerId, EndTxn, and the abort that it decides on by itself.

Each function reads the last record of a transactional id and returns a decision. ``transitions`` makes the records.

InitProducerId: which producer owns a transactional id from now on, and under which producer id and epoch.

- A producer that sends no identity is a new instance: it gets the next epoch, and the previous producer is fenced.
- A producer that sends its identity (KIP-360) has its own epoch bumped. If it repeats a request whose answer was lost,
  it gets that answer again. Any other identity is an old one, and fenced.
- An open transaction is aborted first, one that is decided is waited for: CONCURRENT_TRANSACTIONS.
- The last epoch is never given out, so that there is always one to fence with: a new producer id takes over.

Where Kafka 4.3 differs, each time for an identity that is not the present one: there, it aborts the transaction that
the present owner has open; a repeated request that had used up the epochs fails with an unexpected error; and one is
fenced if the coordinator has moved since, because Kafka's records do not hold the last epoch.

EndTxn: commit or abort, decided once and answered as often as it is asked.

With transactions V1 a producer keeps its epoch, so the state is all there is to tell a repeated EndTxn from the next
one. An EndTxn that the network holds back until the next transaction is open ends that one (KAFKA-17754): V1 cannot
be made safe against it, which is why V2 exists.

With transactions V2 every end bumps the epoch. A repeated EndTxn carries the epoch before; it is answered with the
epoch after, if it asks for the outcome that was recorded. What that leaves, per state and outcome:

                      abort                          commit
                      repeated        present epoch  repeated        present epoch
    EMPTY             fenced          bumps          fenced          INVALID_TXN_STATE
    COMPLETE_ABORT    answered again  bumps          INVALID_TXN_..  INVALID_TXN_STATE
    COMPLETE_COMMIT   INVALID_TXN_..  bumps          answered again  INVALID_TXN_STATE

*Bumps*: the producer aborts a transaction to which the coordinator never saw a partition added. It may have tried to,
and the attempt may still be on its way: under the next epoch that attempt is late.

An end is one record, PREPARE, and the markers that follow from it. Where there are no partitions there are no markers
to wait for: PREPARE and COMPLETE are then one batch, and no request ever meets the id between the two.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, TypeAlias, TypeVar

from semel.coordinator.decision import Decision
from semel.coordinator.transaction import transitions
from semel.coordinator.transaction.records import EPOCH_MAX, Transaction, TransactionRecord
from semel.coordinator.transaction.results import EndTxnResult, InitProducerIdResult, WriteMarkers
from semel.coordinator.transaction.settings import TransactionSettings
from semel.coordinator.transaction.states import COMPLETE, IDLE, PREPARED, TxnState
from semel.errors import ErrorCode
from semel.types import ProducerIdentity

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


# -- InitProducerId


def init_new(
    transactional_id: str, *, timeout_ms: int, new_producer_id: int | None, now_ms: int
) -> TransactionDecision[InitProducerIdResult]:
    """The id is not known, or no longer: what identity the producer believes in does not matter."""
    if new_producer_id is None:
        return _refuse_init(NO_PRODUCER_ID_AT_HAND)
    created = transitions.created(transactional_id, producer_id=new_producer_id, timeout_ms=timeout_ms, now_ms=now_ms)
    return Decision(_granted(created), records=(created,))


def init_known(
    transaction: Transaction,
    identity: ProducerIdentity | None,
    *,
    timeout_ms: int,
    new_producer_id: int | None,
    settings: TransactionSettings,
    coordinator_epoch: int,
    now_ms: int,
) -> TransactionDecision[InitProducerIdResult]:
    """``identity``: the one that the producer has, if it has one."""
    if transaction.state in PREPARED:
        return ask_again(InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS), transaction)
    owns = identity is not None and transaction.is_present(*identity)
    if identity is not None and not owns:
        if transaction.state in IDLE and transaction.is_last(*identity):
            return Decision(_granted(transaction))
        return _refuse_init(ErrorCode.PRODUCER_FENCED)
    if transaction.state is TxnState.ONGOING:
        prepared = aborted(
            transaction,
            AbortedFor.OWNER if owns else AbortedFor.ANOTHER_INSTANCE,
            settings=settings,
            new_producer_id=new_producer_id,
            now_ms=now_ms,
        )
        if prepared is None:
            return _refuse_init(NO_PRODUCER_ID_AT_HAND)
        again = InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
        ending = end(again, prepared, coordinator_epoch=coordinator_epoch)
        return ending._replace(wait_for=transaction.transactional_id)
    if not transaction.epochs_exhausted:
        present = ProducerIdentity(transaction.producer_id, transaction.producer_epoch + 1)
    elif new_producer_id is not None:
        present = ProducerIdentity(new_producer_id, 0)
    else:
        return _refuse_init(NO_PRODUCER_ID_AT_HAND)
    initialized = transitions.initialized(
        transaction,
        producer_id=present.producer_id,
        producer_epoch=present.producer_epoch,
        last_producer_epoch=transaction.producer_epoch if owns else None,
        timeout_ms=timeout_ms,
        now_ms=now_ms,
    )
    return Decision(_granted(initialized), records=(initialized,))


def _granted(transaction: Transaction) -> InitProducerIdResult:
    return InitProducerIdResult(producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch)


def _refuse_init(error: ErrorCode) -> TransactionDecision[InitProducerIdResult]:
    return Decision(InitProducerIdResult(error))


# -- EndTxn


def end_v1(
    transaction: Transaction,
    producer_id: int,
    producer_epoch: int,
    *,
    committed: bool,
    coordinator_epoch: int,
    now_ms: int,
) -> TransactionDecision[EndTxnResult]:
    if transaction.producer_id != producer_id:
        return _refuse_end(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != producer_epoch:
        return _refuse_end(ErrorCode.PRODUCER_FENCED)
    if transaction.state in PREPARED:
        return ask_again(EndTxnResult(ErrorCode.CONCURRENT_TRANSACTIONS), transaction)
    if transaction.state is TxnState.ONGOING:
        prepared = transitions.prepared_v1(transaction, committed=committed, now_ms=now_ms)
        return end(EndTxnResult(), prepared, coordinator_epoch=coordinator_epoch)
    if transaction.state in COMPLETE and transitions.is_commit(transaction) == committed:
        return Decision(EndTxnResult())
    return _refuse_end(ErrorCode.INVALID_TXN_STATE)


def end_v2(
    transaction: Transaction,
    producer_id: int,
    producer_epoch: int,
    *,
    committed: bool,
    new_producer_id: int | None,
    coordinator_epoch: int,
    now_ms: int,
) -> TransactionDecision[EndTxnResult]:
    # Before the identity is looked at: the producer may be ahead of the record, with the identity it was answered.
    if transaction.state in PREPARED:
        return ask_again(EndTxnResult(ErrorCode.CONCURRENT_TRANSACTIONS), transaction)
    if transaction.state in COMPLETE and transaction.is_last(producer_id, producer_epoch):
        if transitions.is_commit(transaction) != committed:
            return _refuse_end(ErrorCode.INVALID_TXN_STATE)
        return Decision(_going_on_with(transaction))
    rotated_away = producer_id == transaction.last_producer_id and producer_epoch == EPOCH_MAX - 1
    if transaction.producer_id != producer_id and not rotated_away:
        return _refuse_end(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not transaction.is_present(producer_id, producer_epoch):
        return _refuse_end(ErrorCode.PRODUCER_FENCED)
    if committed and (transaction.state is not TxnState.ONGOING or producer_epoch == EPOCH_MAX):
        return _refuse_end(ErrorCode.INVALID_TXN_STATE)
    if not transaction.epochs_exhausted:
        new_producer_id = None
    elif new_producer_id is None:
        return _refuse_end(NO_PRODUCER_ID_AT_HAND)
    prepared = transitions.prepared_v2(transaction, committed=committed, new_producer_id=new_producer_id, now_ms=now_ms)
    return end(_going_on_with(prepared), prepared, coordinator_epoch=coordinator_epoch)


def _going_on_with(transaction: Transaction) -> EndTxnResult:
    """The identity that the producer has once the transaction is complete."""
    if transaction.next_producer_id is None:
        return EndTxnResult(producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch)
    return EndTxnResult(producer_id=transaction.next_producer_id, producer_epoch=0)


def _refuse_end(error: ErrorCode) -> TransactionDecision[EndTxnResult]:
    return Decision(EndTxnResult(error))


# -- what they have in common


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
