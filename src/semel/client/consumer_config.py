"""The settings of a consumer: Kafka 4's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

from semel.client.config import (
    ABSENT,
    BOOLEAN,
    CLIENT_SETTINGS,
    INT,
    MINUTE_MS,
    STRING,
    ClientConfig,
    read_keywords,
    split,
)
from semel.settings import AtLeast, OneOf, Settings, declare, declared_in


class IsolationLevel(IntEnum):
    """Whether a reader sees records of transactions that are undecided or aborted. Numbered as on the wire."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetReset(StrEnum):
    """Where to begin where there is no position, or none that the log still has."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """All settings of one consumer, typed. ``client`` holds those that it shares with producers."""

    client: ClientConfig = field(default_factory=ClientConfig)

    isolation_level: IsolationLevel = declare(  # noqa: RUF009 (the value is frozen)
        "isolation.level",
        STRING,
        "read_uncommitted",
        "read_committed hides what was aborted and stops before what is undecided.",
        rule=OneOf(("read_uncommitted", "read_committed")),
        read=lambda name: IsolationLevel[name.upper()],
    )
    auto_offset_reset: OffsetReset = declare(  # noqa: RUF009 (the value is frozen)
        "auto.offset.reset",
        STRING,
        "latest",
        "Where to begin where there is no position, or none that the log still has; none makes that an error.",
        rule=OneOf(("earliest", "latest", "none")),
        read=OffsetReset,
    )
    fetch_min_bytes: int = declare(
        "fetch.min.bytes", INT, 1, "How many bytes a broker gathers before it answers a fetch.", rule=AtLeast(0)
    )
    fetch_max_wait_ms: int = declare("fetch.max.wait.ms", INT, 500, "How long it waits for them.", rule=AtLeast(0))
    fetch_max_bytes: int = declare(
        "fetch.max.bytes",
        INT,
        50 * 2**20,
        "How many bytes one fetch brings at most, and how many are held ready; a larger batch still comes alone.",
        rule=AtLeast(0),
    )
    max_partition_fetch_bytes: int = declare(
        "max.partition.fetch.bytes", INT, 2**20, "How many of them come from one partition.", rule=AtLeast(0)
    )
    max_poll_records: int = declare(
        "max.poll.records", INT, 500, "How many records one poll returns at most.", rule=AtLeast(1)
    )
    check_crcs: bool = declare("check.crcs", BOOLEAN, True, "Whether the checksum of every batch is looked at.")
    default_api_timeout_ms: int = declare(
        "default.api.timeout.ms", INT, MINUTE_MS, "How long calls wait that take no timeout.", rule=AtLeast(0)
    )
    allow_auto_create_topics: bool = declare(
        "allow.auto.create.topics", BOOLEAN, True, "Whether a topic that is asked for may be created by that."
    )
    client_rack: str = declare("client.rack", STRING, "", "Where this consumer stands.")

    @classmethod
    def load(cls, keywords: Mapping[str, object]) -> ConsumerConfig:
        client, own = split(read_keywords(CONSUMER_SETTINGS, keywords))
        return cls(client=client, **own)


CONSUMER_SETTINGS: Final = Settings(
    "consumer",
    (*CLIENT_SETTINGS, *declared_in(ConsumerConfig)),
    absent={**ABSENT, "group.": "this version reads by assignment, without groups"},
)
