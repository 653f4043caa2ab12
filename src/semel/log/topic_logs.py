"""The settings and partitions of one topic, taken from the metadata."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from semel.log.config import LogConfig


@dataclass(frozen=True, slots=True)
class TopicLogs:
    topic_id: UUID
    config: LogConfig
    synced: bool  # whether acknowledged means synced (flush=commit, and always for the internal topics)
    partitions: tuple[int, ...] = ()
    """The partitions that are kept on this broker. A start makes the missing ones."""
    replicated: frozenset[int] = frozenset()
    """The partitions that have replicas on other brokers."""
    in_sync_elsewhere: frozenset[int] = frozenset()
    """The partitions with another broker in the in-sync set, from which lost records can be fetched again."""
