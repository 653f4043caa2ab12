"""Offsets of a micro-batch: written as Spark writes them, limited, and shared among tasks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.spark.source.offsets import (
    AtTime,
    ByPartition,
    Earliest,
    Latest,
    from_spark,
    parse_assign,
    parse_offsets_option,
    parse_times,
    resolve,
    to_spark,
)
from semel.spark.source.splits import SMALL_OFFSETS_MAX, Split, limited, shares_of, split
from semel.types import TopicPartition

P0, P1, P2 = (TopicPartition("orders", index) for index in range(3))

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 12))
ranges = st.dictionaries(partitions, st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1)


class FakeCluster:
    def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 3)

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 90)

    def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, object]:
        return dict.fromkeys(times)


def test_offsets_are_written_sorted_and_read_back() -> None:
    offsets = {P2: 7, P0: 1, TopicPartition("a", 10): 4}
    assert str(to_spark(offsets)) == "{'a': {'10': 4}, 'orders': {'0': 1, '2': 7}}"
    assert from_spark(to_spark(offsets)) == offsets


def test_places_are_words_or_json_in_which_two_numbers_are_words() -> None:
    assert parse_offsets_option("startingOffsets", "Earliest") == Earliest()
    assert parse_offsets_option("startingOffsets", "latest") == Latest()
    said = parse_offsets_option("startingOffsets", '{"orders": {"0": 23, "1": -2, "2": -1}}')
    assert said == ByPartition({P0: 23, P1: Earliest(), P2: Latest()})
    assert resolve(said, [P0, P1, P2], FakeCluster(), option="o") == {P0: 23, P1: 3, P2: 90}
    assert parse_assign('{"orders": [0, 2]}') == [P0, P2]


@pytest.mark.parametrize("text", ["nowhere", "[1]", '{"orders": 3}', '{"orders": {"0": "x"}}', '{"orders": {"0": -3}}'])
def test_what_is_no_place_is_refused_by_the_name_of_the_option(text: str) -> None:
    with pytest.raises(ValueError, match="startingOffsets"):
        parse_offsets_option("startingOffsets", text)


def test_an_end_cannot_be_the_beginning() -> None:
    with pytest.raises(ValueError, match="endingOffsets"):
        parse_offsets_option("endingOffsets", "earliest", at_end=True)


def test_every_partition_must_be_named_and_no_other() -> None:
    with pytest.raises(ValueError, match=r"missing: orders-1; not read: orders-2"):
        resolve(ByPartition({P0: 1, P2: 2}), [P0, P1], FakeCluster(), option="startingOffsets")


def test_a_time_without_records_is_an_error_or_the_end() -> None:
    times = parse_times("startingOffsetsByTimestamp", '{"orders": {"0": 1000}}', or_latest=False)
    with pytest.raises(ValueError, match="orders-0 has no record as late as 1000"):
        resolve(times, [P0], FakeCluster(), option="startingOffsetsByTimestamp")
    assert resolve(AtTime(1000, or_latest=True), [P0], FakeCluster(), option="o") == {P0: 90}


@settings(derandomize=True, database=None)
@given(ranges, st.integers(1, 500))
def test_a_limit_is_kept_and_something_moves(pairs: dict[TopicPartition, tuple[int, int]], count_max: int) -> None:
    start = {topic_partition: min(pair) for topic_partition, pair in pairs.items()}
    latest = {topic_partition: max(pair) for topic_partition, pair in pairs.items()}
    ends = limited(start, latest, count_max)
    assert all(start[topic_partition] <= ends[topic_partition] <= latest[topic_partition] for topic_partition in latest)
    moved = sum(ends[topic_partition] - start[topic_partition] for topic_partition in latest)
    waiting = sum(latest[topic_partition] - start[topic_partition] for topic_partition in latest)
    assert moved == min(waiting, count_max)


@settings(derandomize=True, database=None)
@given(ranges, st.one_of(st.none(), st.integers(1, 50)))
def test_splits_cover_every_offset_once(pairs: dict[TopicPartition, tuple[int, int]], parts_min: int | None) -> None:
    wanted = [Split(topic_partition, min(pair), max(pair)) for topic_partition, pair in pairs.items()]
    splits = split(wanted, parts_min)
    covered = [(topic_partition, offset) for topic_partition, start, end in splits for offset in range(start, end)]
    assert covered == [
        (topic_partition, offset) for topic_partition, start, end in wanted for offset in range(start, end)
    ]
    assert all(one.end > one.start for one in splits)
    assert len(splits) >= min(parts_min or 1, len(covered))


@settings(derandomize=True, database=None)
@given(ranges, st.one_of(st.none(), st.integers(1, 50)))
def test_shares_are_the_splits_and_all_in_one_if_they_are_few_records(
    pairs: dict[TopicPartition, tuple[int, int]], parts_min: int | None
) -> None:
    wanted = [Split(topic_partition, min(pair), max(pair)) for topic_partition, pair in pairs.items()]
    shares = shares_of(wanted, parts_min)
    splits = split(wanted, parts_min)
    assert [one for share in shares for one in share] == splits
    is_small = sum(end - start for _, start, end in splits) <= SMALL_OFFSETS_MAX
    assert len(shares) == (min(len(splits), 1) if is_small and parts_min is None else len(splits))
