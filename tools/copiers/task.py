"""What a copier is to do, as it goes from the one who starts it to the copier: on the command line."""

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
    """For every partition of the source, the offset to copy up to."""

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
        """What the producer of every library is told, by Kafka's names, with underscores for the dots."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": self.transaction_timeout_ms,
        }

    def consumer_settings(self) -> dict[str, Any]:
        """The same for a consumer that asks for its group's offsets."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "group_id": self.group,
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
        }


def tell(positions: list[int]) -> None:
    """So much is committed."""
    print(sum(positions), flush=True)
