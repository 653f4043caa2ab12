"""The time of a test's broker, which the test can set forward while real clients are connected.

The broker of a fixture uses real time plus a shift. ``advance`` increases the shift for the wall clock, the monotonic
clock and the event loop's timers together: after ``advance(minutes=15)`` all deadlines of the broker within those 15
minutes have passed, and their timers run. The time of clients is not changed.
"""

from __future__ import annotations

import asyncio

from semel.clock import SystemClock


class ShiftedLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop with a clock that can be set forward."""

    shift_s = 0.0

    def time(self) -> float:
        return super().time() + self.shift_s

    def set_forward(self, seconds: float) -> None:
        """Set the clock forward. Call it on the loop: its next turn runs every timer that has become due."""
        self.shift_s += seconds


class ShiftedClock:
    """The clock that the broker reads and that a test sets forward."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self._shift_ms = 0.0
        self._loop: ShiftedLoop | None = None

    def now_ms(self) -> int:
        return self._system.now_ms() + int(self._shift_ms)

    def monotonic_ms(self) -> float:
        return self._system.monotonic_ms() + self._shift_ms

    def advance(self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0) -> None:
        """Set the broker's time forward. Returns when the timers that became due have run; safe from any thread."""
        total_s = seconds + 60 * minutes + 3600 * hours + 86400 * days
        if total_s < 0:
            raise ValueError(f"time was asked to pass by {total_s} s; a monotonic clock never goes back")
        if self._loop is None:
            self._shift_ms += total_s * 1000
        else:
            asyncio.run_coroutine_threadsafe(self._pass(self._loop, total_s), self._loop).result()

    def drive(self, loop: ShiftedLoop | None) -> None:
        """Shift the time of this loop as well from now on; ``None`` for no loop."""
        self._loop = loop
        if loop is not None:
            loop.shift_s = self._shift_ms / 1000

    async def _pass(self, loop: ShiftedLoop, seconds: float) -> None:
        self._shift_ms += seconds * 1000
        loop.set_forward(seconds)
        # Timers that are due run in the next turn; callbacks that they schedule run in the one after.
        for _ in range(3):
            await asyncio.sleep(0)
