"""The moves of a transaction: each function returns the next record, and does not decide whether to make the move.

All of them use ``_moved``, which checks the move against the table in ``states``. A field that a move does not name
keeps its value.
"""

from __future__ import annotations

from typing import Any

from semel.coordinator.transaction.records import EPOCH_MAX, NO_PARTITIONS, Transaction
from semel.coordinator.transaction.results import WriteMarkers
from semel.coordinator.transaction.states import LEGAL_SOURCES, TxnState
from semel.types import TopicPartition


def created(transactional_id: str, *, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """Return the first record of a transactional id."""
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=0,
        last_producer_id=producer_id,  # As Kafka writes it.
        last_producer_epoch=None,
        next_producer_id=None,
        state=TxnState.EMPTY,
        partitions=NO_PARTITIONS,
        timeout_ms=timeout_ms,
        started_ms=None,
        updated_ms=now_ms,
        client_transaction_version=0,
    )


def initialized(
    transaction: Transaction,
    *,
    producer_id: int,
    producer_epoch: int,
    last_producer_epoch: int | None,
    timeout_ms: int,
    now_ms: int,
) -> Transaction:
    """Return the record after InitProducerId: a producer starts, or starts again."""
    return _moved(
        transaction,
        TxnState.EMPTY,
        now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        last_producer_epoch=last_producer_epoch,
        timeout_ms=timeout_ms,
        started_ms=None,
    )


def with_partitions(
    transaction: Transaction, partitions: frozenset[TopicPartition], *, transaction_version: int, now_ms: int
) -> Transaction:
    """Return the record of a transaction that begins with these partitions, or gets them in addition."""
    begins = transaction.state is not TxnState.ONGOING
    return _moved(
        transaction,
        TxnState.ONGOING,
        now_ms,
        # The producer uses this epoch, so it has received it: it does not repeat the request that led to it any more.
        last_producer_epoch=None,
        partitions=partitions if begins else transaction.partitions | partitions,
        started_ms=now_ms if begins else transaction.started_ms,
        client_transaction_version=transaction_version,
    )


def prepared_v1(transaction: Transaction, *, committed: bool, now_ms: int) -> Transaction:
    """Return PREPARE with transactions V1: the producer keeps its epoch."""
    return _moved(transaction, _decision(committed), now_ms, client_transaction_version=0)


def fenced_v1(transaction: Transaction, *, by_owner: bool, now_ms: int) -> Transaction:
    """Return the PREPARE_ABORT of an abort by the coordinator, with transactions V1.

    The bumped epoch fences the producer, unless it requested this itself.
    """
    return _moved(
        transaction,
        TxnState.PREPARE_ABORT,
        now_ms,
        producer_epoch=min(transaction.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=transaction.producer_epoch if by_owner else None,
        client_transaction_version=0,
    )


def prepared_v2(
    transaction: Transaction, *, committed: bool, new_producer_id: int | None, takeover: bool = False, now_ms: int
) -> Transaction:
    """Return PREPARE with transactions V2: under the next epoch, so that late requests with the old one are recognized.

    The last epoch of a producer id is used for these markers only: the producer continues with ``new_producer_id``.
    ``takeover``: another instance takes over the transactional id, and the present producer is fenced for good.
    """
    assert transaction.epochs_exhausted == (new_producer_id is not None), (transaction, new_producer_id)
    return _moved(
        transaction,
        _decision(committed),
        now_ms,
        # No client is given the very last epoch. If one has it nevertheless, it can abort.
        producer_epoch=min(transaction.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=None if takeover else transaction.producer_epoch,
        next_producer_id=new_producer_id,
        # Without partitions it is not known when the transaction began, but Kafka's format requires a time.
        started_ms=transaction.started_ms if transaction.state is TxnState.ONGOING else now_ms,
        client_transaction_version=2,
    )


def completed(transaction: Transaction, *, now_ms: int) -> Transaction:
    """Return COMPLETE, after every marker was written."""
    state = TxnState.COMPLETE_COMMIT if is_commit(transaction) else TxnState.COMPLETE_ABORT
    if transaction.next_producer_id is None:
        return _moved(transaction, state, now_ms, partitions=NO_PARTITIONS)
    return _moved(
        transaction,
        state,
        now_ms,
        producer_id=transaction.next_producer_id,
        producer_epoch=0,
        next_producer_id=None,
        partitions=NO_PARTITIONS,
    )


def markers_of(prepared: Transaction, *, coordinator_epoch: int) -> WriteMarkers:
    return WriteMarkers(
        transactional_id=prepared.transactional_id,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        committed=is_commit(prepared),
        partitions=prepared.partitions,
        coordinator_epoch=coordinator_epoch,
        transaction_version=prepared.client_transaction_version,
    )


def is_commit(transaction: Transaction) -> bool:
    """Whether the outcome of a decided transaction is commit."""
    return transaction.state in (TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT)


def _decision(committed: bool) -> TxnState:
    return TxnState.PREPARE_COMMIT if committed else TxnState.PREPARE_ABORT


def _moved(transaction: Transaction, state: TxnState, now_ms: int, **changes: Any) -> Transaction:
    assert transaction.state in LEGAL_SOURCES[state], f"{transaction} may not become {state.name}"
    return transaction._replace(state=state, last_producer_id=transaction.producer_id, updated_ms=now_ms, **changes)
