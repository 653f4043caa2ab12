"""How long to wait before trying again: twice as long every time, up to a limit, and never quite when others do."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

_JITTER: Final = 0.2
_DOUBLINGS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Backoff:
    """From ``first_ms`` to ``max_ms``."""

    first_ms: int
    max_ms: int

    def delay_ms(self, failures: int, random: Random) -> int:
        """The pause after so many failures in a row; none before the first."""
        if failures <= 0:
            return 0
        # Kafka's rule: where the first pause is longer than the longest, the longest counts.
        pause = min(self.first_ms << min(failures - 1, _DOUBLINGS_MAX), self.max_ms)
        return round(min(pause * random.uniform(1 - _JITTER, 1 + _JITTER), self.max_ms))


def while_markers_are_written(longest_ms: int) -> Backoff:
    """After CONCURRENT_TRANSACTIONS: the markers of the last transaction are under way, and soon there."""
    return Backoff(min(_MARKERS_FIRST_MS, longest_ms), min(_MARKERS_MAX_MS, longest_ms))


_MARKERS_FIRST_MS: Final = 2
_MARKERS_MAX_MS: Final = 20
