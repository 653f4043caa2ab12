"""Whether a start goes on from a checkpoint and a group's offsets: restored copies, expired offsets, other queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from semel.client.values import OffsetAndMetadata
from semel.spark.continuation import Continuation, Continue, LastBatch, Refuse, Restore, continuation, retention_notice
from semel.spark.decision import Note, SourcePartition
from semel.types import TopicPartition

P0 = SourcePartition("jobs", TopicPartition("orders", 0))
P1 = SourcePartition("jobs", TopicPartition("orders", 1))
QUERY = "the-query"
PLANNED = LastBatch(QUERY, 5, 0, {P0: 10}, {P0: 20}, is_done=False)
DONE = replace(PLANNED, is_done=True)
FIRST = LastBatch(QUERY, 0, 0, None, {P0: 20}, is_done=False)


def at(offset: int, batch: int, query: str = QUERY) -> dict[SourcePartition, OffsetAndMetadata]:
    return {P0: OffsetAndMetadata(offset, str(Note(query, batch, owner="ours")))}


def decided(
    last: LastBatch,
    committed: Mapping[SourcePartition, OffsetAndMetadata],
    *,
    may_have_expired: bool = False,
    is_stateful: bool = False,
) -> Continuation:
    return continuation(last, committed, may_have_expired=may_have_expired, is_stateful=is_stateful)


STARTED = {P0: OffsetAndMetadata(10, str(Note("", -1, begin=10)))}


@pytest.mark.parametrize(
    ("last", "committed"),
    [
        pytest.param(DONE, at(20, 5), id="stopped between two batches"),
        pytest.param(DONE, at(20, 3), id="the last batches had nothing to commit"),
        pytest.param(DONE, at(20, 5, "other"), id="another checkpoint that has come as far"),
        pytest.param(PLANNED, at(10, 4), id="died before the commit"),
        pytest.param(PLANNED, at(20, 5), id="died behind the commit"),
        pytest.param(FIRST, STARTED, id="died in the first batch"),
        pytest.param(FIRST, at(20, 0), id="died behind the commit of the first batch"),
        pytest.param(replace(PLANNED, end={P0: 20, P1: 3}), at(10, 4), id="died in the first batch of a new partition"),
        pytest.param(DONE.without([P0]), {}, id="all topics were deleted"),
        pytest.param(replace(PLANNED, start={}, end={P1: 3}), {}, id="died in the first batch after all were deleted"),
    ],
)
def test_a_checkpoint_goes_on(last: LastBatch, committed: Mapping[SourcePartition, OffsetAndMetadata]) -> None:
    assert decided(last, committed) == Continue()


@pytest.mark.parametrize(
    ("last", "committed", "said", "remedy"),
    [
        pytest.param(
            DONE, at(50, 9), "from orders-0 of group 'jobs' at 20, with batch 6", "new checkpoint", id="older"
        ),
        pytest.param(PLANNED, at(50, 9), "the group is at 50, by batch 9 of this", "new checkpoint", id="older, open"),
        pytest.param(DONE, at(20, 6), "the group is at batch 6 of the same", "new checkpoint", id="older, no records"),
        pytest.param(PLANNED, at(20, 6), "at batch 6 of the same", "new checkpoint", id="older, no records, open"),
        pytest.param(DONE, at(12, 3), "the group's offsets were set back", "recover", id="newer than the group"),
        pytest.param(PLANNED, at(4, 2), "the group's offsets were set back", "recover", id="newer, open"),
        pytest.param(DONE, at(50, 2, "other"), "by batch 2 of another checkpoint", "new checkpoint", id="other query"),
        pytest.param(PLANNED, at(15, 5, "other"), "or it is another query's", "recover", id="other query in between"),
        pytest.param(DONE, {}, "Spark's commit log says that batch 5 was written", "recover", id="deleted"),
        pytest.param(PLANNED, {}, "whether batch 5 was written is not known", "recover", id="deleted in a batch"),
        pytest.param(DONE, {P0: OffsetAndMetadata(20)}, "something that is no pipeline", "recover", id="set by hand"),
    ],
)
def test_a_checkpoint_is_refused_with_what_to_do(
    last: LastBatch, committed: Mapping[SourcePartition, OffsetAndMetadata], said: str, remedy: str
) -> None:
    found = decided(last, committed)
    assert isinstance(found, Refuse)
    assert said in found.reason
    assert remedy in found.remedy


def test_an_older_copy_of_a_query_with_state_cannot_go_on() -> None:
    found = decided(DONE, at(50, 9), is_stateful=True)
    assert isinstance(found, Refuse)
    assert "Restore the newest copy" in found.remedy


def test_expired_offsets_are_restored_if_spark_noted_that_the_batch_is_done_and_only_then() -> None:
    assert decided(DONE, {}, may_have_expired=True) == Restore()
    assert isinstance(decided(PLANNED, {}, may_have_expired=True), Refuse)
    assert isinstance(decided(DONE, {}, may_have_expired=False), Refuse)


def test_the_offsets_of_either_answer() -> None:
    written = PLANNED.offsets(is_written=True, owner="ours")
    assert written == {P0: OffsetAndMetadata(20, str(Note(QUERY, 5, owner="ours")))}
    unwritten = PLANNED.offsets(is_written=False, owner="ours")
    assert unwritten == {P0: OffsetAndMetadata(10, str(Note(QUERY, 4, owner="ours")))}
    assert FIRST.offsets(is_written=False, owner="ours") is None
    for offsets in (written, unwritten):
        assert offsets is not None
        assert decided(PLANNED, offsets) == Continue()
    assert PLANNED.record_count == 10


def test_offsets_that_are_kept_for_less_than_twice_the_time_between_runs_are_warned_about() -> None:
    week_ms, day_ms = 7 * 24 * 3_600_000, 24 * 3_600_000
    assert retention_notice(day_ms, week_ms) is None
    notice = retention_notice(4 * day_ms, week_ms)
    assert notice is not None
    assert "the last batch was 96.0 h ago" in notice
    assert "for 168.0 h: raise offsets.retention.minutes" in notice
