"""The clock, as an interface: the real one and those of tests are passed in.

Code below ``semel.broker`` never reads the time of the machine: decisions take ``now_ms`` as an argument, and the code
that drives them holds a ``Clock``. So a test can run a day in a millisecond, and the same seed gives the same run.
"""

from __future__ import annotations

import time
from typing import Final, Protocol

NEVER: Final = float("inf")  # The deadline of a wait or a timer that has none.


class Clock(Protocol):
    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since the Unix epoch, for timestamps of records and comparisons
        with them."""

    def monotonic_ms(self) -> float:
        """Return milliseconds of a clock that never goes back, for measuring timeouts."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1_000_000
