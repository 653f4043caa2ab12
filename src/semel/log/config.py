"""The settings of a topic, which are the settings of each of its logs (Kafka's LogConfig).

Names, types, defaults and ranges are Apache Kafka's (4.3). A topic stores only the settings that were set on it; the
others come from the broker's settings named as synonyms. So ``LogConfig.from_settings`` takes the overrides and the
defaults. Settings of tiered storage do not exist here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from semel.settings import (
    AtLeast,
    Between,
    ListOf,
    OneOf,
    SettingError,
    Settings,
    SettingType,
    Synonym,
    declare,
    declared_in,
)
from semel.types import INT64_MAX
from semel.wire.compression import Codec
from semel.wire.records.header import TimestampType

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

_CODECS = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
_TIMESTAMP_TYPES = {"CreateTime": TimestampType.CREATE_TIME, "LogAppendTime": TimestampType.LOG_APPEND_TIME}


class CleanupPolicy(StrEnum):
    """What happens to old segments: they are deleted, or only the last record of each key is kept."""

    DELETE = "delete"
    COMPACT = "compact"


# In Kafka -1 is the library's default level. Kafka refuses level 0, which would store without compressing.
GZIP_LEVELS = OneOf((-1, *range(1, 10)))


@dataclass(frozen=True, slots=True)
class _ThrottledReplicas:
    def allows(self, replicas: tuple[str, ...]) -> bool:
        return replicas == ("*",) or all(re.fullmatch(r"[0-9]+:[0-9]+", replica) for replica in replicas)

    def __str__(self) -> str:
        return "a list of partition:broker, or * for all"


def _unlimited_if_negative(value: int) -> int | None:
    return value if value >= 0 else None


def _policies(names: tuple[str, ...]) -> frozenset[CleanupPolicy]:
    return frozenset(map(CleanupPolicy, names))


def _from(*names: str) -> tuple[Synonym, ...]:
    return tuple(map(Synonym, names))


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of one log. ``from_settings`` validates them; the constructor accepts any value, for tests."""

    cleanup_policy: frozenset[CleanupPolicy] = declare(
        "cleanup.policy",
        SettingType.LIST,
        ("delete",),
        "What happens to old segments: delete (by age and size), compact (the last record of each key is kept), both, "
        "or nothing if the list is empty.",
        rule=ListOf(("compact", "delete")),
        synonyms=_from("log.cleanup.policy"),
        read=_policies,
    )
    retention_ms: int | None = declare(
        "retention.ms",
        SettingType.LONG,
        7 * DAY_MS,
        "How long a record is kept at least under the policy delete; -1 keeps it without limit.",
        rule=AtLeast(-1),
        synonyms=(
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", MINUTE_MS),
            Synonym("log.retention.hours", HOUR_MS),
        ),
        read=_unlimited_if_negative,
    )
    retention_bytes: int | None = declare(
        "retention.bytes",
        SettingType.LONG,
        -1,
        "How large a partition may grow before its oldest segments go under the policy delete; -1 sets no limit.",
        synonyms=_from("log.retention.bytes"),
        read=_unlimited_if_negative,
    )
    segment_bytes: int = declare(
        "segment.bytes",
        SettingType.INT,
        2**30,
        "The size at which a segment is closed and the next one begun. Retention works in whole segments.",
        rule=AtLeast(2**20),
        synonyms=_from("log.segment.bytes"),
    )
    segment_ms: int = declare(
        "segment.ms",
        SettingType.LONG,
        7 * DAY_MS,
        "The age at which a segment is closed although it is not full, so that retention and compaction can reach it.",
        rule=AtLeast(1),
        synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", HOUR_MS)),
    )
    segment_jitter_ms: int = declare(
        "segment.jitter.ms",
        SettingType.LONG,
        0,
        "The longest time taken off segment.ms; for each partition it is another one, so that not all roll at once.",
        rule=AtLeast(0),
        synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOUR_MS)),
    )
    segment_index_bytes: int = declare(
        "segment.index.bytes",
        SettingType.INT,
        10 * 2**20,
        "The largest size of a segment's offset index, and of its time index; a full index closes the segment.",
        rule=AtLeast(4),
        synonyms=_from("log.index.size.max.bytes"),
    )
    index_interval_bytes: int = declare(
        "index.interval.bytes",
        SettingType.INT,
        4096,
        "How many bytes of records lie between two entries of the offset index.",
        rule=AtLeast(0),
        synonyms=_from("log.index.interval.bytes"),
    )
    preallocate: bool = declare(
        "preallocate",
        SettingType.BOOLEAN,
        False,
        "Accepted as in Kafka. It changes nothing here: segment files grow as they are written.",
        synonyms=_from("log.preallocate"),
    )
    file_delete_delay_ms: int = declare(
        "file.delete.delay.ms",
        SettingType.LONG,
        MINUTE_MS,
        "Accepted as in Kafka, and of no effect: deleted segments are removed at once, since no reader holds them.",
        rule=AtLeast(0),
        synonyms=_from("log.segment.delete.delay.ms"),
    )
    flush_messages: int = declare(
        "flush.messages",
        SettingType.LONG,
        INT64_MAX,
        "Accepted as in Kafka. With flush=commit every acknowledged record is on disk, and this adds nothing; with "
        "flush=os the operating system decides when to write.",
        rule=AtLeast(1),
        synonyms=_from("log.flush.interval.messages"),
    )
    flush_ms: int = declare(
        "flush.ms",
        SettingType.LONG,
        INT64_MAX,
        "Accepted as in Kafka. With flush=commit every acknowledged record is on disk, and this adds nothing; with "
        "flush=os the operating system decides when to write.",
        rule=AtLeast(0),
        synonyms=_from("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    max_message_bytes: int = declare(
        "max.message.bytes",
        SettingType.INT,
        1_048_588,
        "The largest record batch that is accepted, as it was sent (compressed or not).",
        rule=AtLeast(0),
        synonyms=_from("message.max.bytes"),
    )
    message_timestamp_type: TimestampType = declare(  # noqa: RUF009 (the value is frozen)
        "message.timestamp.type",
        SettingType.STRING,
        "CreateTime",
        "Whose time a record carries: its producer's (CreateTime) or the broker's at the append (LogAppendTime).",
        rule=OneOf(("CreateTime", "LogAppendTime")),
        synonyms=_from("log.message.timestamp.type"),
        read=_TIMESTAMP_TYPES.__getitem__,
    )
    message_timestamp_before_max_ms: int = declare(
        "message.timestamp.before.max.ms",
        SettingType.LONG,
        INT64_MAX,
        "How far a producer's timestamp may lie before the broker's clock. Not checked under LogAppendTime.",
        rule=AtLeast(0),
        synonyms=_from("log.message.timestamp.before.max.ms"),
    )
    message_timestamp_after_max_ms: int = declare(
        "message.timestamp.after.max.ms",
        SettingType.LONG,
        HOUR_MS,
        "How far a producer's timestamp may lie after the broker's clock. Not checked under LogAppendTime.",
        rule=AtLeast(0),
        synonyms=_from("log.message.timestamp.after.max.ms"),
    )
    compression_type: Codec | None = declare(  # noqa: RUF009 (the value is frozen)
        "compression.type",
        SettingType.STRING,
        "producer",
        "The codec in which batches are stored; producer keeps each batch as it was sent.",
        rule=OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
        synonyms=_from("compression.type"),
        read=_CODECS.get,
    )
    compression_gzip_level: int = declare(
        "compression.gzip.level",
        SettingType.INT,
        -1,
        "The level with which the broker compresses when compression.type is gzip; -1 is the library's default.",
        rule=GZIP_LEVELS,
        synonyms=_from("compression.gzip.level"),
    )
    compression_lz4_level: int = declare(
        "compression.lz4.level",
        SettingType.INT,
        9,
        "The level with which the broker compresses when compression.type is lz4.",
        rule=Between(1, 17),
        synonyms=_from("compression.lz4.level"),
    )
    compression_zstd_level: int = declare(
        "compression.zstd.level",
        SettingType.INT,
        3,
        "The level with which the broker compresses when compression.type is zstd.",
        rule=Between(-131_072, 22),
        synonyms=_from("compression.zstd.level"),
    )
    min_cleanable_dirty_ratio: float = declare(
        "min.cleanable.dirty.ratio",
        SettingType.DOUBLE,
        0.5,
        "The part of a compacted log that must be new before it is compacted again.",
        rule=Between(0, 1),
        synonyms=_from("log.cleaner.min.cleanable.ratio"),
    )
    min_compaction_lag_ms: int = declare(
        "min.compaction.lag.ms",
        SettingType.LONG,
        0,
        "How long a record stays untouched by compaction.",
        rule=AtLeast(0),
        synonyms=_from("log.cleaner.min.compaction.lag.ms"),
    )
    max_compaction_lag_ms: int = declare(
        "max.compaction.lag.ms",
        SettingType.LONG,
        INT64_MAX,
        "How long a record may wait for compaction, however small the new part of the log is.",
        rule=AtLeast(1),
        synonyms=_from("log.cleaner.max.compaction.lag.ms"),
    )
    delete_retention_ms: int = declare(
        "delete.retention.ms",
        SettingType.LONG,
        DAY_MS,
        "How long compaction keeps tombstones and transaction markers, so that a slow reader still meets them.",
        rule=AtLeast(0),
        synonyms=_from("log.cleaner.delete.retention.ms"),
    )
    min_insync_replicas: int = declare(
        "min.insync.replicas",
        SettingType.INT,
        2,
        "How many replicas must be in sync for a write with acks=all; never more than the partition has. Kafka has 1.",
        rule=AtLeast(1),
        synonyms=_from("min.insync.replicas"),
    )
    unclean_leader_election_enable: bool = declare(
        "unclean.leader.election.enable",
        SettingType.BOOLEAN,
        False,
        "Kept and shown, and without effect: brokers never elect an unclean leader by themselves, only when "
        "ElectLeaders asks for it.",
        synonyms=_from("unclean.leader.election.enable"),
    )
    leader_replication_throttled_replicas: tuple[str, ...] = declare(
        "leader.replication.throttled.replicas",
        SettingType.LIST,
        (),
        "Kept and shown, and without effect: copying is not throttled. As partition:broker, or * for all.",
        rule=_ThrottledReplicas(),
    )
    follower_replication_throttled_replicas: tuple[str, ...] = declare(
        "follower.replication.throttled.replicas",
        SettingType.LIST,
        (),
        "Kept and shown, and without effect: copying is not throttled. As partition:broker, or * for all.",
        rule=_ThrottledReplicas(),
    )
    internal_segment_bytes: int | None = declare(
        "internal.segment.bytes",
        SettingType.INT,
        None,
        "Takes the place of segment.bytes, without its lower bound. For tests.",
        rule=AtLeast(1),
        internal=True,
    )

    @property
    def compact(self) -> bool:
        return CleanupPolicy.COMPACT in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return CleanupPolicy.DELETE in self.cleanup_policy

    @property
    def segment_age_max_ms(self) -> int:
        """The age at which a segment is closed although it is not full: only closed segments are compacted."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms

    @classmethod
    def from_settings(cls, overrides: Mapping[str, str], defaults: LogConfig | None = None) -> LogConfig:
        """The settings of a topic: ``overrides`` are those set on the topic, ``defaults`` the broker's. Raises
        ``SettingError``.

        New overrides must also pass ``check``. Stored overrides are not checked again: the broker's defaults may have
        changed since, and the topic must still be opened.
        """
        attributes = TOPIC_SETTINGS.attributes(overrides)
        if "internal_segment_bytes" in attributes:
            attributes["segment_bytes"] = attributes["internal_segment_bytes"]
        return replace(defaults or DEFAULTS, **attributes)

    def check(self) -> None:
        """Raise ``SettingError`` if settings that are valid one by one contradict each other."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise SettingError(
                "min.compaction.lag.ms",
                f"min.compaction.lag.ms ({self.min_compaction_lag_ms}) is larger than max.compaction.lag.ms "
                f"({self.max_compaction_lag_ms}): a record could neither be compacted nor left alone",
            )


_TIERED_STORAGE = "Semel has no tiered storage"

DEFAULTS: Final = LogConfig()
TOPIC_SETTINGS: Final = Settings(
    "topic",
    declared_in(LogConfig),
    absent={
        "remote.": _TIERED_STORAGE,
        "local.retention.ms": _TIERED_STORAGE,
        "local.retention.bytes": _TIERED_STORAGE,
        "flush": "flush is a setting of the broker: what an acknowledgement means does not vary by topic",
        "message.format.version": "Kafka 4 has no such setting: message format 2 is the only one",
        "message.downconversion.enable": "Kafka 4 has no such setting: message format 2 is the only one",
        "message.timestamp.difference.max.ms": "Kafka 4 has message.timestamp.before.max.ms and .after.max.ms instead",
    },
)
