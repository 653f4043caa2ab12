"""The settings of groups and their offsets."""

from __future__ import annotations

from dataclasses import dataclass

from semel.log.config import MINUTE_MS
from semel.settings import AtLeast, ListOf, OneOf, SettingError, SettingType, declare
from semel.types import INT32_MAX

INT, SHORT, LONG, STRING, LIST = (
    SettingType.INT,
    SettingType.SHORT,
    SettingType.LONG,
    SettingType.STRING,
    SettingType.LIST,
)


@dataclass(frozen=True)
class GroupConfig:
    """A part of ``BrokerConfig``."""

    offsets_topic_num_partitions: int = declare(
        "offsets.topic.num.partitions",
        INT,
        50,
        "The partitions of __consumer_offsets. It must not change once the topic exists.",
        rule=AtLeast(1),
    )
    offsets_topic_replication_factor: int = declare(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "The replicas of __consumer_offsets. A cluster makes it when so many brokers are there; one node makes "
        "it at once, with one.",
        rule=AtLeast(1),
    )
    offsets_topic_segment_bytes: int = declare(
        "offsets.topic.segment.bytes", INT, 100 * 2**20, "segment.bytes of __consumer_offsets.", rule=AtLeast(1)
    )
    offsets_retention_minutes: int = declare(
        "offsets.retention.minutes", INT, 7 * 24 * 60, "How long an empty group's offsets are kept.", rule=AtLeast(1)
    )
    offsets_retention_check_interval_ms: int = declare(
        "offsets.retention.check.interval.ms",
        LONG,
        10 * MINUTE_MS,
        "How often it is checked which offsets have expired.",
        rule=AtLeast(1),
    )
    offset_metadata_max_bytes: int = declare(
        "offset.metadata.max.bytes", INT, 4096, "The longest metadata text beside a committed offset."
    )
    group_initial_rebalance_delay_ms: int = declare(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long the first rebalance of an empty group waits for more members (classic protocol).",
    )
    group_min_session_timeout_ms: int = declare(
        "group.min.session.timeout.ms", INT, 6000, "The shortest session timeout of a member (classic protocol)."
    )
    group_max_session_timeout_ms: int = declare(
        "group.max.session.timeout.ms",
        INT,
        30 * MINUTE_MS,
        "The longest session timeout of a member (classic protocol).",
    )
    group_max_size: int = declare(
        "group.max.size", INT, INT32_MAX, "How many members a group may have (classic protocol).", rule=AtLeast(1)
    )
    group_consumer_session_timeout_ms: int = declare(
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        "After this time without a heartbeat a member is out (consumer protocol).",
        rule=AtLeast(1),
    )
    group_consumer_heartbeat_interval_ms: int = declare(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5000,
        "How often members are told to send a heartbeat (consumer protocol).",
        rule=AtLeast(1),
    )
    group_consumer_min_session_timeout_ms: int = declare(
        "group.consumer.min.session.timeout.ms",
        INT,
        45_000,
        "The least that group.consumer.session.timeout.ms may be (consumer protocol).",
        rule=AtLeast(1),
    )
    group_consumer_max_session_timeout_ms: int = declare(
        "group.consumer.max.session.timeout.ms",
        INT,
        60_000,
        "The most that group.consumer.session.timeout.ms may be (consumer protocol).",
        rule=AtLeast(1),
    )
    group_consumer_min_heartbeat_interval_ms: int = declare(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5000,
        "The least that group.consumer.heartbeat.interval.ms may be (consumer protocol).",
        rule=AtLeast(1),
    )
    group_consumer_max_heartbeat_interval_ms: int = declare(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15_000,
        "The most that group.consumer.heartbeat.interval.ms may be (consumer protocol).",
        rule=AtLeast(1),
    )
    group_consumer_max_size: int = declare(
        "group.consumer.max.size",
        INT,
        INT32_MAX,
        "How many members a group may have (consumer protocol).",
        rule=AtLeast(1),
    )
    group_consumer_assignors: tuple[str, ...] = declare(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        "The assignors that a group may use, the first by default (consumer protocol).",
        rule=ListOf(("uniform", "range")),
    )
    group_consumer_migration_policy: str = declare(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "Whether a group that has members may change from the classic to the consumer protocol (upgrade), back "
        "(downgrade), both ways (bidirectional) or not at all (disabled).",
        rule=OneOf(("bidirectional", "upgrade", "downgrade", "disabled")),
    )
    group_version: int = declare(
        "group.version",
        SHORT,
        1,
        "The protocol of groups that clients are offered: 1, the consumer protocol (KIP-848) beside the classic one, "
        "or 0, the classic one only. Semel's own: in Kafka it is a feature of the cluster and no setting.",
        rule=OneOf((0, 1)),
    )

    def check(self) -> None:
        """Raise ``SettingError`` if two settings contradict each other."""
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise SettingError(
                "group.min.session.timeout.ms",
                f"group.min.session.timeout.ms ({self.group_min_session_timeout_ms}) is larger than "
                f"group.max.session.timeout.ms ({self.group_max_session_timeout_ms}): no member could join",
            )
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise SettingError(
                "group.consumer.heartbeat.interval.ms",
                f"group.consumer.heartbeat.interval.ms ({self.group_consumer_heartbeat_interval_ms}) must be smaller "
                f"than group.consumer.session.timeout.ms ({self.group_consumer_session_timeout_ms})",
            )
        _check_bounds(
            "group.consumer.session.timeout.ms",
            self.group_consumer_min_session_timeout_ms,
            self.group_consumer_session_timeout_ms,
            self.group_consumer_max_session_timeout_ms,
        )
        _check_bounds(
            "group.consumer.heartbeat.interval.ms",
            self.group_consumer_min_heartbeat_interval_ms,
            self.group_consumer_heartbeat_interval_ms,
            self.group_consumer_max_heartbeat_interval_ms,
        )


def _check_bounds(name: str, minimum: int, value: int, maximum: int) -> None:
    if not minimum <= value <= maximum:
        bound = name.removeprefix("group.consumer.")
        raise SettingError(
            name,
            f"{name} ({value}) must be between group.consumer.min.{bound} ({minimum}) and "
            f"group.consumer.max.{bound} ({maximum})",
        )
