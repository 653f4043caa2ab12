"""The settings of replication: how followers fetch, and when a follower counts as in sync."""

from __future__ import annotations

from dataclasses import dataclass

from semel.settings import AtLeast, SettingType, declare

INT, LONG = SettingType.INT, SettingType.LONG


@dataclass(frozen=True)
class ReplicationConfig:
    """A part of ``BrokerConfig``."""

    replica_lag_time_max_ms: int = declare(
        "replica.lag.time.max.ms",
        LONG,
        10_000,
        "A follower that has not had everything for this long is no longer in sync. Kafka has 30000.",
        rule=AtLeast(1),
    )
    replica_fetch_wait_max_ms: int = declare(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        "How long a follower's Fetch waits at the leader for something to copy.",
        rule=AtLeast(1),
    )
    replica_fetch_max_bytes: int = declare(
        "replica.fetch.max.bytes",
        INT,
        2**20,
        "How many bytes of one partition a follower asks for at a time; a batch that is larger comes whole.",
        rule=AtLeast(0),
    )
    replica_fetch_response_max_bytes: int = declare(
        "replica.fetch.response.max.bytes",
        INT,
        4 * 2**20,
        "How many bytes of all partitions a follower asks for at a time. More than 4 MiB counts as 4. "
        "Kafka has 10 MiB.",
        rule=AtLeast(0),
    )
