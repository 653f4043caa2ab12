"""Time, as something that is handed in.

Nothing below ``semel.broker`` asks the machine what time it is: decisions take ``now_ms`` as an argument, and the code
that drives them holds a ``Clock``. So a test can run a day in a millisecond, and the same seed gives the same run.
"""

from __future__ import annotations

import time
from typing import Final, Protocol

NEVER: Final = float("inf")  # The deadline of what waits for no time.


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch: what is written into records and compared with them."""

    def monotonic_ms(self) -> float:
        """Milliseconds that never go back: what timeouts are measured with."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1_000_000
