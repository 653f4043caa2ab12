"""The options of the source, with the names of Spark's own Kafka source wherever the meaning is the same.

Unknown options raise an error, because an ignored option could show up as missing data.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from semel.spark.cluster import Cluster, Topics
from semel.spark.source.offsets import (
    AtTime,
    Earliest,
    Latest,
    OffsetRangeLimit,
    parse_assign,
    parse_offsets_option,
    parse_times,
)
from semel.types import TopicPartition

_KNOWN: Final = (
    "assign",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "outageTimeoutMs",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
)
_STARTING: Final = ("startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp")
_SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribePattern")
PREFIX: Final = "kafka."
_GROUP: Final = "kafka.group.id"
_SERVERS: Final = "kafka.bootstrap.servers"
_ISOLATION: Final = "kafka.isolation.level"
READ_COMMITTED: Final = "read_committed"
_TIMEOUT: Final = "default_api_timeout_ms"
OUTAGE_TIMEOUT_MS: Final = 600_000
"""How long a streaming query waits for brokers that are away. The default of a client is one minute."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The partitions to read: topics, a pattern of topic names, or partitions. Exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        return self.pattern or ",".join([*self.topics, *map(str, self.assigned)])

    def partitions(self, cluster: Cluster) -> list[TopicPartition]:
        """Return the partitions that exist now. Raises what ``look_up`` raises."""
        return self.look_up(cluster)[0]

    def look_up(self, cluster: Cluster) -> tuple[list[TopicPartition], dict[str, UUID]]:
        """Return the partitions that exist now, and the ids of their topics.

        Raises ``LookupError`` for a named topic or partition that does not exist, and ``AbortableError`` for a topic
        that may not be described or whose name is not legal.
        """
        if self.pattern is not None:
            pattern = re.compile(self.pattern)
            return _all_of(cluster.topics(), lambda name: pattern.fullmatch(name) is not None)
        names = list(dict.fromkeys([*self.topics, *(topic for topic, _ in self.assigned)]))
        found = cluster.topics(names)
        if found.missing:
            raise LookupError(f"there is no topic {', '.join(map(repr, sorted(found.missing)))} to read from")
        if not self.assigned:
            return _all_of(found, lambda name: True)
        absent = [str(tp) for tp in self.assigned if tp.partition >= found.partition_counts[tp.topic]]
        if absent:
            raise LookupError(f"there is no partition {', '.join(absent)} to read from")
        return sorted(self.assigned), dict(found.ids)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    settings: Mapping[str, str] = field(repr=False)
    """The client's settings, with underscores in Kafka's names. They may include passwords."""
    group_id: str | None
    subscription: Subscription
    starting: OffsetRangeLimit
    starting_option: str | None
    """The name of the option that set ``starting``."""
    ending: OffsetRangeLimit
    max_offsets_per_trigger: int | None
    min_partitions: int | None
    include_headers: bool
    fail_on_data_loss: bool
    reads_committed: bool

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_streaming: bool) -> SourceOptions:
        """Parse the options of a source. Raises ``ValueError``, which names the option."""
        given = {name.lower(): value for name, value in options.items()}
        known = {name.lower(): name for name in _KNOWN}
        kafka = {name: value for name, value in given.items() if name.startswith(PREFIX)}
        for name in given:
            if name not in known and name not in kafka:
                raise ValueError(_unknown(name, known))
        said = {known[name]: value for name, value in given.items() if name in known}
        if _SERVERS not in kafka:
            raise ValueError(f"{_SERVERS} is missing: name one broker at least, host:port")
        isolation = kafka.get(_ISOLATION, READ_COMMITTED)
        if isolation not in (READ_COMMITTED, "read_uncommitted"):
            raise ValueError(f"{_ISOLATION} is {isolation!r}; it is read_committed or read_uncommitted")
        settings = {
            name.removeprefix(PREFIX).replace(".", "_"): value
            for name, value in kafka.items()
            if name not in (_GROUP, _ISOLATION)
        }
        if is_streaming:
            settings.setdefault(_TIMEOUT, str(_positive(said, "outageTimeoutMs") or OUTAGE_TIMEOUT_MS))
        return cls(
            settings=settings,
            group_id=kafka.get(_GROUP),
            subscription=_subscription(said),
            starting=_starting(said, Latest() if is_streaming else Earliest()),
            starting_option=next((name for name in said if name in _STARTING), None),
            ending=_ending(said, is_streaming),
            max_offsets_per_trigger=_positive(said, "maxOffsetsPerTrigger"),
            min_partitions=_positive(said, "minPartitions"),
            include_headers=_boolean(said, "includeHeaders", False),
            fail_on_data_loss=_boolean(said, "failOnDataLoss", True),
            reads_committed=isolation == READ_COMMITTED,
        )


