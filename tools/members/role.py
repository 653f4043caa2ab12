"""The parameters of a member, and their encoding as command line arguments. Its reports are in ``report.py``."""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import astuple, dataclass
from typing import Any, Final

RECORDS_PER_POLL: Final = 50
HEARTBEAT_INTERVAL_MS: Final = 300
# How long a rebalance waits for a member that sends heartbeats and does not rejoin, as during a transaction.
MAX_POLL_INTERVAL_MS: Final = 12_000
CONSUMER_PROTOCOL: Final = "consumer"
TRANSACTION_TIMEOUT_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Role:
    bootstrap_servers: str
    topic: str
    group: str
    name: str
    """The member's client id, which is also its transactional id."""
    protocol: str
    """An assignor of the classic protocol, or ``consumer`` for the protocol in which the broker assigns."""
    session_timeout_ms: int
    target: str = ""
    """The topic to copy to in transactions; empty for a member that only reads."""

    def to_arguments(self) -> list[str]:
        return [str(value) for value in astuple(self)]

    @classmethod
    def from_arguments(cls) -> Role:
        *texts, session_timeout_ms, target = sys.argv[1:]
        bootstrap_servers, topic, group, name, protocol = texts
        return cls(bootstrap_servers, topic, group, name, protocol, int(session_timeout_ms), target)

    @property
    def is_transactional(self) -> bool:
        return bool(self.target)

    def consumer_settings(self) -> dict[str, Any]:
        """Return the consumer's settings for every library, with Kafka's names and underscores for the dots."""
        if self.protocol == CONSUMER_PROTOCOL:
            membership: dict[str, Any] = {"group_protocol": "consumer"}
        else:
            membership = {
                "partition_assignment_strategy": self.protocol,
                "session_timeout_ms": self.session_timeout_ms,
                "max_poll_interval_ms": MAX_POLL_INTERVAL_MS,
                "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
            }
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "client_id": self.name,
            "group_id": self.group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            **membership,
        }

    def producer_settings(self) -> dict[str, Any]:
        """Return the settings of the producer of a member that copies, for every library."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "client_id": self.name,
            "transactional_id": self.name,
            "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
        }


def asked_to_leave() -> threading.Event:
    """Return an event that is set when SIGTERM arrives."""
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: asked.set())
    return asked
