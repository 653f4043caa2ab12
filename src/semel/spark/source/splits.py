"""Splits: the offsets that one micro-batch covers, divided among tasks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from semel.spark.source.offsets import Offsets
from semel.types import TopicPartition

SMALL_OFFSETS_MAX: Final = 1_000
"""Up to so many offsets, one task reads a batch sooner than several tasks: starting a task takes longer than reading so
many records."""


class Split(NamedTuple):
    """A range of offsets of one partition for one task: from ``start`` up to, and without, ``end``."""

    topic_partition: TopicPartition
    start: int
    end: int


def limited(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], count_max: int) -> Offsets:
    """Return end offsets that cover at most ``count_max`` offsets, divided among the partitions by their lag.

    Shares are rounded up, beginning with the partition that has the largest lag: so a batch is never empty while there
    is a lag.
    """
    waiting = {tp: end - start[tp] for tp, end in latest.items() if end > start[tp]}
    total = sum(waiting.values())
    if total <= count_max:
        return dict(latest)
    ends = {tp: start[tp] for tp in latest}
    left = count_max
    for tp, count in sorted(waiting.items(), key=lambda entry: (-entry[1], entry[0])):
        share = min(-(-count * count_max // total), left)
        ends[tp] += share
        left -= share
    return ends


def split(ranges: list[Split], parts_min: int | None) -> list[Split]:
    """Return one split for each partition, or at least ``parts_min`` splits: then long partitions are cut."""
    ranges = [one for one in ranges if one.end > one.start]
    if parts_min is None or len(ranges) >= parts_min:
        return ranges
    total = sum(one.end - one.start for one in ranges)
    splits: list[Split] = []
    for topic_partition, start, end in ranges:
        size = end - start
        parts = min(max(-(-size * parts_min // total), 1), size)
        cuts = [start + size * part // parts for part in range(parts + 1)]
        splits += [Split(topic_partition, low, high) for low, high in pairwise(cuts)]
    return splits


def shares_of(ranges: list[Split], parts_min: int | None) -> list[list[Split]]:
    """Return the splits of each task of a micro-batch: one split for each task, or all splits for one task if they have
    few offsets and ``minPartitions`` is not set."""
    splits = split(ranges, parts_min)
    if parts_min is None and sum(one.end - one.start for one in splits) <= SMALL_OFFSETS_MAX:
        return [splits] if splits else []
    return [[one] for one in splits]