def _all_of(topics: Topics, wanted: Any) -> tuple[list[TopicPartition], dict[str, UUID]]:
    counts = {name: count for name, count in topics.partition_counts.items() if wanted(name)}
    partitions = sorted(TopicPartition(name, index) for name, count in counts.items() for index in range(count))
    return partitions, {name: topics.ids[name] for name in counts}


def _subscription(said: Mapping[str, str]) -> Subscription:
    chosen = [name for name in _SUBSCRIPTIONS if name in said]
    if len(chosen) != 1:
        raise ValueError(f"set exactly one of {', '.join(_SUBSCRIPTIONS)}; set: {', '.join(chosen) or 'none'}")
    match chosen[0]:
        case "subscribe":
            topics = tuple(dict.fromkeys(name.strip() for name in said["subscribe"].split(",") if name.strip()))
            if not topics:
                raise ValueError("subscribe names no topic")
            return Subscription(topics=topics)
        case "subscribePattern":
            try:
                re.compile(said["subscribePattern"])
            except re.error as error:
                raise ValueError(f"subscribePattern {said['subscribePattern']!r}: {error}") from None
            return Subscription(pattern=said["subscribePattern"])
        case _:
            return Subscription(assigned=tuple(parse_assign(said["assign"])))


def _starting(said: Mapping[str, str], default: OffsetRangeLimit) -> OffsetRangeLimit:
    strategy = said.get("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise ValueError(f"startingOffsetsByTimestampStrategy is {strategy!r}; it is error or latest")
    or_latest = strategy == "latest"
    # The precedence is Spark's: a timestamp for all partitions, then timestamps by partition, then offsets.
    if "startingTimestamp" in said:
        return AtTime(_integer(said, "startingTimestamp"), or_latest)
    if "startingOffsetsByTimestamp" in said:
        option = "startingOffsetsByTimestamp"
        return parse_times(option, said[option], or_latest=or_latest)
    if "startingOffsets" in said:
        return parse_offsets_option("startingOffsets", said["startingOffsets"])
    return default


def _ending(said: Mapping[str, str], is_streaming: bool) -> OffsetRangeLimit:
    names = [name for name in said if name.startswith("ending")]
    if names and is_streaming:
        raise ValueError(f"{', '.join(names)}: a stream has no end; this is for spark.read")
    if "endingTimestamp" in said:
        return AtTime(_integer(said, "endingTimestamp"), or_latest=True)
    if "endingOffsetsByTimestamp" in said:
        return parse_times("endingOffsetsByTimestamp", said["endingOffsetsByTimestamp"], or_latest=True)
    if "endingOffsets" in said:
        return parse_offsets_option("endingOffsets", said["endingOffsets"], at_end=True)
    return Latest()


def _integer(said: Mapping[str, str], name: str) -> int:
    try:
        return int(said[name])
    except ValueError:
        raise ValueError(f"{name} is {said[name]!r}; it is a whole number") from None


def _positive(said: Mapping[str, str], name: str) -> int | None:
    if name not in said:
        return None
    number = _integer(said, name)
    if number < 1:
        raise ValueError(f"{name} is {number}; it is at least 1")
    return number


def _boolean(said: Mapping[str, str], name: str, default: bool) -> bool:
    text = said.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise ValueError(f"{name} is {said[name]!r}; it is true or false")
    return text == "true"


def _unknown(name: str, known: Mapping[str, str]) -> str:
    near: Iterable[str] = difflib.get_close_matches(name, known, n=1)
    hint = "".join(f"; did you mean {known[match]}?" for match in near)
    return f"there is no option {name!r}{hint}"
