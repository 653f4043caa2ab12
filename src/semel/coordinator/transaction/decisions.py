"""The decisions of the transaction coordinator: InitProducerId, EndTxn, and aborts by the coordinator itself.

Each function reads the last record of a transactional id and returns a decision. ``transitions`` makes the records.

InitProducerId: which producer owns a transactional id from now on, and under which producer id and epoch.

- A producer that sends no identity is a new instance: it gets the next epoch, and the previous producer is fenced.
- A producer that sends its identity (KIP-360) has its own epoch bumped. If it repeats a request whose answer was lost,
  it gets that answer again. Any other identity is an old one, and fenced.
- An open transaction is aborted first, and a decided one must be complete first: CONCURRENT_TRANSACTIONS until then.
- The last epoch is never given to a producer, so that there is always one to fence with: the producer gets a new
  producer id instead.

Kafka 4.3 differs in three cases, each with an identity that is not the present one. There such a request aborts the
transaction that the present owner has open; a repeated request that had used up the epochs fails with an unexpected
error; and a repeated request is fenced if the coordinator has moved since, because Kafka's records do not hold the last
epoch.

EndTxn: commit or abort. It is decided once, and a repeated request gets the same answer.

With transactions V1 a producer keeps its epoch, so only the state can tell a repeated EndTxn from the next one. An
EndTxn that the network delays until the next transaction is open ends that one (KAFKA-17754): V1 cannot be made safe
against it, which is why V2 exists.

With transactions V2 every end bumps the epoch. A repeated EndTxn carries the previous epoch; it is answered with the
new epoch, if it requests the outcome that was recorded. The answers, by state and requested outcome:

                      abort                          commit
                      repeated        present epoch  repeated        present epoch
    EMPTY             fenced          bumps          fenced          INVALID_TXN_STATE
    COMPLETE_ABORT    answered again  bumps          INVALID_TXN_..  INVALID_TXN_STATE
    COMPLETE_COMMIT   INVALID_TXN_..  bumps          answered again  INVALID_TXN_STATE

*Bumps*: the producer aborts a transaction to which the coordinator has added no partition. The producer may have tried
to add one, and that request may still arrive: the next epoch makes it invalid.

A transaction is ended by one record, PREPARE, and the markers that follow from it. Without partitions there are no
markers to wait for: PREPARE and COMPLETE are then one batch, and no request is decided between the two.
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
"""The error while a block of producer ids is being claimed, as in Kafka: the client retries with this coordinator."""


class AbortedFor(Enum):
    """Why the coordinator aborts a transaction. The reason decides which producer may use the next epoch."""

    OWNER = auto()
    """The producer itself starts again. It repeats its InitProducerId with the identity that it had."""
    ANOTHER_INSTANCE = auto()
    """Another instance takes over the transactional id: the previous producer is fenced for good."""
    TIMEOUT = auto()
    """The transaction timed out. With transactions V2 its producer may abort, receive the next epoch, and continue."""


# -- InitProducerId


def init_new(
    transactional_id: str, *, timeout_ms: int, new_producer_id: int | None, now_ms: int
) -> TransactionDecision[InitProducerIdResult]:
    """InitProducerId for a transactional id that is not known (any more): the producer's own identity is ignored."""
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
    """InitProducerId for a known transactional id. ``identity``: what the producer sends as its own, if it has one."""
    if transaction.state in PREPARED:
        return ask_again(InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS), transaction)
    owns = identity is not None and transaction.is_present(*identity)
    if identity is not None and not owns:
        repeats = transaction.state in IDLE and transaction.is_last(*identity)
        if not repeats:
            return _refuse_init(ErrorCode.PRODUCER_FENCED)
        # The reserved epoch: without transactions V2, an abort for the owner at its last epoch has used it. A producer
        # that had it could not be fenced, so the owner gets a new producer id.
        if transaction.producer_epoch < EPOCH_MAX:
            return Decision(_granted(transaction))
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
        last_producer_epoch=None if identity is None else identity.producer_epoch,
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
    # Checked before the identity: the producer may already have the next identity, from a response that it received.
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
    """Return the response with the identity that the producer has once the transaction is complete."""
    if transaction.next_producer_id is None:
        return EndTxnResult(producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch)
    return EndTxnResult(producer_id=transaction.next_producer_id, producer_epoch=0)


def _refuse_end(error: ErrorCode) -> TransactionDecision[EndTxnResult]:
    return Decision(EndTxnResult(error))


# -- what they have in common


def ask_again(response: Response, transaction: Transaction) -> TransactionDecision[Response]:
    """Let a request wait while the id is between PREPARE and COMPLETE, which takes one sync.

    It is decided again when COMPLETE was replayed. ``response`` (CONCURRENT_TRANSACTIONS) is sent only if that takes
    too long.
    """
    return Decision(response, wait_for=transaction.transactional_id)


def end(response: Response, prepared: Transaction, *, coordinator_epoch: int) -> TransactionDecision[Response]:
    """Decide to write ``prepared``, the PREPARE record of a transaction, and what follows from it."""
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
    """Return the PREPARE_ABORT of a transaction that the coordinator ends, by the cluster's ``transaction.version``.

    ``None`` if that needs a new producer id and none is given.
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
