"""One partition of ``__transaction_state``, as a state machine: see ``TransactionShard``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

from semel.coordinator.deadlines import Deadlines
from semel.coordinator.decision import Decision, Waiter
from semel.coordinator.moment import Moment
from semel.coordinator.transaction import records, transitions
from semel.coordinator.transaction.decisions import (
    AbortedFor,
    TransactionDecision,
    aborted,
    ask_again,
    end,
    end_v1,
    end_v2,
    init_known,
    init_new,
)
from semel.coordinator.transaction.known import KnownTransactions
from semel.coordinator.transaction.listing import ListFilters, listing
from semel.coordinator.transaction.records import Tombstone, Transaction, TransactionRecord
from semel.coordinator.transaction.results import (
    AddPartitionsResult,
    EndTxnResult,
    InitProducerIdResult,
    TransactionDescription,
    TransactionListing,
    WriteMarkers,
    error_for_version,
)
from semel.coordinator.transaction.settings import TransactionSettings
from semel.coordinator.transaction.states import IDLE, PREPARED, TxnState
from semel.errors import ErrorCode
from semel.types import INT32_MAX, INT64_MAX, Buffer, ProducerIdentity, TopicPartition
from semel.wire.apis import ApiKey

# A wall clock that is behind by less than this is not corrected: it is read in whole milliseconds, and may be slewed.
_SET_BACK_MS_MIN: Final = 1000


class TransactionShard:
    """The transactional ids of one partition of ``__transaction_state``, and the state of each.

    Handlers decide and change nothing; ``replay`` changes the state and decides nothing. The runtime appends a
    decision's records, replays them, and sends the response and runs the effects only once those records are committed.
    No client receives a result that was not committed, so the broker may lose leadership at any moment. The outcome of
    a transaction is final with its PREPARE record; only COMPLETE with the same outcome can follow.

    The broker calls ``markers_written`` once for every ``WriteMarkers``, and drops the effects when the shard is
    unloaded. The cost of a handler does not grow with the number of known ids.

    Implements ``coordinator.shard.Shard``. ``next_producer_id`` returns a new producer id, or ``None`` if none is at
    hand.
    """

    def __init__(
        self,
        *,
        partition: int,
        coordinator_epoch: int,
        settings: TransactionSettings,
        next_producer_id: Callable[[], int | None],
    ) -> None:
        self.partition = partition
        self._next_producer_id = next_producer_id
        self.coordinator_epoch = coordinator_epoch
        self._settings = settings
        self._transactions = KnownTransactions()
        self._ongoing: Deadlines[str] = Deadlines()
        # The wall clock less the monotonic clock, at the last ``time_out``. It falls when the wall clock is set back.
        self._wall_offset_ms: float | None = None
        self._prepared: dict[str, None] = {}
        # The ids that the present round of ``expire`` has not examined yet. No response depends on them.
        self._to_examine: list[str] = []

    # -- requests of producers

    def needs_producer_id(self, transactional_id: str, *, for_init: bool) -> bool:
        """Whether ``init_producer_id`` (``for_init``) or a V2 ``end_txn`` may need a ``new_producer_id``.

        Without one they return a retriable error in that case.
        """
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            return for_init
        return transaction.epochs_exhausted and transaction.state not in PREPARED

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        producer_id: int | None,
        producer_epoch: int | None,
        *,
        new_producer_id: int | None,
        api_version: int,
        now_ms: int,
    ) -> TransactionDecision[InitProducerIdResult]:
        """InitProducerId. ``producer_id`` and ``producer_epoch``: those that the producer has already, or ``None``."""
        if not transactional_id or (producer_id is None) != (producer_epoch is None):
            return Decision(InitProducerIdResult(ErrorCode.INVALID_REQUEST))
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            return Decision(InitProducerIdResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            return init_new(transactional_id, timeout_ms=timeout_ms, new_producer_id=new_producer_id, now_ms=now_ms)
        decision = init_known(
            transaction,
            None if producer_id is None or producer_epoch is None else ProducerIdentity(producer_id, producer_epoch),
            timeout_ms=timeout_ms,
            new_producer_id=new_producer_id,
            settings=self._settings,
            coordinator_epoch=self.coordinator_epoch,
            now_ms=now_ms,
        )
        error = error_for_version(decision.response.error, ApiKey.INIT_PRODUCER_ID, api_version)
        return decision._replace(response=decision.response._replace(error=error))

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        verify_only: bool = False,
        transaction_version: int = 0,
        now_ms: int,
    ) -> TransactionDecision[AddPartitionsResult]:
        """AddPartitionsToTxn: add partitions to the open transaction, or begin one with them.

        With ``verify_only``, only return those that are not in it. AddOffsetsToTxn adds the group's partition of
        ``__consumer_offsets`` in the same way.
        """
        if not transactional_id:
            return Decision(AddPartitionsResult(ErrorCode.INVALID_REQUEST))
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            return Decision(AddPartitionsResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        # Checked before the identity: a V2 producer may already have the next identity, from a response it received.
        if transaction.state in PREPARED and not verify_only:
            return ask_again(AddPartitionsResult(ErrorCode.CONCURRENT_TRANSACTIONS), transaction)
        if transaction.producer_id != producer_id:
            return Decision(AddPartitionsResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        if transaction.producer_epoch != producer_epoch:
            return Decision(AddPartitionsResult(ErrorCode.PRODUCER_FENCED))
        if transaction.state in PREPARED:
            return ask_again(AddPartitionsResult(ErrorCode.CONCURRENT_TRANSACTIONS), transaction)
        missing = [partition for partition in partitions if partition not in transaction.partitions]
        if verify_only:
            return Decision(AddPartitionsResult(errors=dict.fromkeys(missing, ErrorCode.TRANSACTION_ABORTABLE)))
        if not missing:
            return Decision(AddPartitionsResult())
        if transaction.state is not TxnState.ONGOING and len(self._ongoing) >= self._settings.open_max:
            return Decision(AddPartitionsResult(ErrorCode.CONCURRENT_TRANSACTIONS))
        added = transitions.with_partitions(
            transaction, frozenset(missing), transaction_version=transaction_version, now_ms=now_ms
        )
        return Decision(AddPartitionsResult(), records=(added,))

    def end_txn(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        *,
        transaction_version: int,
        new_producer_id: int | None,
        now_ms: int,
    ) -> TransactionDecision[EndTxnResult]:
        """EndTxn. ``transaction_version``: that of the request, 2 from EndTxn version 5 on."""
        if not transactional_id:
            return Decision(EndTxnResult(ErrorCode.INVALID_REQUEST))
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            return Decision(EndTxnResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        if transaction_version < 2:
            return end_v1(
                transaction,
                producer_id,
                producer_epoch,
                committed=committed,
                coordinator_epoch=self.coordinator_epoch,
                now_ms=now_ms,
            )
        return end_v2(
            transaction,
            producer_id,
            producer_epoch,
            committed=committed,
            new_producer_id=new_producer_id,
            coordinator_epoch=self.coordinator_epoch,
            now_ms=now_ms,
        )

    # -- what the coordinator does by itself

    def markers_written(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, now_ms: int
    ) -> TransactionDecision[None]:
        """Every partition has acknowledged the marker of this producer id and epoch: PREPARE becomes COMPLETE."""
        transaction = self._transactions.get(transactional_id)
        if (
            transaction is None
            or transaction.state not in PREPARED
            or not transaction.is_present(producer_id, producer_epoch)
        ):
            return Decision(None)
        return Decision(None, records=(transitions.completed(transaction, now_ms=now_ms),))

    def next_deadline_ms(self) -> None:
        """``None``: transactions time out by the wall clock, so the broker calls ``time_out`` at intervals."""

    def time_out(self, moment: Moment) -> Iterator[TransactionDecision[str]]:
        """Abort transactions that are open for longer than their timeout, under the next epoch.

        The response of each decision is the transactional id. If the epochs are exhausted and no new producer id is at
        hand, the next call tries again.
        """
        self._correct_deadlines(moment)
        due = list(self._ongoing.take_due(moment.wall_ms))
        for transactional_id in due:
            # It stays due until the PREPARE record is replayed: a decision that cannot be written is made again.
            self._ongoing.set(transactional_id, moment.wall_ms)
        for transactional_id in due:
            transaction = self._transactions[transactional_id]
            prepared = aborted(
                transaction,
                AbortedFor.TIMEOUT,
                settings=self._settings,
                new_producer_id=self._next_producer_id() if transaction.epochs_exhausted else None,
                now_ms=moment.wall_ms,
            )
            if prepared is not None:
                yield end(transactional_id, prepared, coordinator_epoch=self.coordinator_epoch)

    def _correct_deadlines(self, moment: Moment) -> None:
        """Keep a wall clock that was set back from prolonging open transactions, which hold back their readers.

        The start of a transaction is a time of the wall clock, perhaps of another broker's. If it is in the future at
        the first call, the clock of the coordinator before was ahead: the transaction gets its whole timeout from now
        on. After that, deadlines move together with the clock when it is set back.
        """
        offset_ms = moment.wall_ms - moment.monotonic_ms
        if self._wall_offset_ms is None:
            for transactional_id in self._ongoing:
                transaction = self._transactions[transactional_id]
                if transaction.started_ms is not None and transaction.started_ms > moment.wall_ms:
                    due_ms = _due_ms(transaction._replace(started_ms=moment.wall_ms))
                    self._ongoing.set_earlier(transactional_id, due_ms)
            self._wall_offset_ms = offset_ms
        elif self._wall_offset_ms - offset_ms >= _SET_BACK_MS_MIN:
            self._ongoing.shift(offset_ms - self._wall_offset_ms)
            self._wall_offset_ms = offset_ms
        else:
            self._wall_offset_ms = max(self._wall_offset_ms, offset_ms)

    def expire(self, now_ms: int, *, examined_max: int = 1000) -> Sequence[TransactionDecision[str]]:
        """Decide to remove ids that have been idle for too long. The response of a decision is the transactional id.

        Each call examines the next ``examined_max`` ids, and after the last one begins again with the first: call it
        often, or with a large number.
        """
        if not self._to_examine:
            self._to_examine = [*self._transactions]
        examined = self._to_examine[-examined_max:]
        del self._to_examine[-examined_max:]
        idle_since_ms = now_ms - self._settings.transactional_id_expiration_ms
        return [
            Decision(transaction.transactional_id, records=(Tombstone(transaction.transactional_id),))
            for transaction in map(self._transactions.get, examined)
            if transaction is not None and transaction.state in IDLE and transaction.updated_ms <= idle_since_ms
        ]

    def loaded(self, moment: Moment) -> TransactionDecision[None]:
        """Decide to write the markers of transactions that were in PREPARE when the shard was loaded."""
        return Decision(None, effects=tuple(self.pending_markers()))

    def unload(self) -> Sequence[Waiter[Any]]:
        """Return no requests: none is ever deferred here."""
        return ()

    def pending_markers(self) -> Sequence[WriteMarkers]:
        """The markers of all transactions in PREPARE, that is, decided and not complete."""
        return [
            transitions.markers_of(self._transactions[transactional_id], coordinator_epoch=self.coordinator_epoch)
            for transactional_id in self._prepared
        ]

    # -- reading

    def describe(self, transactional_id: str) -> TransactionDescription:
        if not transactional_id:
            return TransactionDescription(transactional_id, ErrorCode.INVALID_REQUEST)
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            return TransactionDescription(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return TransactionDescription(
            transactional_id,
            state=transaction.state,
            timeout_ms=transaction.timeout_ms,
            started_ms=transaction.started_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            partitions=tuple(sorted(transaction.partitions)),
        )

    def list(self, filters: ListFilters, *, now_ms: int) -> TransactionListing:
        return self.list_some(self.candidate_ids(filters), filters, now_ms=now_ms)

    def list_some(self, transactional_ids: Iterable[str], filters: ListFilters, *, now_ms: int) -> TransactionListing:
        """ListTransactions for some ids, as they are now. An id that is not known any more is left out."""
        known = map(self._transactions.get, transactional_ids)
        return listing((transaction for transaction in known if transaction is not None), filters, now_ms=now_ms)

    def candidate_ids(self, filters: ListFilters) -> Iterable[str]:
        """The ids of the transactions that may match. None is decoded for that."""
        if filters.only_open():
            return chain(self._ongoing, self._prepared)
        if filters.producer_ids:
            return self._transactions.ids_of_producers(filters.producer_ids, with_last=filters.with_last_producer_id)
        return iter(self._transactions)

    def get(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    def open_transactions(self) -> Iterator[Transaction]:
        """The transactions that are not complete: those in ONGOING and those in PREPARE."""
        return map(self._transactions.__getitem__, chain(self._ongoing, self._prepared))

    def __len__(self) -> int:
        """How many transactional ids are known."""
        return len(self._transactions)

    # -- the log

    def encode(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        return records.encode(record, transaction_version=self._settings.transaction_version)

    def decode(self, key: Buffer | None, value: Buffer | None) -> TransactionRecord | None:
        return records.decode_to_load(key, value)

    def id_of(self, record: TransactionRecord) -> str:
        return record.transactional_id

    # -- the only writer

    def replay(
        self, record: TransactionRecord, offset: int | None = None, producer: ProducerIdentity | None = None
    ) -> None:
        """Change the state of an id: its last record counts. This topic is not written in transactions."""
        transactional_id = record.transactional_id
        open_before = self._transactions.get(transactional_id) if transactional_id in self._ongoing else None
        if isinstance(record, Tombstone):
            self._transactions.pop(transactional_id)
        else:
            self._transactions.put(record)
        if not isinstance(record, Transaction):
            self._ongoing.discard(transactional_id)
            self._prepared.pop(transactional_id, None)
            return
        if record.state is TxnState.ONGOING:
            # A transaction that is open already keeps its deadline, which may have been corrected.
            due_ms = _due_ms(record)
            if open_before is None or due_ms != _due_ms(open_before):
                self._ongoing.set(transactional_id, due_ms)
        else:
            self._ongoing.discard(transactional_id)
        if record.state in PREPARED:
            self._prepared[transactional_id] = None
        else:
            self._prepared.pop(transactional_id, None)

    def replay_marker(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Do nothing: this topic is not written in transactions, so a marker ends nothing here."""

    def apply(self, change: object) -> None:
        raise AssertionError(f"{change!r}: a transaction shard is its log and nothing beside it")


def _due_ms(transaction: Transaction) -> int:
    """Return the first millisecond at which an open transaction has exceeded its timeout."""
    if transaction.started_ms is None or transaction.timeout_ms == INT32_MAX:
        return INT64_MAX  # In Kafka this timeout means that another system decides the transaction (KIP-939).
    return transaction.started_ms + transaction.timeout_ms + 1
