"""The producer state of one partition (Kafka's ProducerStateManager): sequences, epochs, and open transactions.

The law: ``check`` and ``check_marker`` decide and change nothing; ``replay`` changes the state and refuses nothing. The
log calls ``check`` before it writes and ``replay`` after the bytes are written. So a failed write leaves the state as
it was (KAFKA-6683), and the state is always the replay of the log. Followers and recovery only replay.

The result of ``check`` for a producer's next batch:

    epoch older than known                     INVALID_PRODUCER_EPOCH
    epoch newer than known                     accepted at sequence 0, else OUT_OF_ORDER_SEQUENCE_NUMBER
    the next sequence                          accepted
    exactly one of the last five batches       Duplicate: the offsets that the first one got
    older than those, known to be in the log   DUPLICATE_SEQUENCE_NUMBER: clients treat it as success
    anything else (gap, partial overlap)       OUT_OF_ORDER_SEQUENCE_NUMBER
    producer not known                         accepted at any sequence: it may have expired
    producer not known, limit is reached       NOT_ENOUGH_REPLICAS: all clients send it again

DUPLICATE_SEQUENCE_NUMBER for a batch that never arrived would lose it. So it is returned only if the batch is known to
be in the log. Example: a producer's state expired, and then its second batch arrives before its first. The first must
not be answered with DUPLICATE_SEQUENCE_NUMBER.

DeleteRecords does not change this state, or the next sequence of a live producer would look like a gap. Producers are
forgotten after a time without a batch (``expire``).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from semel.errors import ErrorCode, KafkaError
from semel.log.producers import producer_snapshot
from semel.log.producers.known_producer import KnownProducer
from semel.log.producers.producer_snapshot import ProducerEntry
from semel.types import TopicPartition
from semel.wire.control import EndTransactionMarker
from semel.wire.records import NO_SEQUENCE, BatchHeader

PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
PRODUCERS_MAX: Final = 100_000
"""The largest number of known producers of one partition. No producer is forgotten to make room for a new one, because
its duplicates would not be recognised any more. A new producer gets a retriable error until others have expired."""
TRANSACTIONAL_RESERVE: Final = 20_000
"""How many more producers are accepted if they are in transactions. A client that may write to the partition can get
any number of producer ids, and so could use up the limit for all clients. A producer id for transactions also requires
the right to a transactional id, and each transactional id has one producer id."""
REFUSALS: Final = frozenset(
    {
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    }
)
"""The errors with which the producer state refuses a batch. They depend on what is in the log, and a leader that was
replaced while it was paused lacks what its successor has. So with several replicas such an error is sent to the
producer only after the term is confirmed."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The result of ``check`` for a batch that is in the log already: its offsets there."""

    base_offset: int
    last_offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp: int


class CompletedTransaction(NamedTuple):
    """A transaction with records in this partition whose marker, at ``last_offset``, is in the log."""

    producer_id: int
    first_offset: int
    last_offset: int
    committed: bool


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp: int
    coordinator_epoch: int | None
    current_transaction_start_offset: int | None


class FrozenProducers:
    """A copy of the producers of one partition. It never changes, so any thread may read it."""

    __slots__ = ("_producers",)

    def __init__(self, producers: list[KnownProducer]) -> None:
        self._producers = producers

    def __len__(self) -> int:
        return len(self._producers)

    def encode(self) -> bytes:
        """The content of a ``.snapshot`` file."""
        return producer_snapshot.encode_fields(producer.to_fields() for producer in self._producers)

    def entries(self) -> Iterator[ProducerEntry]:
        """The producers, one by one."""
        return (producer.to_entry() for producer in self._producers)


