"""File descriptors: divides the process's limit of open files between partitions and connections.

Every partition holds one descriptor, for the segment it appends to; older segments are opened when they are read.
Every connection holds one. ``RESERVE`` stays free, so that logs can roll, be checkpointed and be read however many
clients connect. The law: a topic for which there are not enough descriptors is refused when it is created, and a
connection when it is opened; nothing that was accepted fails later because of a missing descriptor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from semel.errors import StorageError

RESERVE: Final = 64
"""Descriptors for the journal, the metadata, the lock, standard output, the event loop, and files that are open for a
moment."""

CONNECTIONS_MIN: Final = 16
"""How many connections are allowed at least, even if partitions were created under a higher limit."""


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The limit of open files of the process (``ulimit -n``); ``None`` if there is none, as in a simulation."""

    limit: int | None = None

    def partitions_max(self) -> int | None:
        """Return how many partitions there may be; a quarter of the descriptors is left to connections."""
        if self.limit is None:
            return None
        shared = self.limit - RESERVE
        return max(0, min(shared * 3 // 4, shared - CONNECTIONS_MIN))

    def connections_max(self, partitions: int) -> int | None:
        return None if self.limit is None else max(CONNECTIONS_MIN, self.limit - RESERVE - partitions)

    def check(self, partitions: int) -> None:
        """Check at start, before they are opened, that there are enough descriptors for the partitions. Raises
        ``StorageError``, which says what to do."""
        needed = partitions + RESERVE + CONNECTIONS_MIN
        if self.limit is not None and needed > self.limit:
            raise StorageError(
                f"{partitions} partitions need {needed} open files, and this process may have {self.limit}: raise the "
                f"limit with `ulimit -n {needed}`, or LimitNOFILE={needed} in the unit of systemd, and start again"
            )


def raised_descriptors() -> Descriptors:
    """Raise the soft limit of open files to the hard limit, which needs no privileges, and return the result."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass  # On some systems the hard limit cannot be reached. The soft limit stays.
    return Descriptors(None if soft == resource.RLIM_INFINITY else soft)
