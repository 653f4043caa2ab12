"""Open files and connections: how many the process may have, and what each of them is for.

Every partition holds one descriptor, that of the segment it appends to; closed segments are opened when they are read.
Every connection holds one. ``RESERVE`` stays free, so that logs can roll, be checkpointed and be read however many
clients connect. The law: what would not fit is refused when it is asked for, the topic when it is made and the
connection when it is opened; nothing that was accepted fails later for want of a descriptor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from semel.errors import StorageError

RESERVE: Final = 64
"""For the journal, the metadata, the lock, standard output, the loop itself, and files that are open for a moment."""

CONNECTIONS_MIN: Final = 16
"""What connections have at least, where partitions were made under a higher limit."""


@dataclass(frozen=True, slots=True)
class Descriptors:
    """``limit`` is that of the process (``ulimit -n``); ``None`` where there is none, as in a simulation."""

    limit: int | None = None

    def partitions_max(self) -> int | None:
        """A quarter of what is there is left to connections."""
        if self.limit is None:
            return None
        shared = self.limit - RESERVE
        return max(0, min(shared * 3 // 4, shared - CONNECTIONS_MIN))

    def connections_max(self, partitions: int) -> int | None:
        return None if self.limit is None else max(CONNECTIONS_MIN, self.limit - RESERVE - partitions)

    def check(self, partitions: int) -> None:
        """Before a start opens them. Raises ``StorageError`` that says what to do."""
        needed = partitions + RESERVE + CONNECTIONS_MIN
        if self.limit is not None and needed > self.limit:
            raise StorageError(
                f"{partitions} partitions need {needed} open files, and this process may have {self.limit}: raise the "
                f"limit with `ulimit -n {needed}`, or LimitNOFILE={needed} in the unit of systemd, and start again"
            )


def raised_descriptors() -> Descriptors:
    """Raise the soft limit to the hard one, which needs no privileges, and say what it then is."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass  # Some systems have a hard limit that cannot be reached. The soft one holds.
    return Descriptors(None if soft == resource.RLIM_INFINITY else soft)
