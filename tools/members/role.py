"""What a member is to do, as it goes to the member on its command line. What it reports is in ``report.py``."""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import astuple, dataclass
from typing import Any, Final

RECORDS_PER_POLL: Final = 50
HEARTBEAT_INTERVAL_MS: Final = 300
# A rebalance waits for so long for a member that is heard and does not join: one that is busy with a transaction.
MAX_POLL_INTERVAL_MS: Final = 12_000
CONSUMER_PROTOCOL: Final = "consumer"
TRANSACTION_TIMEOUT_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Role:
    bootstrap_servers: str
    topic: str
    group: str
    name: str
    """Who this member is: its client id, and its transactional id."""
    protocol: str
    """An assignor of the classic protocol, or ``consumer`` for the protocol in which the broker assigns."""
    session_timeout_ms: int
    target: str = ""
    """Where to copy to in transactions; empty for a member that only reads."""

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
        """What the consumer of every library is told, by Kafka's names, with underscores for the dots."""
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
        """The same for the producer of a member that copies."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "client_id": self.name,
            "transactional_id": self.name,
            "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
        }


def asked_to_leave() -> threading.Event:
    """Set once SIGTERM has arrived."""
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: asked.set())
    return asked
