"""The settings of a group shard, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from semel.types import INT32_MAX


class MigrationPolicy(StrEnum):
    """Which conversions are allowed for a group that has members: classic to consumer (upgrade), and back."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True)
class OffsetSettings:
    retention_ms: int = 7 * 24 * 3600 * 1000
    """``offsets.retention.minutes``, in milliseconds: how long an offset is kept after its group became empty, or after
    its own commit (see ``offsets/expiry.py``)."""

    metadata_size_max: int = 4096
    """``offset.metadata.max.bytes``. As in Kafka it is a number of UTF-16 code units, in spite of its name."""


@dataclass(frozen=True, slots=True)
class ClassicSettings:
    initial_rebalance_delay_ms: int = 3000
    """``group.initial.rebalance.delay.ms``"""
    session_timeout_ms_min: int = 6000
    """``group.min.session.timeout.ms``"""
    session_timeout_ms_max: int = 30 * 60 * 1000
    """``group.max.session.timeout.ms``"""
    size_max: int = INT32_MAX
    """``group.max.size``"""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    heartbeat_interval_ms: int = 5000
    """``group.consumer.heartbeat.interval.ms``"""
    session_timeout_ms: int = 45_000
    """``group.consumer.session.timeout.ms``"""
    size_max: int = INT32_MAX
    """``group.consumer.max.size``"""
    assignors: tuple[str, ...] = ("uniform", "range")
    """``group.consumer.assignors``; the first one is used if the members name none."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    """``group.consumer.migration.policy``"""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    offsets: OffsetSettings = OffsetSettings()
    classic: ClassicSettings = ClassicSettings()
    consumer: ConsumerSettings = ConsumerSettings()
