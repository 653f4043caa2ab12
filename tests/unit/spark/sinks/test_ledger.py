"""What a sink's last batch means for the next one: the tables of docs/design/sinks.md, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from semel.spark.decision import Batch, Note, SourcePartition
from semel.spark.sinks import SinkBatch
from semel.spark.sinks.ledger import LedgerMismatch, is_written, refusal_at_start
from semel.spark.sinks.protocol import groups_key
from semel.types import TopicPartition

P0 = SourcePartition("jobs", TopicPartition("orders", 0))
P1 = SourcePartition("jobs", TopicPartition("orders", 1))
QUERY = "the-query"
_IDS = st.text("a+\\", min_size=1, max_size=4)


def line(number: int, end: Mapping[SourcePartition, int], query: str = QUERY) -> SinkBatch:
    return SinkBatch(query, number, end)


def test_a_line_is_read_as_it_was_written() -> None:
    written = SinkBatch("q", 7, {P0: 5, P1: 0, SourcePartition("other", TopicPartition("a.b", 12)): 3})
    assert SinkBatch.parse(str(written)) == written
    with pytest.raises(ValueError, match="is no line of a ledger"):
        SinkBatch.parse("{}")


def test_a_note_names_the_sinks_that_have_the_batch_and_older_notes_name_none() -> None:
    assert Note.parse(str(Note("q", 3, sinks=("sqlite:totals",)))) == Note("q", 3, sinks=("sqlite:totals",))
    assert Note.parse('{"query": "q", "batch": 3}') == Note("q", 3)
    assert "sinks" not in str(Note("q", 3))


def test_the_key_of_groups_is_what_it_was_unless_an_id_has_a_plus() -> None:
    assert groups_key({"jobs"}) == "jobs"
    assert groups_key({"b", "a"}) == "a+b"
    assert groups_key({"a\\b"}) == "a\\b"
    assert groups_key({"a+b"}) == "a\\+b"


@given(st.sets(_IDS, min_size=1, max_size=3), st.sets(_IDS, min_size=1, max_size=3))
@example({"a+b"}, {"a", "b"})
@example({"a+b", "c"}, {"a", "b+c"})
@example({"a\\", "b"}, {"a\\+b"})
def test_different_groups_never_share_a_key(some: set[str], others: set[str]) -> None:
    assert (groups_key(some) == groups_key(others)) == (some == others)


@pytest.mark.parametrize(
    ("last", "committed", "planned", "is_noted"),
    [
        pytest.param(None, {P0: 5}, line(3, {P0: 9}), False, id="a new sink"),
        pytest.param(line(3, {P0: 9}), {P0: 9}, line(3, {P0: 9}), True, id="level"),
        pytest.param(line(3, {P0: 9}), {P0: 5}, line(3, {P0: 9}), True, id="ahead by the batch that was planned"),
        pytest.param(line(3, {P0: 9}, "old"), {P0: 9}, None, True, id="level, checkpoint deleted"),
        pytest.param(line(3, {P0: 9}), {P0: 9, P1: 4}, line(3, {P0: 9}), True, id="a partition that is new"),
        pytest.param(line(3, {P0: 9, P1: 4}), {P0: 9}, line(3, {P0: 9}), True, id="a topic that is not read any more"),
    ],
)
def test_a_pipeline_goes_on_with(
    last: SinkBatch | None, committed: Mapping[SourcePartition, int], planned: SinkBatch | None, is_noted: bool
) -> None:
    assert refusal_at_start("s", last, committed, planned, is_noted=is_noted) is None


@pytest.mark.parametrize(
    ("last", "committed", "planned", "message"),
    [
        pytest.param(None, {P0: 5}, line(3, {P0: 9}), "the ledger was deleted", id="ledger deleted"),
        pytest.param(line(3, {P0: 9}), {P0: 11}, line(4, {P0: 11}), "behind the group", id="restored from a backup"),
        pytest.param(line(3, {P0: 9, P1: 4}), {P0: 5, P1: 6}, None, "behind the group", id="behind in one partition"),
        pytest.param(line(3, {P0: 9}, "old"), {P0: 5}, None, "Restore the checkpoint", id="ahead, checkpoint deleted"),
        pytest.param(
            line(3, {P0: 9}), {P0: 5}, line(3, {P0: 8}), "Restore the checkpoint", id="ahead, planned otherwise"
        ),
        pytest.param(line(3, {P0: 9}, "old"), {P0: 5}, line(3, {P0: 9}), "Restore", id="ahead, another checkpoint"),
        pytest.param(line(3, {P0: 9}), {P0: 0}, None, "Restore the checkpoint", id="begun anew at the beginning"),
        pytest.param(line(4, {P0: 9}), {P0: 9}, line(3, {P0: 9}), "is an older copy", id="level, an older checkpoint"),
    ],
)
def test_a_start_is_refused_with_what_to_do(
    last: SinkBatch | None, committed: Mapping[SourcePartition, int], planned: SinkBatch | None, message: str
) -> None:
    refusal = refusal_at_start("postgres:totals", last, committed, planned, is_noted=True)
    assert refusal is not None
    assert message in refusal
    assert "postgres:totals" in refusal
    assert "name=" in refusal


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        pytest.param(None, False, id="nothing yet"),
        pytest.param(line(3, {P0: 5}), False, id="the batch before"),
        pytest.param(line(1, {P0: 5}, "old"), False, id="another checkpoint, up to here"),
        pytest.param(line(4, {P0: 9}), True, id="this batch"),
    ],
)
def test_a_sink_has_a_batch_or_ends_where_it_begins(last: SinkBatch | None, expected: bool) -> None:
    assert is_written("s", last, Batch(QUERY, 4, {P0: 5}, {P0: 9})) is expected


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(line(4, {P0: 8}), id="this batch with another end"),
        pytest.param(line(3, {P0: 4}), id="a hole before it"),
        pytest.param(line(4, {P0: 9}, "old"), id="these offsets, of another checkpoint"),
    ],
)
def test_a_sink_that_ends_elsewhere_stops_the_batch(last: SinkBatch) -> None:
    with pytest.raises(LedgerMismatch, match="s "):
        is_written("s", last, Batch(QUERY, 4, {P0: 5}, {P0: 9}))


def test_a_batch_without_input_is_told_by_its_number() -> None:
    no_data = Batch(QUERY, 5, {P0: 9}, {P0: 9})
    assert not is_written("s", line(4, {P0: 9}), no_data)
    assert is_written("s", line(5, {P0: 9}), no_data)


def test_a_batch_is_the_one_that_the_sink_has_also_if_a_topic_of_it_was_deleted_since() -> None:
    last, planned = line(3, {P0: 9, P1: 4}), line(3, {P0: 9})
    assert is_written("table", last, Batch(QUERY, 3, {P0: 5}, {P0: 9}))
    assert refusal_at_start("table", last, {P0: 5}, planned, is_noted=True) is None


def test_a_line_of_an_earlier_generation_says_nothing_about_this_one() -> None:
    before, now = line(9, {P0: 50}), replace(line(0, {P0: 9}), generation=1)
    batch = Batch(QUERY, 0, {P0: 5}, {P0: 9})
    assert refusal_at_start("s", before, {P0: 5}, None, is_noted=False, generation=1) is None
    assert not is_written("s", before, batch, generation=1)
    assert refusal_at_start("s", now, {P0: 5}, now, is_noted=True, generation=1) is None
    assert is_written("s", now, batch, generation=1)
    assert SinkBatch.parse(str(now)) == now
    assert Note.parse(str(Note("q", 3, generation=2))) == Note("q", 3, generation=2)


def test_a_line_of_a_generation_that_the_group_is_not_in_is_refused() -> None:
    before, later = line(9, {P0: 50}), replace(line(9, {P0: 50}), generation=2)
    restored = refusal_at_start("s", before, {P0: 60}, None, is_noted=True, generation=1)
    assert restored is not None
    assert "behind the group" in restored
    ahead = refusal_at_start("s", later, {P0: 50}, later, is_noted=True, generation=1)
    assert ahead is not None
    assert "of generation 2, and the group is in generation 1" in ahead
    with pytest.raises(LedgerMismatch, match="of generation 2"):
        is_written("s", later, Batch(QUERY, 9, {P0: 5}, {P0: 50}), generation=1)
