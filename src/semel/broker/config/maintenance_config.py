"""The settings of log maintenance: retention, compaction and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from semel.log.config import MINUTE_MS
from semel.settings import AtLeast, SettingType, Update, declare

BOOLEAN, INT, LONG = SettingType.BOOLEAN, SettingType.INT, SettingType.LONG


@dataclass(frozen=True)
class MaintenanceConfig:
    """A part of ``BrokerConfig``."""

    log_retention_check_interval_ms: int = declare(
        "log.retention.check.interval.ms",
        LONG,
        5 * MINUTE_MS,
        "How often it is checked whether old segments can go.",
        rule=AtLeast(1),
    )
    log_cleaner_enable: bool = declare(
        "log.cleaner.enable", BOOLEAN, True, "Whether compaction runs. Without it compacted topics only grow."
    )
    log_cleaner_backoff_ms: int = declare(
        "log.cleaner.backoff.ms",
        LONG,
        15_000,
        "How long compaction rests when no log needs it.",
        rule=AtLeast(0),
        update=Update.CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size: int = declare(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        128 * 2**20,
        "The memory that one round of compaction may use to remember keys.",
        rule=AtLeast(2**20),
        update=Update.CLUSTER_WIDE,
    )
    log_flush_offset_checkpoint_interval_ms: int = declare(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        MINUTE_MS,
        "How often the recovery points are written, from which a start after a crash reads on; also every 64 MB.",
        rule=AtLeast(0),
    )
    log_flush_start_offset_checkpoint_interval_ms: int = declare(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        MINUTE_MS,
        "Accepted as in Kafka, and of no effect: start offsets go with the recovery points, and when they move.",
        rule=AtLeast(0),
    )
