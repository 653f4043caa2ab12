"""Offsets in Spark's JSON, an object of topics with objects of partitions, and the options that say where to begin and
to end.

The same JSON is used in ``startingOffsets``, in Spark's offset log and in its progress, as in Spark's own Kafka source.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from semel.types import TopicPartition

Offsets: TypeAlias = dict[TopicPartition, int]

_LATEST: Final = -1
_EARLIEST: Final = -2


def to_spark(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return offsets as Spark's JSON has them, sorted. Equal offsets must give equal texts, because Spark compares the
    texts to find out whether there are new records."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def from_spark(topics: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


@dataclass(frozen=True, slots=True)
class Earliest:
    """The log start offset."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The last stable offset."""


@dataclass(frozen=True, slots=True)
class AtTime:
    """The offset of the first record with this timestamp or a later one.

    If there is no such record: with ``or_latest`` the last stable offset, else an error.
    """

    timestamp_ms: int
    or_latest: bool


@dataclass(frozen=True, slots=True)
class ByPartition:
    """A limit for each partition. As with Spark's own source, every partition must be named."""

    limits: Mapping[TopicPartition, int | Earliest | Latest | AtTime]


OffsetRangeLimit: TypeAlias = Earliest | Latest | AtTime | ByPartition
"""Which offset is meant in every partition (``OffsetRangeLimit`` in Spark's own Kafka source)."""


def parse_offsets_option(option: str, text: str, *, at_end: bool = False) -> OffsetRangeLimit:
    """Parse ``startingOffsets`` or ``endingOffsets``: a word, or JSON in which -2 is earliest and -1 is latest."""
    match text.strip().lower():
        case "earliest" if not at_end:
            return Earliest()
        case "latest":
            return Latest()
    limits: dict[TopicPartition, int | Earliest | Latest | AtTime] = {}
    for topic_partition, offset in _parse(option, text).items():
        if offset == _EARLIEST and not at_end:
            limits[topic_partition] = Earliest()
        elif offset == _LATEST:
            limits[topic_partition] = Latest()
        elif offset >= 0:
            limits[topic_partition] = offset
        else:
            raise ValueError(f"{option}: offset {offset} of {topic_partition}; offsets are counted from 0")
    return ByPartition(limits)


def parse_times(option: str, text: str, *, or_latest: bool) -> OffsetRangeLimit:
    return ByPartition(
        {topic_partition: AtTime(time, or_latest) for topic_partition, time in _parse(option, text).items()}
    )


def parse_assign(text: str) -> list[TopicPartition]:
    """Parse the option ``assign``, such as ``{"orders": [0, 1]}``."""
    try:
        return [TopicPartition(topic, int(index)) for topic, indexes in json.loads(text).items() for index in indexes]
    except (ValueError, AttributeError, TypeError):
        raise ValueError(f'assign: {text!r} is not like {{"orders": [0, 1]}}') from None


def resolve(limit: OffsetRangeLimit, partitions: Iterable[TopicPartition], cluster: Any, *, option: str) -> Offsets:
    """Return the offset that a limit means in every partition.

    ``cluster`` is a ``Cluster``, or an object with the same methods. Raises ``ValueError``, with the option's name, if
    the limit does not fit the partitions.
    """
    wanted = list(partitions)
    limits = dict.fromkeys(wanted, limit) if not isinstance(limit, ByPartition) else _said(limit, wanted, option)
    found: Offsets = {tp: said for tp, said in limits.items() if isinstance(said, int)}
    earliest = [tp for tp, said in limits.items() if isinstance(said, Earliest)]
    latest = [tp for tp, said in limits.items() if isinstance(said, Latest)]
    times = {tp: said for tp, said in limits.items() if isinstance(said, AtTime)}
    if times:
        at = cluster.offsets_for_times({tp: said.timestamp_ms for tp, said in times.items()})
        for tp, said in times.items():
            offset = at[tp]
            if offset is not None:
                found[tp] = offset
            elif said.or_latest:
                latest.append(tp)
            else:
                raise ValueError(
                    f"{option}: {tp} has no record as late as {said.timestamp_ms}; "
                    "startingOffsetsByTimestampStrategy=latest would begin behind its last one"
                )
    if earliest:
        found.update(cluster.beginning_offsets(earliest))
    if latest:
        found.update(cluster.end_offsets(latest))
    return found


def _said(limit: ByPartition, wanted: list[TopicPartition], option: str) -> dict[TopicPartition, Any]:
    missing = [str(tp) for tp in wanted if tp not in limit.limits]
    unknown = [str(tp) for tp in limit.limits if tp not in wanted]
    if missing or unknown:
        raise ValueError(
            f"{option} must name every partition that is read, and no other; missing: {', '.join(missing) or 'none'}; "
            f"not read: {', '.join(unknown) or 'none'}"
        )
    return {tp: limit.limits[tp] for tp in wanted}


def _parse(option: str, text: str) -> Offsets:
    try:
        return from_spark(json.loads(text))
    except (ValueError, AttributeError, TypeError):
        raise ValueError(f'{option}: {text!r} is neither a known word nor like {{"orders": {{"0": 23}}}}') from None
