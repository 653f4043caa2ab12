"""read_committed, from the reader's side: with the aborted list of a fetch, exactly the committed records come out.

Producers write plain and transactional batches in any interleaving; transactions commit, abort, or stay open. The log
and its aborted list are what a broker would serve, up to the last stable offset; the reader begins anywhere, also in
the middle of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from semel.client.machine.consumer.fetched import FetchedRecords
from semel.types import TopicPartition
from semel.wire.control import EndTransactionMarker, build_marker_batch
from semel.wire.messages.fetch import AbortedTransaction
from semel.wire.records import Record, build_batch, parse_header

ORDERS_0 = TopicPartition("orders", 0)
PRODUCERS = 3


@dataclass
class History:
    """A log under construction, and what a reader of committed records must see of it."""

    batches: list[tuple[int, bytes]] = field(default_factory=list)
    next_offset: int = 0
    open: dict[int, list[int]] = field(default_factory=dict)
    aborted: list[tuple[AbortedTransaction, int]] = field(default_factory=list)
    hidden: set[int] = field(default_factory=set)
    written: list[int] = field(default_factory=list)

    def write(self, producer_id: int, count: int, *, is_transactional: bool) -> None:
        offsets = range(self.next_offset, self.next_offset + count)
        records = [Record(offset, 0, None, b"%d" % offset) for offset in offsets]
        batch = build_batch(
            records,
            base_offset=self.next_offset,
            producer_id=producer_id,
            producer_epoch=0,
            is_transactional=is_transactional,
        )
        if is_transactional:
            self.open.setdefault(producer_id, []).extend(offsets)
        self.written += offsets
        self._append(batch, count)

    def end(self, producer_id: int, *, committed: bool) -> None:
        offsets = self.open.pop(producer_id, [])
        if offsets and not committed:
            self.hidden.update(offsets)
            self.aborted.append((AbortedTransaction(producer_id, offsets[0]), self.next_offset))
        marker = EndTransactionMarker(committed=committed, coordinator_epoch=0)
        batch = build_marker_batch(
            marker, producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=self.next_offset
        )
        self._append(batch, 1)

    @property
    def last_stable_offset(self) -> int:
        return min((offsets[0] for offsets in self.open.values()), default=self.next_offset)

    def fetch(self, offset: int, *, committed_only: bool = True) -> FetchedRecords:
        end = self.last_stable_offset if committed_only else self.next_offset
        served = [batch for start, batch in self.batches if start < end and parse_header(batch).next_offset > offset]
        aborted = [entry for entry, marker in self.aborted if marker >= offset and entry.first_offset < end]
        return FetchedRecords(
            ORDERS_0,
            0,
            b"".join(served),
            fetch_offset=offset,
            aborted=aborted if committed_only else None,
            check_crcs=True,
        )

    def _append(self, batch: bytes, count: int) -> None:
        self.batches.append((self.next_offset, batch))
        self.next_offset += count


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = History()
    for _ in range(draw(st.integers(0, 25))):
        producer_id = draw(st.integers(0, PRODUCERS - 1))
        match draw(st.sampled_from(("plain", "transactional", "transactional", "commit", "abort"))):
            case "plain":
                history.write(producer_id + PRODUCERS, draw(st.integers(1, 3)), is_transactional=False)
            case "transactional":
                history.write(producer_id, draw(st.integers(1, 3)), is_transactional=True)
            case "commit":
                history.end(producer_id, committed=True)
            case "abort":
                history.end(producer_id, committed=False)
    return history


@settings(max_examples=200)
@given(histories(), st.data())
def test_exactly_the_committed_records_are_read(history: History, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, history.next_offset))
    chunk = history.fetch(start)
    expected = [o for o in history.written if start <= o < history.last_stable_offset and o not in history.hidden]
    assert [record.offset for record in chunk.take(1_000)] == expected
    assert chunk.next_offset >= max(history.last_stable_offset, start) or not history.batches


@settings(max_examples=100)
@given(histories(), st.data())
def test_a_reader_of_everything_reads_everything_but_markers(history: History, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, history.next_offset))
    chunk = history.fetch(start, committed_only=False)
    assert [record.offset for record in chunk.take(1_000)] == [o for o in history.written if o >= start]


@settings(max_examples=100)
@given(histories(), st.lists(st.integers(1, 5), min_size=1, max_size=40))
def test_taking_in_pieces_is_taking_all(history: History, pieces: list[int]) -> None:
    whole, chunk = history.fetch(0).take(1_000), history.fetch(0)
    taken = []
    for count in pieces:
        taken += chunk.take(count)
    assert taken == whole[: len(taken)]
    assert taken + chunk.take(1_000) == whole
