"""The size of one slice of compaction work, after which the broker serves requests again.

Work is counted, not timed, so that a simulation takes the same steps on every machine. One unit is about two
microseconds: one record decoded and looked up, or one kilobyte read, checked and written. The smallest step that is
never divided is the write of one batch.
"""

from __future__ import annotations

from typing import Final

SLICE_COST: Final = 1000
BATCH_COST: Final = 8
COST_PER_KILOBYTE_SHIFT: Final = 10

# The number of bytes read in one call: about as much as one slice processes.
STEP_BYTES: Final = 256 * 1024


class Pace:
    __slots__ = ("_left", "_slice_cost")

    def __init__(self, slice_cost: int = SLICE_COST) -> None:
        self._slice_cost = self._left = slice_cost

    def spend(self, cost: int) -> bool:
        """Count work. Returns whether the slice is over."""
        self._left -= cost
        if self._left > 0:
            return False
        self._left = self._slice_cost
        return True

    def spend_batch(self, size_bytes: int) -> bool:
        return self.spend(BATCH_COST + (size_bytes >> COST_PER_KILOBYTE_SHIFT))
