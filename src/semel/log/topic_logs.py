"""The settings and partitions of one topic, as the metadata has them."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from semel.log.config import LogConfig


@dataclass(frozen=True, slots=True)
class TopicLogs:
    topic_id: UUID
    config: LogConfig
    synced: bool  # whether acknowledged means synced (flush=commit, and always for the internal topics)
    partitions: tuple[int, ...] = ()  # those kept here: a start makes the ones that are missing
    replicated: frozenset[int] = frozenset()  # those of which other brokers have replicas
    held_elsewhere: frozenset[int] = frozenset()  # those whose in-sync set has another broker: losses are fetched again
