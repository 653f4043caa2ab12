"""One producer, as one partition knows it: its epoch, its last batches, and which sequences are known to be in the log.

The law: the batches are all of the current epoch, in the order of the log; a new epoch drops those of the old one.
``sequences_known`` is the number of sequences, up to the last one, that were seen without a gap. Only these are known
to be in the log although their batches are not remembered.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from semel.log.producers.producer_snapshot import Fields, ProducerEntry
from semel.types import INT32_MAX
from semel.wire.records import NO_SEQUENCE, NO_TIMESTAMP, BatchHeader

WINDOW: Final = 5  # the batches remembered: a client may have that many in flight

NO_COORDINATOR_EPOCH: Final = -1

# Sequences wrap around at 2**31. A sequence that is less than half of that behind the newest one counts as older, any
# other as newer.
_HALF_RING: Final = 2**30


class RememberedBatch(NamedTuple):
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class KnownProducer:
    __slots__ = (
        "active_ms",
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "next_sequence",
        "producer_id",
        "sequences_known",
        "transaction_first_offset",
        "version",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp = NO_TIMESTAMP  # the timestamp of its last batch or marker; snapshots store this one
        self.active_ms = NO_TIMESTAMP  # when its last batch or marker arrived, if known; expiry uses this one
        self.transaction_first_offset: int | None = None
        self.batches: list[RememberedBatch] = []
        self.next_sequence = 0
        self.sequences_known = 0
        self.version = 0  # the version of ``ProducerStates`` that may change this object; later ones copy it first

    def append(self, header: BatchHeader) -> None:
        """Remember a batch that is in the log. Its sequence is not checked."""
        if header.producer_epoch != self.epoch:
            self.begin_epoch(header.producer_epoch)
        base_offset, base_sequence, delta = header.base_offset, header.base_sequence, header.last_offset_delta
        if base_sequence == NO_SEQUENCE:
            # Offsets committed in a transaction are written by the group coordinator, which uses no sequences.
            last_sequence = NO_SEQUENCE
            self.sequences_known = 0
        else:
            last_sequence = (base_sequence + delta) & INT32_MAX
            if base_sequence == self.next_sequence:
                self.sequences_known += delta + 1
            else:
                self.sequences_known = delta + 1
        self.next_sequence = (last_sequence + 1) & INT32_MAX
        batches = self.batches
        timestamp = self.last_timestamp = header.max_timestamp
        batches.append(RememberedBatch(base_sequence, last_sequence, base_offset, base_offset + delta, timestamp))
        if len(batches) > WINDOW:
            del batches[0]

    def begin_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches.clear()
        self.next_sequence = 0
        self.sequences_known = 0

    def find(self, header: BatchHeader) -> RememberedBatch | None:
        """The remembered batch with exactly these sequences in this epoch."""
        if header.producer_epoch != self.epoch:
            return None
        base_sequence, last_sequence = header.base_sequence, header.last_sequence
        for batch in reversed(self.batches):
            if batch.base_sequence == base_sequence and batch.last_sequence == last_sequence:
                return batch
        return None

    def has_forgotten(self, header: BatchHeader) -> bool:
        """Whether all sequences of the batch are known to have been appended, but none is of a remembered batch.

        They lie before the remembered ones, or between them: a start refills the window from batches that may have gaps
        between them where compaction dropped one.
        """
        if not self.batches:
            return False
        # Distances back from the newest sequence, on the ring.
        newest = self.batches[-1].last_sequence
        begins = (newest - header.base_sequence) & INT32_MAX
        ends = (newest - header.last_sequence) & INT32_MAX
        if not ends <= begins < min(self.sequences_known, _HALF_RING):
            return False
        return all(
            ends > (newest - batch.base_sequence) & INT32_MAX or begins < (newest - batch.last_sequence) & INT32_MAX
            for batch in self.batches
        )

    def remember_earlier(self, header: BatchHeader) -> None:
        """Add an earlier batch to the window, if it is of this epoch and precedes the batches in it."""
        batches = self.batches
        base_offset, last_sequence = header.base_offset, header.last_sequence
        if header.producer_epoch != self.epoch or last_sequence == NO_SEQUENCE:
            return
        place = sum(batch.base_offset < base_offset for batch in batches)
        if place == len(batches):
            return
        earlier = RememberedBatch(
            header.base_sequence, last_sequence, base_offset, header.last_offset, header.max_timestamp
        )
        following = batches[place]
        if following.base_offset == base_offset:
            # A snapshot has the timestamp of the producer's last activity; the batch's header has the batch's own.
            batches[place] = earlier
        elif 0 < (following.base_sequence - last_sequence) & INT32_MAX < _HALF_RING:
            batches.insert(place, earlier)
            if len(batches) > WINDOW:
                del batches[0]

    @property
    def last_sequence(self) -> int | None:
        if not self.batches or self.batches[-1].last_sequence == NO_SEQUENCE:
            return None
        return self.batches[-1].last_sequence

    @property
    def known_coordinator_epoch(self) -> int | None:
        return None if self.coordinator_epoch == NO_COORDINATOR_EPOCH else self.coordinator_epoch

    def copy(self) -> KnownProducer:
        twin = KnownProducer(self.producer_id, self.epoch)
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.batches = self.batches.copy()
        return twin

    def to_fields(self) -> Fields:
        """The producer as an entry of a snapshot file."""
        first_offset = self.transaction_first_offset
        last_sequence, last_offset, offset_delta = NO_SEQUENCE, -1, 0
        if self.batches:
            _, last_sequence, base_offset, last_offset, _ = self.batches[-1]
            offset_delta = last_offset - base_offset
        return (
            self.producer_id,
            self.epoch,
            last_sequence,
            last_offset,
            offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            -1 if first_offset is None else first_offset,
        )

    def to_entry(self) -> ProducerEntry:
        last = self.batches[-1] if self.batches else None
        return ProducerEntry(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            last_sequence=self.last_sequence,
            last_offset=None if last is None else last.last_offset,
            offset_delta=0 if last is None else last.last_offset - last.base_offset,
            timestamp=self.last_timestamp,
            coordinator_epoch=self.known_coordinator_epoch,
            transaction_first_offset=self.transaction_first_offset,
        )

    @classmethod
    def from_entry(cls, entry: ProducerEntry) -> KnownProducer:
        """The producer of a snapshot entry. Its first sequence in this epoch is not stored and is assumed to be 0."""
        producer = cls(entry.producer_id, entry.producer_epoch)
        producer.last_timestamp = producer.active_ms = entry.timestamp
        producer.transaction_first_offset = entry.transaction_first_offset
        if entry.coordinator_epoch is not None:
            producer.coordinator_epoch = entry.coordinator_epoch
        if entry.last_offset is not None:
            base_sequence = last_sequence = NO_SEQUENCE
            if entry.last_sequence is not None:
                last_sequence = entry.last_sequence
                base_sequence = (last_sequence - entry.offset_delta) & INT32_MAX
            base_offset = entry.last_offset - entry.offset_delta
            last = RememberedBatch(base_sequence, last_sequence, base_offset, entry.last_offset, entry.timestamp)
            producer.batches.append(last)
            producer.next_sequence = (last_sequence + 1) & INT32_MAX
            producer.sequences_known = last_sequence + 1
        return producer
