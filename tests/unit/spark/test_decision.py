"""Whether a batch runs: the table of docs/design/spark.md, row by row (scenario 70)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from semel.client.values import OffsetAndMetadata
from semel.spark.decision import Batch, Decision, Note, Run, Skip, SourcePartition, Stop, batch_zero_offsets, decide
from semel.types import TopicPartition

P0 = SourcePartition("jobs", TopicPartition("orders", 0))
P1 = SourcePartition("jobs", TopicPartition("orders", 1))
QUERY = "the-query"


def batch(number: int, start: Mapping[SourcePartition, int], end: Mapping[SourcePartition, int]) -> Batch:
    return Batch(QUERY, number, start, end)


def at(offset: int, number: int, query: str = QUERY) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, str(Note(query, number)))


STARTED = OffsetAndMetadata(5, str(Note("", -1, begin=5)))


@pytest.mark.parametrize(
    ("planned", "committed", "decision"),
    [
        pytest.param(batch(0, {P0: 5}, {P0: 9}), {P0: STARTED}, Run(), id="the first batch"),
        pytest.param(batch(3, {P0: 5}, {P0: 9}), {P0: at(5, 2)}, Run(), id="the next batch"),
        pytest.param(batch(3, {P0: 5}, {P0: 9}), {P0: at(9, 3)}, Skip(), id="the same batch called twice"),
        pytest.param(batch(0, {P0: 9}, {P0: 9}), {P0: at(9, 0)}, Skip(), id="batch 0 after it was committed"),
        pytest.param(batch(4, {P0: 9}, {P0: 9}), {P0: at(9, 3)}, Run(), id="no data, not committed yet"),
        pytest.param(batch(4, {P0: 9}, {P0: 9}), {P0: at(9, 4)}, Skip(), id="no data, committed: the note decides"),
        pytest.param(batch(7, {P0: 5}, {P0: 9}), {P0: at(5, 6)}, Run(), id="after a batch that committed nothing"),
        pytest.param(batch(0, {P0: 5}, {P0: 9}), {P0: at(5, 41, "old")}, Run(), id="checkpoint deleted"),
        pytest.param(batch(0, {P0: 5}, {P0: 9}), {P0: at(30, 41, "old")}, Skip(), id="another checkpoint is ahead"),
        pytest.param(batch(2, {P0: 5}, {P0: 9}), {P0: at(30, 8)}, Skip(), id="an older checkpoint was restored"),
        pytest.param(batch(3, {P0: 5}, {P0: 9, P1: 4}), {P0: at(5, 2)}, Run(), id="a partition that is new"),
    ],
)
def test_a_batch_is(planned: Batch, committed: Mapping[SourcePartition, OffsetAndMetadata], decision: Decision) -> None:
    assert decide(planned, committed) == decision


@pytest.mark.parametrize(
    ("planned", "committed", "reason"),
    [
        pytest.param(
            batch(3, {P0: 5}, {P0: 9}), {P0: at(7, 2)}, "orders-0 of group 'jobs' is at 7, not at 5", id="in between"
        ),
        pytest.param(
            batch(3, {P0: 5}, {P0: 9}), {}, "orders-0 of group 'jobs' is at no offset, not at 5", id="offsets expired"
        ),
        pytest.param(
            batch(3, {P0: 5}, {P0: 9}),
            {P0: OffsetAndMetadata(5)},
            "committed by something that is no pipeline",
            id="a consumer committed",
        ),
        pytest.param(
            batch(3, {P0: 5, P1: 1}, {P0: 9, P1: 2}),
            {P0: at(9, 3), P1: at(1, 2)},
            "orders-1 of group 'jobs' is at 1, not at 2",
            id="half a batch",
        ),
        pytest.param(
            batch(0, {P0: 12, P1: 3}, {P0: 9, P1: 5}),
            {P0: at(12, -1, ""), P1: at(3, -1, "")},
            "begins where",
            id="back",
        ),
    ],
)
def test_a_batch_stops(planned: Batch, committed: Mapping[SourcePartition, OffsetAndMetadata], reason: str) -> None:
    decision = decide(planned, committed)
    assert isinstance(decision, Stop)
    assert reason in decision.reason


def test_where_batch_0_began_is_known_after_it_was_committed_and_not_later() -> None:
    """Spark asks the source for it again when it runs batch 0 again; a state made of nothing would be wrong."""
    assert batch_zero_offsets({P0: STARTED}) == {P0: 5}
    assert batch_zero_offsets({P0: OffsetAndMetadata(9, str(Note(QUERY, 0, begin=5)))}) == {P0: 5}
    assert batch_zero_offsets({P0: at(12, 1), P1: OffsetAndMetadata(3, "a consumer's")}) == {}


def test_a_note_is_read_back_and_what_others_wrote_is_none() -> None:
    assert Note.parse(str(Note("q", 7))) == Note("q", 7)
    assert Note.parse(str(Note("q", 0, begin=3))) == Note("q", 0, begin=3)
    strange = ("", "host-7", "{}", '{"query": "q"}', "[1]", "null", '{"query": "q", "batch": 1e999}', "[" * 4_000)
    assert [Note.parse(text) for text in strange] == [None] * len(strange)
