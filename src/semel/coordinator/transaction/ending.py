"""EndTxn: commit or abort, decided once and answered as often as it is asked.

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
"""

from __future__ import annotations

from semel.coordinator.decision import Decision
from semel.coordinator.transaction import transitions
from semel.coordinator.transaction.decisions import NO_PRODUCER_ID_AT_HAND, TransactionDecision, ask_again, end
from semel.coordinator.transaction.records import EPOCH_MAX, Transaction
from semel.coordinator.transaction.results import EndTxnResult
from semel.coordinator.transaction.states import COMPLETE, PREPARED, TxnState
from semel.errors import ErrorCode


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
        return _refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != producer_epoch:
        return _refuse(ErrorCode.PRODUCER_FENCED)
    if transaction.state in PREPARED:
        return ask_again(EndTxnResult(ErrorCode.CONCURRENT_TRANSACTIONS), transaction)
    if transaction.state is TxnState.ONGOING:
        prepared = transitions.prepared_v1(transaction, committed=committed, now_ms=now_ms)
        return end(EndTxnResult(), prepared, coordinator_epoch=coordinator_epoch)
    if transaction.state in COMPLETE and transitions.is_commit(transaction) == committed:
        return Decision(EndTxnResult())
    return _refuse(ErrorCode.INVALID_TXN_STATE)


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
            return _refuse(ErrorCode.INVALID_TXN_STATE)
        return Decision(_going_on_with(transaction))
    rotated_away = producer_id == transaction.last_producer_id and producer_epoch == EPOCH_MAX - 1
    if transaction.producer_id != producer_id and not rotated_away:
        return _refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not transaction.is_present(producer_id, producer_epoch):
        return _refuse(ErrorCode.PRODUCER_FENCED)
    if committed and (transaction.state is not TxnState.ONGOING or producer_epoch == EPOCH_MAX):
        return _refuse(ErrorCode.INVALID_TXN_STATE)
    if not transaction.epochs_exhausted:
        new_producer_id = None
    elif new_producer_id is None:
        return _refuse(NO_PRODUCER_ID_AT_HAND)
    prepared = transitions.prepared_v2(transaction, committed=committed, new_producer_id=new_producer_id, now_ms=now_ms)
    return end(_going_on_with(prepared), prepared, coordinator_epoch=coordinator_epoch)


def _going_on_with(transaction: Transaction) -> EndTxnResult:
    """The identity that the producer has once the transaction is complete."""
    if transaction.next_producer_id is None:
        return EndTxnResult(producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch)
    return EndTxnResult(producer_id=transaction.next_producer_id, producer_epoch=0)


def _refuse(error: ErrorCode) -> TransactionDecision[EndTxnResult]:
    return Decision(EndTxnResult(error))
