"""The settings an offset shard decides by, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OffsetSettings:
    retention_ms: int = 7 * 24 * 3600 * 1000
    """``offsets.retention.minutes``, in milliseconds: how long an offset outlives its group's members, or its own
    commit if the group never had any."""

    metadata_size_max: int = 4096
    """``offset.metadata.max.bytes``. Kafka counts characters of UTF-16 and calls them bytes, and so do we."""
