"""Turns of the event loop: work that takes more than one, and how long they are.

The law: no turn is longer than ``TURN_MS_MAX``. What may take longer is done in slices, with the others' turns between
them. Three numbers tell whether that holds:

- ``longest_seconds``: the longest turn since it was last asked, as the clock sees it. A timer that comes late says for
  how long the loop did something else, whatever that was; it costs nothing where the work is done.
- who it was: a request after which the clock had moved too far since its bytes were read, in a line of the log.
- ``most_elements``: the most elements of a request that were handled in one turn. Where time is virtual the clock does
  not move while work is done, so this number has a limit as well: to pass it is a bug, and the request fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from typing import Final, TypeVar

from semel.clock import Clock

T = TypeVar("T")

TURN_MS_MAX: Final = 50.0
ELEMENTS_PER_TURN_MAX: Final = 10_000
"""What ``most_elements`` never passes."""
_TICK_MS: Final = 100.0

logger = logging.getLogger("semel.loop")


class Turns:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due_ms = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._longest_ms = 0.0
        self.too_long = 0
        """How many turns were too long."""
        self.most_elements = 0

    # Work in slices

    async def run(self, steps: Generator[None, None, T], *, elements: int) -> T:
        """Drive a generator to its end, with a turn for everything else after each of its pauses.

        ``elements`` is how many it handles between two of them.
        """
        while True:
            self.worked(elements)
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await asyncio.sleep(0)

    def at_once(self, steps: Generator[None, None, T], *, elements: int) -> T:
        """Drive a generator to its end in this turn: it is known to be short."""
        self.worked(elements)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result

    def worked(self, elements: int) -> None:
        """So many elements are handled in this turn."""
        assert elements <= ELEMENTS_PER_TURN_MAX, f"{elements} elements in one turn; at most {ELEMENTS_PER_TURN_MAX}"
        if elements > self.most_elements:
            self.most_elements = elements

    # The watchdog

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at the clock ten times a second from now on."""
        self._tick_later(loop)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def longest_seconds(self) -> float:
        """The longest turn since this was last asked."""
        longest, self._longest_ms = self._longest_ms, 0.0
        return longest / 1000

    def too_long_for(self, took_ms: float, api: str, version: int, peer: str, client_id: str | None, size: int) -> None:
        """A request, with those that were read together with it, has kept the loop for longer than it may."""
        self._longest_ms = max(self._longest_ms, took_ms)
        logger.warning(
            "the event loop was kept for %d ms, at the end by %s v%d of %d bytes from %s (client id %.100r)",
            took_ms,
            api,
            version,
            size,
            peer,
            client_id,
        )

    def _tick_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due_ms = self._clock.monotonic_ms() + _TICK_MS
        self._timer = loop.call_later(_TICK_MS / 1000, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        late_ms = self._clock.monotonic_ms() - self._due_ms
        if late_ms > self._longest_ms:
            self._longest_ms = late_ms
        if late_ms > TURN_MS_MAX:
            self.too_long += 1
        self._tick_later(loop)
