"""InitProducerId: who owns a transactional id from now on, and under which producer id and epoch.

- A producer that sends no identity is a new instance: it gets the next epoch, and the previous producer is fenced.
- A producer that sends its identity (KIP-360) has its own epoch bumped. If it repeats a request whose answer was lost,
  it gets that answer again. Any other identity is an old one, and fenced.
- An open transaction is aborted first, one that is decided is waited for; the request is to be repeated:
  CONCURRENT_TRANSACTIONS.
- The last epoch is never given out, so that there is always one to fence with: a new producer id takes over.

Where Kafka 4.3 differs, each time for an identity that is not the present one: there, it aborts the transaction that
the present owner has open; a repeated request that had used up the epochs fails with an unexpected error; and one is
fenced if the coordinator has moved since, because Kafka's records do not hold the last epoch.
"""

from __future__ import annotations

from semel.coordinator.decision import Decision
from semel.coordinator.transaction import transitions
from semel.coordinator.transaction.decisions import (
    NO_PRODUCER_ID_AT_HAND,
    AbortedFor,
    TransactionDecision,
    aborted,
    ask_again,
    end,
)
from semel.coordinator.transaction.records import Transaction
from semel.coordinator.transaction.results import InitProducerIdResult
from semel.coordinator.transaction.settings import TransactionSettings
from semel.coordinator.transaction.states import IDLE, PREPARED, TxnState
from semel.errors import ErrorCode
from semel.types import ProducerIdentity


def init_new(
    transactional_id: str, *, timeout_ms: int, new_producer_id: int | None, now_ms: int
) -> TransactionDecision[InitProducerIdResult]:
    """The id is not known, or no longer: what identity the producer believes in does not matter."""
    if new_producer_id is None:
        return _refuse(NO_PRODUCER_ID_AT_HAND)
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
        return _refuse(ErrorCode.PRODUCER_FENCED)
    if transaction.state is TxnState.ONGOING:
        prepared = aborted(
            transaction,
            AbortedFor.OWNER if owns else AbortedFor.ANOTHER_INSTANCE,
            settings=settings,
            new_producer_id=new_producer_id,
            now_ms=now_ms,
        )
        if prepared is None:
            return _refuse(NO_PRODUCER_ID_AT_HAND)
        again = InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
        ending = end(again, prepared, coordinator_epoch=coordinator_epoch)
        return ending._replace(wait_for=transaction.transactional_id)
    if not transaction.epochs_exhausted:
        present = ProducerIdentity(transaction.producer_id, transaction.producer_epoch + 1)
    elif new_producer_id is not None:
        present = ProducerIdentity(new_producer_id, 0)
    else:
        return _refuse(NO_PRODUCER_ID_AT_HAND)
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


def _refuse(error: ErrorCode) -> TransactionDecision[InitProducerIdResult]:
    return Decision(InitProducerIdResult(error))
