"""``ProducerStates`` against a model that keeps every batch and answers every question by looking at all of them.

The model knows no window, no counters and no ordered structures, so it cannot share a mistake with the real thing.
Clients behave and misbehave: they retry, leave gaps, overlap, come back with another epoch or after expiry, and reach
the end of the ring of sequences. Coordinators send markers twice, late, and after they were deposed.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from semel.errors import ErrorCode, KafkaError
from semel.log.producers.producer_snapshot import ProducerEntry, decode, encode
from semel.log.producers.producer_state import CompletedTransaction, Duplicate, ProducerStates
from semel.types import TopicPartition
from semel.wire.control import EndTransactionMarker
from semel.wire.records import CONTROL_BIT, NO_SEQUENCE, TRANSACTIONAL_BIT, BatchHeader

RING = 2**31
PRODUCERS = (1, 2, 3)
COORDINATOR_WRITTEN = 3  # this one's batches have no sequences, like offsets committed in a transaction
EXPIRATION_MS = 1000

Answer = Duplicate | ErrorCode | None


def batch(producer: int, epoch: int, sequence: int, count: int, *, transactional: bool, now_ms: int) -> BatchHeader:
    attributes = TRANSACTIONAL_BIT if transactional else 0
    return BatchHeader(0, 49, 0, 2, 0, attributes, count - 1, now_ms, now_ms, producer, epoch, sequence, count)


def answer(states: ProducerStates, header: BatchHeader) -> Answer:
    try:
        return states.check(header)
    except KafkaError as refusal:
        return refusal.code


def answer_to_marker(
    states: ProducerStates, producer: int, epoch: int, marker: EndTransactionMarker, version: int
) -> ErrorCode | None:
    try:
        states.check_marker(producer, epoch, marker, transaction_version=version)
    except KafkaError as refusal:
        return refusal.code
    return None


@dataclass(frozen=True)
class Event:
    """A batch that was appended, or (without a header) the moment at which a producer was forgotten."""

    producer: int
    header: BatchHeader | None = None
    marker: EndTransactionMarker | None = None


class Model:
    """Every event, in order. ``snapshot`` is how many there were when the state was last loaded from a snapshot."""

    def __init__(self, events: list[Event], snapshot: int | None = None) -> None:
        self.events = events
        self.snapshot = snapshot

    def lived(self, producer: int) -> list[tuple[int, Event]]:
        """The batches and markers since the producer was last forgotten."""
        own = [(place, event) for place, event in enumerate(self.events) if event.producer == producer]
        forgotten = [place for place, event in own if event.header is None]
        return [(place, event) for place, event in own if not forgotten or place > forgotten[-1]]

    def epoch(self, producer: int) -> int | None:
        lived = self.lived(producer)
        return lived[-1][1].header.producer_epoch if lived else None

    def coordinator_epoch(self, producer: int) -> int:
        return max((event.marker.coordinator_epoch for _, event in self.lived(producer) if event.marker), default=-1)

    def open_since(self, producer: int) -> int | None:
        first = None
        for _, event in self.lived(producer):
            if event.marker is not None:
                first = None
            elif event.header.is_transactional and first is None:
                first = event.header.base_offset
        return first

    def data(self, producer: int) -> list[tuple[int, BatchHeader]]:
        """The data batches of the current epoch."""
        lived = self.lived(producer)
        epoch = self.epoch(producer)
        begun = max((place for place, event in lived if event.header.producer_epoch != epoch), default=-1)
        return [(place, event.header) for place, event in lived if place > begun and event.marker is None]

    def window(self, producer: int) -> list[BatchHeader]:
        data = self.data(producer)
        if self.snapshot is not None and any(place < self.snapshot for place, _ in data):
            # A refill takes whatever the log has of this epoch, also from before the producer was once forgotten.
            epoch = self.epoch(producer)
            everything = (event for event in self.events if event.producer == producer and event.header is not None)
            refilled = [event.header for event in everything if event.marker is None]
            return [header for header in refilled if header.producer_epoch == epoch][-5:]
        return [header for _, header in data[-5:]]

    def known(self, producer: int) -> list[range]:
        """The sequences up to the last one that are certainly in the log. A range may run past the end of the ring."""
        ranges: list[range] = []
        for place, header in reversed(self.data(producer)):
            span = range(header.base_sequence, header.base_sequence + header.last_offset_delta + 1)
            if ranges and span.stop % RING != ranges[-1].start % RING:
                break
            ranges.append(span)
            if self.snapshot is not None and place < self.snapshot:
                ranges.append(range(header.last_sequence + 1))
                break
        return ranges

    def check(self, header: BatchHeader) -> Answer:
        producer, sequence = header.producer_id, header.base_sequence
        epoch = self.epoch(producer)
        if epoch is None:
            return None
        if header.producer_epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        expected = 0
        if header.producer_epoch == epoch and (data := self.data(producer)):
            expected = (data[-1][1].last_sequence + 1) % RING
        if sequence not in (expected, NO_SEQUENCE):
            return self.out_of_sequence(header) if header.producer_epoch == epoch else _OUT_OF_ORDER
        if self.open_since(producer) is not None and not (header.is_transactional and header.producer_epoch == epoch):
            return ErrorCode.INVALID_TXN_STATE
        return None

    def out_of_sequence(self, header: BatchHeader) -> Answer:
        window = self.window(header.producer_id)
        for remembered in reversed(window):
            if (remembered.base_sequence, remembered.last_offset_delta) == (
                header.base_sequence,
                header.last_offset_delta,
            ):
                return Duplicate(remembered.base_offset, remembered.last_offset, remembered.max_timestamp)
        if not window:
            return _OUT_OF_ORDER
        remembered_sequences = {sequence for batch in window for sequence in sequences(batch)}
        behind = (window[-1].last_sequence - header.base_sequence) % RING
        known = self.known(header.producer_id)
        for sequence in sequences(header):
            if sequence in remembered_sequences or not any(sequence in r or sequence + RING in r for r in known):
                return _OUT_OF_ORDER
        return ErrorCode.DUPLICATE_SEQUENCE_NUMBER if behind < RING // 2 else _OUT_OF_ORDER

    def check_marker(self, producer: int, epoch: int, marker: EndTransactionMarker, version: int) -> ErrorCode | None:
        current = self.epoch(producer)
        if current is None:
            return None
        is_open = self.open_since(producer) is not None
        if epoch < current or (version == 2 and epoch == current and is_open):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < self.coordinator_epoch(producer):
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return None

    def first_unstable(self, high_watermark: int) -> int | None:
        unstable = []
        for producer in PRODUCERS:
            first = None
            for event in self.events:
                if event.producer != producer or event.header is None:
                    continue
                if event.marker is None:
                    if event.header.is_transactional and first is None:
                        first = event.header.base_offset
                else:
                    if first is not None and event.header.base_offset >= high_watermark:
                        unstable.append(first)
                    first = None
            if first is not None:
                unstable.append(first)
        return min(unstable, default=None)

    def entries(self) -> list[ProducerEntry]:
        entries = []
        for producer in PRODUCERS:
            lived = self.lived(producer)
            if not lived:
                continue
            data = self.data(producer)
            last = data[-1][1] if data else None
            coordinator_epoch = self.coordinator_epoch(producer)
            entries.append(
                ProducerEntry(
                    producer_id=producer,
                    producer_epoch=lived[-1][1].header.producer_epoch,
                    last_sequence=None if last is None or last.last_sequence < 0 else last.last_sequence,
                    last_offset=None if last is None else last.last_offset,
                    offset_delta=0 if last is None else last.last_offset_delta,
                    timestamp=lived[-1][1].header.max_timestamp,
                    coordinator_epoch=None if coordinator_epoch < 0 else coordinator_epoch,
                    transaction_first_offset=self.open_since(producer),
                )
            )
        return entries


_OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def sequences(header: BatchHeader) -> list[int]:
    return [(header.base_sequence + delta) % RING for delta in range(header.last_offset_delta + 1)]


def by_id(states: ProducerStates) -> list[ProducerEntry]:
    return sorted(states.snapshot_entries(), key=lambda entry: entry.producer_id)


class ProducerStateMachine(RuleBasedStateMachine):
    """One partition: the real state, the model, and a snapshot from some time ago."""

    def __init__(self) -> None:
        super().__init__()
        self.states = ProducerStates(TopicPartition("orders", 3), producer_id_expiration_ms=EXPIRATION_MS)
        self.events: list[Event] = []
        self.model = Model(self.events)
        self.now_ms = 0
        self.end_offset = 0
        self.high_watermark = 0
        # What the clients remember, whether or not the partition still does.
        self.epoch = dict.fromkeys(PRODUCERS, 0)
        self.next_sequence = dict.fromkeys(PRODUCERS, 0)
        self.taken: tuple[int, bytes] | None = None  # the number of events, and the snapshot

    @initialize(start=st.sampled_from([0, 7, RING - 6]))
    def begin(self, start: int) -> None:
        self.next_sequence = dict.fromkeys(PRODUCERS, start)

    @rule(
        producer=st.sampled_from(PRODUCERS),
        epoch=st.sampled_from([0] * 12 + [-1, 1]),
        ahead=st.sampled_from([0] * 8 + [1, 3, -1, -3, -9]),
        count=st.integers(1, 5),
        transactional=st.booleans(),
        follower=st.sampled_from([False] * 9 + [True]),
    )
    def produce(self, producer: int, epoch: int, ahead: int, count: int, transactional: bool, follower: bool) -> None:
        """A client's next batch, or one that is not its next. What nobody would refuse never goes back."""
        if (follower or self.model.epoch(producer) is None) and (ahead < 0 or epoch < 0):
            return
        epoch = max(0, self.epoch[producer] + epoch)
        # A batch that is refused leaves the client where it was: what follows it in the log does not go back, either.
        begin = 0 if epoch > self.epoch[producer] else self.next_sequence[producer]
        sequence = (begin + ahead) % RING
        if producer == COORDINATOR_WRITTEN:
            sequence = NO_SEQUENCE
        header = batch(producer, epoch, sequence, count, transactional=transactional, now_ms=self.now_ms)
        if follower:
            if transactional or self.model.open_since(producer) is None:
                self.append(header)
        elif self.agreed(header) is None:
            self.append(header)

    @rule(producer=st.sampled_from([1, 2]), counts=st.lists(st.integers(1, 3), min_size=3, max_size=8))
    def stream(self, producer: int, counts: list[int]) -> None:
        """A client that does everything right for a while: more batches than are remembered."""
        for count in counts:
            transactional = self.model.open_since(producer) is not None
            epoch, sequence = self.epoch[producer], self.next_sequence[producer]
            header = batch(producer, epoch, sequence, count, transactional=transactional, now_ms=self.now_ms)
            if self.agreed(header) is None:
                self.append(header)

    @rule(producer=st.sampled_from([1, 2]), back=st.integers(1, 40), count=st.integers(1, 5))
    def repeat_a_range(self, producer: int, back: int, count: int) -> None:
        """Any range behind the last sequence, whether or not it was ever a batch."""
        sequence = (self.next_sequence[producer] - back) % RING
        transactional = self.model.open_since(producer) is not None
        header = batch(producer, self.epoch[producer], sequence, count, transactional=transactional, now_ms=self.now_ms)
        if self.model.epoch(producer) is not None and self.agreed(header) is None:
            self.append(header)

    @rule(back=st.integers(1, 16), count=st.sampled_from([0] * 6 + [-1, 1]))
    def retry(self, back: int, count: int) -> None:
        """A batch that is in the log, perhaps of another size."""
        appended = [event.header for event in self.events if event.header is not None and event.marker is None]
        numbered = [header for header in appended if header.base_sequence != NO_SEQUENCE]
        if back > len(numbered) or self.model.epoch(numbered[-back].producer_id) is None:
            return
        original = numbered[-back]
        header = original._replace(last_offset_delta=max(0, original.last_offset_delta + count))
        if self.agreed(header) is None:
            self.append(header)

    @rule(
        producer=st.sampled_from(PRODUCERS),
        epoch=st.sampled_from([0, 0, 0, 1, 1, -1]),
        coordinator_epoch=st.sampled_from([0, 0, 0, 1, -1]),
        committed=st.booleans(),
        version=st.sampled_from([1, 2]),
    )
    def end(self, producer: int, epoch: int, coordinator_epoch: int, committed: bool, version: int) -> None:
        epoch = max(0, self.epoch[producer] + epoch)
        marker = EndTransactionMarker(committed, max(0, self.model.coordinator_epoch(producer) + coordinator_epoch))
        expected = self.model.check_marker(producer, epoch, marker, version)
        assert answer_to_marker(self.states, producer, epoch, marker, version) == expected
        if expected is not None:
            return
        first_offset = self.model.open_since(producer)
        header = batch(producer, epoch, NO_SEQUENCE, 1, transactional=True, now_ms=self.now_ms)
        header = header._replace(attributes=TRANSACTIONAL_BIT | CONTROL_BIT, base_offset=self.end_offset)
        if first_offset is None:
            completed = None
        else:
            completed = CompletedTransaction(producer, first_offset, self.end_offset, committed)
        assert self.states.replay(header, marker) == completed
        self.events.append(Event(producer, header, marker))
        self.end_offset += 1
        if epoch != self.epoch[producer]:
            self.epoch[producer] = epoch
            self.next_sequence[producer] = 0

    @rule(
        steps=st.lists(st.tuples(st.sampled_from(PRODUCERS), st.booleans()), min_size=4, max_size=12),
        version=st.sampled_from([1, 2]),
    )
    def interleave(self, steps: list[tuple[int, bool]], version: int) -> None:
        """Transactions that do everything right: producers take turns to write and to end what they have open."""
        for producer, ends in steps:
            if ends:
                self.end(producer, version - 1, 0, True, version)
            else:
                self.produce(producer, 0, 0, 1, True, False)

    @rule(elapsed_ms=st.sampled_from([1, 10, EXPIRATION_MS - 1, EXPIRATION_MS]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms

    @rule()
    def expire(self) -> None:
        idle = [
            producer
            for producer in PRODUCERS
            if (lived := self.model.lived(producer))
            and lived[-1][1].header.max_timestamp + EXPIRATION_MS <= self.now_ms
            and self.model.open_since(producer) is None
        ]
        assert sorted(self.states.expire(self.now_ms)) == idle
        self.events.extend(Event(producer) for producer in idle)
        if idle:
            self.taken = None  # the log does not say who was forgotten, so a replay of it would differ

    @rule(data=st.data())
    def advance_high_watermark(self, data: st.DataObject) -> None:
        self.high_watermark = data.draw(st.integers(self.high_watermark, self.end_offset))
        self.states.forget_completed_below(self.high_watermark)

    @rule()
    def take_snapshot(self) -> None:
        self.taken = len(self.events), encode(self.states.snapshot_entries())

    @precondition(lambda self: self.taken is not None)
    @rule(shuffle=st.randoms(use_true_random=False))
    def restart(self, shuffle: object) -> None:
        """Live state == state after load(snapshot) + replay. From here on the replayed state is the live one."""
        assert self.taken is not None
        count, data = self.taken
        replayed = ProducerStates(self.states.topic_partition, producer_id_expiration_ms=EXPIRATION_MS)
        replayed.load(decode(data))
        earlier = [event.header for event in self.events[:count] if event.header is not None]
        shuffle.shuffle(earlier)  # type: ignore[attr-defined]
        for header in earlier:
            replayed.remember_earlier(header)
        for event in self.events[count:]:
            assert event.header is not None
            replayed.replay(event.header, event.marker)
        assert by_id(replayed) == by_id(self.states)
        assert replayed.describe() == self.states.describe()
        assert replayed.open_transactions == self.states.open_transactions
        self.model.snapshot = count
        # What had ended below the snapshot is not in it; a start begins with everything in the log passed.
        self.high_watermark = self.end_offset
        replayed.forget_completed_below(self.high_watermark)
        self.states = replayed

    @invariant()
    def entries_are_those_of_the_model(self) -> None:
        assert by_id(self.states) == self.model.entries()

    @invariant()
    def unstable_offsets_are_those_of_the_model(self) -> None:
        for high_watermark in range(self.high_watermark, self.end_offset + 1):
            expected = self.model.first_unstable(high_watermark)
            assert self.states.first_unstable_offset(high_watermark) == expected
        assert self.states.first_undecided_offset == self.model.first_unstable(self.end_offset)

    @invariant()
    def every_retry_gets_the_answer_of_the_model(self) -> None:
        for event in self.events[-16:]:
            if event.header is not None and event.marker is None and event.header.base_sequence != NO_SEQUENCE:
                assert answer(self.states, event.header) == self.model.check(event.header)

    def agreed(self, header: BatchHeader) -> Answer:
        before = by_id(self.states)
        actual = answer(self.states, header)
        assert actual == self.model.check(header)
        assert by_id(self.states) == before
        return actual

    def append(self, header: BatchHeader) -> None:
        header = header._replace(base_offset=self.end_offset, record_count=header.last_offset_delta + 1)
        header = header._replace(base_timestamp=self.now_ms, max_timestamp=self.now_ms)
        assert self.states.replay(header) is None
        self.events.append(Event(header.producer_id, header))
        self.end_offset = header.next_offset
        self.epoch[header.producer_id] = header.producer_epoch
        self.next_sequence[header.producer_id] = (header.last_sequence + 1) % RING


TestProducerStateMachine = ProducerStateMachine.TestCase
TestProducerStateMachine.settings = settings(max_examples=100, stateful_step_count=30)
