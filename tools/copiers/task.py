"""The parameters of a copier, and their encoding as command line arguments."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Final

RECORDS_PER_TRANSACTION: Final = 50


@dataclass(frozen=True, slots=True)
class Task:
    bootstrap_servers: str
    source: str
    target: str
    transactional_id: str
    group: str
    transaction_timeout_ms: int
    ends: tuple[int, ...]
    """The offset to copy up to, for every partition of the source."""

    def to_arguments(self) -> list[str]:
        return [
            self.bootstrap_servers,
            self.source,
            self.target,
            self.transactional_id,
            self.group,
            str(self.transaction_timeout_ms),
            ",".join(map(str, self.ends)),
        ]

    @classmethod
    def from_arguments(cls) -> Task:
        *texts, timeout_ms, ends = sys.argv[1:]
        bootstrap_servers, source, target, transactional_id, group = texts
        limits = tuple(int(end) for end in ends.split(","))
        return cls(bootstrap_servers, source, target, transactional_id, group, int(timeout_ms), limits)

    def producer_settings(self) -> dict[str, Any]:
        """Return the producer's settings for every library, with Kafka's names and underscores for the dots."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": self.transaction_timeout_ms,
        }

    def consumer_settings(self) -> dict[str, Any]:
        """Return the settings of a consumer that gets its group's committed offsets, for every library."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "group_id": self.group,
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
        }


def tell(positions: list[int]) -> None:
    """Print how many records have been committed."""
    print(sum(positions), flush=True)
