"""Clocks for tests: one that follows a virtual loop, and one that a test advances by hand.

Both begin at ``START_MS``, a fixed date, so that the output of a run does not depend on the date of the run.
"""

from __future__ import annotations

import asyncio
from typing import Final

START_MS: Final = 1_767_225_600_000  # 2026-01-01T00:00:00Z


class VirtualClock:
    """The wall clock and the monotonic clock of one simulated machine.

    ``skew_ms`` is the error of this machine's wall clock. Changing it, or calling ``advance``, simulates a change that
    NTP or an operator makes. The monotonic clock follows the loop and is not affected.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return START_MS + self.skew_ms + self._elapsed_us() // 1000

    def monotonic_ms(self) -> float:
        return self._elapsed_us() / 1000

    def advance(self, ms: int) -> None:
        """Set the wall clock forward, or back with a negative value."""
        self.skew_ms += ms

    def _elapsed_us(self) -> int:
        # Rounded, not cut: 0.1 + 0.7 seconds must read as 800 ms, or a timer that fires on time would seem early.
        return round(self._loop.time() * 1_000_000)


class ManualClock:
    """A clock for tests without a loop: time passes when ``advance`` is called."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> float:
        return float(self._monotonic_ms)

    def advance(self, ms: int) -> None:
        if ms < 0:
            raise ValueError(f"time was asked to pass by {ms} ms; the monotonic clock never goes back")
        self._now_ms += ms
        self._monotonic_ms += ms
