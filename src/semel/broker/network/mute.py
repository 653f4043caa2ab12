"""The mute of a connection: none of its requests is served until a throttle time is over (KIP-219)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Mute:
    """One mute of a connection. ``over`` is called once, when the longest of its throttle times has passed."""

    __slots__ = ("_loop", "_over", "_until_s", "timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, over: Callable[[], None]) -> None:
        self._loop = loop
        self._over = over
        self._until_s = 0.0
        self.timer: asyncio.TimerHandle | None = None

    def extend(self, throttle_ms: int) -> None:
        """Extend the mute, so that it lasts at least this long from now on."""
        until_s = self._loop.time() + throttle_ms / 1000
        if self.timer is None:
            self._until_s = until_s
            self.timer = self._loop.call_at(until_s, self._passed)
        elif until_s > self._until_s:
            self._until_s = until_s  # The timer fires earlier, and is set again then.

    def cancel(self) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def _passed(self) -> None:
        if self._loop.time() < self._until_s:
            self.timer = self._loop.call_at(self._until_s, self._passed)
        else:
            self._over()