class ProducerStates:
    """The state of all producers of one partition."""

    __slots__ = ("_ended", "_open", "_producers", "_version", "producer_id_expiration_ms", "topic_partition")

    def __init__(
        self, topic_partition: TopicPartition, *, producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    ) -> None:
        self.topic_partition = topic_partition
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self._producers: dict[int, KnownProducer] = {}
        # A producer of an older version is part of a frozen state: it is copied before it is changed.
        self._version = 0
        # First offset -> producer. Replay runs in the order of the log, so the order of insertion is the order of
        # offsets. Not a plain dict, which finds its first key only by a walk over all entries removed before it.
        self._open: OrderedDict[int, KnownProducer] = OrderedDict()
        # Transactions whose marker the high watermark may not have passed, in the order of their markers. One is left
        # out if a transaction that ended later began before it: it can never be the oldest. So the first offsets
        # ascend, too.
        self._ended: deque[CompletedTransaction] = deque()

    # Decide

    def check(self, header: BatchHeader, require_zero_first: bool = False) -> Duplicate | None:
        """Check a batch before its append. Returns ``None`` if it may be appended, a ``Duplicate`` if it is in the log
        already. Raises ``KafkaError`` if it is refused.

        ``require_zero_first`` is for transactions V2, whose clients begin every epoch at sequence 0: the first batch of
        a producer that is not known here must have sequence 0 (KAFKA-18202).
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        producer = self._producers.get(producer_id)
        if producer is None:
            if len(self._producers) >= PRODUCERS_MAX:
                self._check_reserve(header)
            if require_zero_first and header.base_sequence > 0:
                raise self._out_of_order(header, "as the first", expected=0)
        else:
            if header.producer_epoch != producer.epoch:
                self._check_new_epoch(header, producer)
            elif header.base_sequence != producer.next_sequence and header.base_sequence != NO_SEQUENCE:
                if (batch := producer.find(header)) is not None:
                    return Duplicate(batch.base_offset, batch.last_offset, batch.timestamp)
                raise self._out_of_sequence(header, producer)
            if producer.transaction_first_offset is not None:
                self._check_open_transaction(header, producer)
        return None

    def _check_reserve(self, header: BatchHeader) -> None:
        limit = PRODUCERS_MAX + (TRANSACTIONAL_RESERVE if header.is_transactional else 0)
        if len(self._producers) >= limit:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"producer {header.producer_id} is new on {self.topic_partition}, which knows {len(self._producers)} "
                f"producers already; the limit is {limit}. Idle ones are forgotten after "
                f"{self.producer_id_expiration_ms} ms",
            )

    def check_marker(
        self, producer_id: int, producer_epoch: int, marker: EndTransactionMarker, *, transaction_version: int = 1
    ) -> None:
        """Check a marker before its append. Raises ``KafkaError`` if its producer or its coordinator is fenced.

        Up to transactions V1 a marker carries the epoch of the records it ends. With V2 every transaction raises the
        epoch, so a marker with the epoch already known is a retry of one that was written, and ends nothing: if a
        transaction is open, it is the next one, and the marker must not touch it (KAFKA-19999).
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        outdated = producer_epoch < producer.epoch
        if transaction_version >= 2 and producer_epoch == producer.epoch:
            outdated = producer.transaction_first_offset is not None
        if outdated:
            rule = "a marker of transactions V2 raises it" if transaction_version >= 2 else "it never goes back"
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"marker with epoch {producer_epoch} for producer {producer_id} on {self.topic_partition} after epoch "
                f"{producer.epoch}; {rule}",
            )
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker from coordinator epoch {marker.coordinator_epoch} for producer {producer_id} on "
                f"{self.topic_partition} after coordinator epoch {producer.coordinator_epoch}; it never goes back",
            )

    # Replay

    def replay(
        self, header: BatchHeader, marker: EndTransactionMarker | None = None, now_ms: int | None = None
    ) -> CompletedTransaction | None:
        """Update the state with a batch that is in the log. ``marker``: the marker in a control batch.

        Returns the transaction that the marker ended. The marker of a transaction without records in this partition
        ends none and updates only the epochs. A batch that compaction has emptied still updates the epoch and the
        sequences, but begins no transaction.

        ``now_ms`` is when the batch arrived, if that is known: a producer that writes old timestamps is not idle.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = KnownProducer(producer_id, header.producer_epoch)
            producer.version = self._version
        elif producer.version != self._version:
            producer = self._thawed(producer)
        producer.active_ms = header.max_timestamp if now_ms is None else now_ms
        if header.is_control:
            return self._replay_control(header, marker, producer)
        producer.append(header)
        if header.is_transactional and producer.transaction_first_offset is None and header.record_count:
            producer.transaction_first_offset = header.base_offset
            self._open[header.base_offset] = producer
        return None

    def _replay_control(
        self, header: BatchHeader, marker: EndTransactionMarker | None, producer: KnownProducer
    ) -> CompletedTransaction | None:
        if header.producer_epoch != producer.epoch:
            producer.begin_epoch(header.producer_epoch)
        # A marker counts as activity: with a producer that expires too early, its coordinator epoch would be forgotten
        # (KAFKA-9144).
        producer.last_timestamp = header.max_timestamp
        if marker is None:
            return None
        producer.coordinator_epoch = marker.coordinator_epoch
        first_offset = producer.transaction_first_offset
        if first_offset is None:
            return None
        producer.transaction_first_offset = None
        del self._open[first_offset]
        completed = CompletedTransaction(producer.producer_id, first_offset, header.base_offset, marker.committed)
        while self._ended and self._ended[-1].first_offset > first_offset:
            self._ended.pop()
        self._ended.append(completed)
        return completed

    # Stability

    @property
    def open_transactions(self) -> list[OpenTransaction]:
        """The transactions without a marker, by first offset."""
        return [_opened(first_offset, producer) for first_offset, producer in self._open.items()]

    def open_transaction_at(self, first_offset: int) -> OpenTransaction | None:
        """The transaction without a marker whose first record has this offset."""
        producer = self._open.get(first_offset)
        return None if producer is None else _opened(first_offset, producer)

    def coordinator_epoch(self, producer_id: int) -> int | None:
        """The coordinator epoch of the last marker for this producer; ``None`` if no marker is known."""
        producer = self._producers.get(producer_id)
        return None if producer is None else producer.known_coordinator_epoch

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest transaction without a marker."""
        return next(iter(self._open), None)

    @property
    def all_settled(self) -> bool:
        """Whether the last stable offset is the high watermark: no transaction is open or just ended."""
        return not self._open and not self._ended

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset of the oldest transaction that is open or whose marker the high watermark has not passed."""
        undecided = next(iter(self._open), None)
        for ended in self._ended:
            if ended.last_offset >= high_watermark:
                return ended.first_offset if undecided is None else min(undecided, ended.first_offset)
        return undecided

    def forget_completed_below(self, high_watermark: int) -> None:
        """Forget ended transactions whose markers are below the high watermark."""
        while self._ended and self._ended[0].last_offset < high_watermark:
            self._ended.popleft()

    # Time

    def expire(self, now_ms: int, producer_ids: Iterable[int] | None = None) -> list[int]:
        """Forget the producers that were idle for ``producer_id_expiration_ms``. Returns their ids.

        A producer with an open transaction stays: the first offset of the transaction is stored nowhere else.
        """
        idle_since_ms = now_ms - self.producer_id_expiration_ms
        expired = []
        for producer_id in self.producer_ids() if producer_ids is None else producer_ids:
            producer = self._producers.get(producer_id)
            if producer is None or producer.active_ms > idle_since_ms or producer.transaction_first_offset is not None:
                continue
            del self._producers[producer_id]
            expired.append(producer_id)
        return expired

    def producer_ids(self) -> list[int]:
        return list(self._producers)

    # Snapshots

    def freeze(self) -> FrozenProducers:
        """A copy of the state, which another thread may encode later. It costs one list."""
        self._version += 1
        return FrozenProducers(list(self._producers.values()))

    def _thawed(self, producer: KnownProducer) -> KnownProducer:
        """A copy of the producer that may be changed; the original belongs to a frozen state."""
        twin = self._producers[producer.producer_id] = producer.copy()
        twin.version = self._version
        if twin.transaction_first_offset is not None:
            self._open[twin.transaction_first_offset] = twin
        return twin

    def snapshot_entries(self) -> list[ProducerEntry]:
        return [producer.to_entry() for producer in self._producers.values()]

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Load a snapshot into an empty state. It has one batch of each producer; ``remember_earlier`` adds others."""
        assert not self._producers, f"{self.topic_partition}: a snapshot is loaded into an empty state"
        self._producers = {entry.producer_id: KnownProducer.from_entry(entry) for entry in entries}
        opened = {
            producer.transaction_first_offset: producer
            for producer in self._producers.values()
            if producer.transaction_first_offset is not None
        }
        self._open.update(sorted(opened.items()))

    def remember_earlier(self, header: BatchHeader) -> None:
        """After ``load``: add a batch from below the snapshot's offset to its producer's window, if it belongs there.

        Headers may come in any order and may include the batch that the snapshot holds. Nothing but the window changes.
        """
        producer = self._producers.get(header.producer_id)
        if producer is not None and not header.is_control:
            assert producer.version == self._version, "nothing is frozen before a start is over"
            producer.remember_earlier(header)

    # Descriptions

    @property
    def producer_count(self) -> int:
        return len(self._producers)

    def describe(self) -> list[ProducerDescription]:
        """Every producer, by id."""
        return list(self.described())

    def described(self) -> Iterator[ProducerDescription]:
        """Yield the producers one by one, by id. Between two of them the state may change: there may be very many."""
        for producer_id in sorted(self._producers):
            producer = self._producers.get(producer_id)
            if producer is not None:
                yield ProducerDescription(
                    producer_id=producer_id,
                    producer_epoch=producer.epoch,
                    last_sequence=producer.last_sequence,
                    last_timestamp=producer.last_timestamp,
                    coordinator_epoch=producer.known_coordinator_epoch,
                    current_transaction_start_offset=producer.transaction_first_offset,
                )

    # Refusals

    def _check_new_epoch(self, header: BatchHeader, producer: KnownProducer) -> None:
        if header.producer_epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {header.producer_epoch} of producer {header.producer_id} on {self.topic_partition} after epoch "
                f"{producer.epoch}; it never goes back",
            )
        if header.base_sequence > 0:
            raise self._out_of_order(header, f"as the first after epoch {producer.epoch}", expected=0)

    def _check_open_transaction(self, header: BatchHeader, producer: KnownProducer) -> None:
        if not header.is_transactional:
            kind, rule = "non-transactional", "until it ends, every batch of this producer is part of it"
        elif header.producer_epoch != producer.epoch:
            # The records of two epochs must not share an outcome: the older ones may be a zombie's.
            kind, rule = "transactional", f"that of epoch {producer.epoch} ends before a newer one begins"
        else:
            return
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"{kind} batch from producer {header.producer_id} epoch {header.producer_epoch} on {self.topic_partition} "
            f"with a transaction open since offset {producer.transaction_first_offset}; {rule}",
        )

    def _out_of_sequence(self, header: BatchHeader, producer: KnownProducer) -> KafkaError:
        if producer.has_forgotten(header):
            return KafkaError(
                ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
                f"sequences {header.base_sequence} to {header.last_sequence} from producer {header.producer_id} epoch "
                f"{header.producer_epoch} on {self.topic_partition} are in the log; their offsets are remembered only "
                f"from sequence {producer.batches[0].base_sequence} on",
            )
        last_sequence = producer.last_sequence
        place = "as the first of its epoch" if last_sequence is None else f"after {last_sequence}"
        return self._out_of_order(header, place, expected=producer.next_sequence)

    def _out_of_order(self, header: BatchHeader, place: str, *, expected: int) -> KafkaError:
        return KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"sequence {header.base_sequence} {place} from producer {header.producer_id} epoch "
            f"{header.producer_epoch} on {self.topic_partition}; expected {expected}",
        )


def _opened(first_offset: int, producer: KnownProducer) -> OpenTransaction:
    return OpenTransaction(producer.producer_id, producer.epoch, first_offset, producer.last_timestamp)
