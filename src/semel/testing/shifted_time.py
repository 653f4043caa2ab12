"""Time that a test can set forward while real clients are connected.

The broker of a fixture runs on real time plus a shift. ``advance`` makes the shift larger, for the wall clock, the
monotonic clock and the event loop's timers alike: to the broker a quarter of an hour has passed, and every deadline in
it fires now. Clients keep their own time.
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
        """To be called on the loop, whose next turn then sees every timer that has become due."""
        self.shift_s += seconds


class ShiftedClock:
    """What the broker sees, and what a test moves."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self._shift_ms = 0.0
        self._loop: ShiftedLoop | None = None

    def now_ms(self) -> int:
        return self._system.now_ms() + int(self._shift_ms)

    def monotonic_ms(self) -> float:
        return self._system.monotonic_ms() + self._shift_ms

    def advance(self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0) -> None:
        """Let so much time pass for the broker. Returns when its timers have seen it; safe from any thread."""
        total_s = seconds + 60 * minutes + 3600 * hours + 86400 * days
        if total_s < 0:
            raise ValueError(f"time was asked to pass by {total_s} s; a monotonic clock never goes back")
        if self._loop is None:
            self._shift_ms += total_s * 1000
        else:
            asyncio.run_coroutine_threadsafe(self._pass(self._loop, total_s), self._loop).result()

    def drive(self, loop: ShiftedLoop | None) -> None:
        """Take this loop along from now on."""
        self._loop = loop
        if loop is not None:
            loop.shift_s = self._shift_ms / 1000

    async def _pass(self, loop: ShiftedLoop, seconds: float) -> None:
        self._shift_ms += seconds * 1000
        loop.set_forward(seconds)
        # Timers that are due run in the next turn; what they start, in the one after.
        for _ in range(3):
            await asyncio.sleep(0)
