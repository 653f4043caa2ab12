"""The settings of a consumer: Kafka 4's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

from semel.client.config.common import (
    ABSENT,
    BOOLEAN,
    CLIENT_SETTINGS,
    INT,
    LIST,
    MINUTE_MS,
    STRING,
    ClientConfig,
    read_keywords,
    split,
)
from semel.settings import AtLeast, OneOf, SettingError, Settings, declare, declared_in


class IsolationLevel(IntEnum):
    """Whether a consumer receives records of open and aborted transactions. Numbered as on the wire."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetReset(StrEnum):
    """Where a consumer starts to read if it has no position, or one that the log does not have."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class GroupProtocol(StrEnum):
    """What assigns a group's partitions: one of its members (classic), or the broker (consumer, KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


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
    fetch_max_wait_ms: int = declare(
        "fetch.max.wait.ms", INT, 500, "How long a broker waits at most for fetch.min.bytes.", rule=AtLeast(0)
    )
    fetch_max_bytes: int = declare(
        "fetch.max.bytes",
        INT,
        50 * 2**20,
        "How many bytes one fetch returns and the consumer buffers at most. A larger batch is still returned, alone.",
        rule=AtLeast(0),
    )
    max_partition_fetch_bytes: int = declare(
        "max.partition.fetch.bytes",
        INT,
        2**20,
        "How many bytes one fetch returns from one partition at most.",
        rule=AtLeast(0),
    )
    max_poll_records: int = declare(
        "max.poll.records", INT, 500, "How many records one poll returns at most.", rule=AtLeast(1)
    )
    check_crcs: bool = declare("check.crcs", BOOLEAN, True, "Whether the checksum of every batch is verified.")
    default_api_timeout_ms: int = declare(
        "default.api.timeout.ms",
        INT,
        MINUTE_MS,
        "How long a call without a timeout argument waits at most.",
        rule=AtLeast(0),
    )
    allow_auto_create_topics: bool = declare(
        "allow.auto.create.topics",
        BOOLEAN,
        True,
        "Whether a broker may create a topic that the consumer reads and that does not exist.",
    )
    client_rack: str = declare(
        "client.rack", STRING, "", "The rack (or zone) of this consumer, which it sends to brokers."
    )
    group_id: str | None = declare(
        "group.id", STRING, None, "The group whose members share the partitions, and whose offsets are committed."
    )
    group_instance_id: str | None = declare(
        "group.instance.id",
        STRING,
        None,
        "A name that stays over restarts: the group waits for session.timeout.ms for its member to come back.",
    )
    group_protocol: GroupProtocol = declare(  # noqa: RUF009 (the value is frozen)
        "group.protocol",
        STRING,
        "classic",
        "classic: a member assigns the partitions. consumer: the broker does (KIP-848), and members never all stop.",
        rule=OneOf(("classic", "consumer")),
        read=GroupProtocol,
    )
    group_remote_assignor: str | None = declare(
        "group.remote.assignor",
        STRING,
        None,
        "With group.protocol=consumer: the broker's assignor to use. Unset: the broker's first.",
    )
    partition_assignment_strategy: tuple[str, ...] = declare(
        "partition.assignment.strategy",
        LIST,
        ("range", "cooperative-sticky"),
        "The assignors that are offered, best first; the group uses one that all its members offer.",
    )
    session_timeout_ms: int = declare(
        "session.timeout.ms",
        INT,
        45_000,
        "After this time without a heartbeat a member counts as dead, and its partitions go to others.",
        rule=AtLeast(1),
    )
    heartbeat_interval_ms: int = declare(
        "heartbeat.interval.ms",
        INT,
        3_000,
        "How often a heartbeat is sent, whatever the application does; it must be less than session.timeout.ms.",
        rule=AtLeast(1),
    )
    max_poll_interval_ms: int = declare(
        "max.poll.interval.ms",
        INT,
        5 * MINUTE_MS,
        "How long the application may take between two polls. Then the consumer leaves the group; the next poll joins "
        "again.",
        rule=AtLeast(1),
    )
    enable_auto_commit: bool = declare(
        "enable.auto.commit",
        BOOLEAN,
        True,
        "Whether poll commits what earlier polls returned, and so do revocations and close. Without group.id it does "
        "not.",
    )
    auto_commit_interval_ms: int = declare(
        "auto.commit.interval.ms", INT, 5_000, "How often poll commits automatically at most.", rule=AtLeast(0)
    )
    exclude_internal_topics: bool = declare(
        "exclude.internal.topics",
        BOOLEAN,
        True,
        "Whether a subscription by pattern leaves out the brokers' internal topics.",
    )

    @property
    def is_auto_commit(self) -> bool:
        return self.enable_auto_commit and self.group_id is not None

    @classmethod
    def load(cls, keywords: Mapping[str, object]) -> ConsumerConfig:
        client, own = split(read_keywords(CONSUMER_SETTINGS, keywords))
        config = cls(client=client, **own)
        _refuse_contradictions(
            config, {name.replace("_", ".") for name, value in keywords.items() if value is not None}
        )
        return config


def _refuse_contradictions(config: ConsumerConfig, given: set[str]) -> None:
    if config.group_id == "":
        raise SettingError("group.id", "group.id is empty; leave it out or give it a name")
    if config.group_instance_id == "":
        raise SettingError("group.instance.id", "group.instance.id is empty; leave it out or give it a name")
    if config.group_protocol is GroupProtocol.CONSUMER:
        for name in _OF_THE_CLASSIC_PROTOCOL:
            if name in given:
                raise SettingError(
                    name, f"{name} cannot be set together with group.protocol=consumer: there, the broker decides that"
                )
        return
    if config.group_remote_assignor is not None:
        raise SettingError(
            "group.remote.assignor", "group.remote.assignor needs group.protocol=consumer; it is classic"
        )
    if config.heartbeat_interval_ms >= config.session_timeout_ms:
        raise SettingError(
            "heartbeat.interval.ms",
            f"heartbeat.interval.ms ({config.heartbeat_interval_ms}) must be less than session.timeout.ms "
            f"({config.session_timeout_ms}): a member that is never heard in time is thrown out of its group",
        )
    if not config.partition_assignment_strategy:
        raise SettingError("partition.assignment.strategy", "partition.assignment.strategy names no assignor")


_OF_THE_CLASSIC_PROTOCOL: Final = ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms")

CONSUMER_SETTINGS: Final = Settings(
    "consumer",
    (*CLIENT_SETTINGS, *declared_in(ConsumerConfig)),
    absent=ABSENT,
)
