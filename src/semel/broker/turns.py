"""Turns of the event loop: runs long work in slices, and measures how long turns take.

The law: no turn is longer than ``TURN_MS_MAX``. Work that may take longer is done in slices, and other work gets turns
between them. All slices of all clients wait in one queue, and each turn works on it for ``SHARE_MS``: two hundred
clients with long requests delay a short request no longer than one such client does.

Three measurements show whether the law holds:

- ``longest_seconds``: the longest turn since the method was last called. A timer that fires late shows for how long
  the loop did something else, whatever that was; so the code that does the work need not measure anything.
- a line in the log that names the request after which too much time had passed since its bytes were read.
- ``most_elements``: the most elements of a request that were handled in one turn. With virtual time the clock does not
  move while work is done, so this number has a limit as well: to exceed it is a bug, and the request fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from semel.clock import Clock

T = TypeVar("T")

TURN_MS_MAX: Final = 50.0
SHARE_MS: Final = 5.0
"""The time in one turn for the requests of one client, and for all queued slices together, unless a single slice takes
longer."""
ELEMENTS_PER_TURN_MAX: Final = 10_000
"""The limit of ``most_elements``."""
_TICK_MS: Final = 100.0

logger = logging.getLogger("semel.loop")


class Turns:
    """The queue of slices of work, and the measurement of the turns of one event loop."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._clock = clock
        self._loop = loop
        self._queue: deque[Callable[[], bool]] = deque()
        self._is_scheduled = False
        self._due_ms = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._longest_ms = 0.0
        self.too_long = 0
        """How many turns were longer than ``TURN_MS_MAX``."""
        self.most_elements = 0
        """The most elements of a request that were handled in one turn."""

    # Work in slices

    async def run(self, steps: Generator[None, None, T], *, elements: int) -> T:
        """Run a generator to its end, one step for each turn. Returns its result.

        ``elements`` is the number of elements that the generator handles in one step at most.
        """
        run: _Run[T] = _Run(self, steps, elements, asyncio.get_running_loop().create_future())
        self.soon(run.step)
        return await run.done

    async def pause(self) -> None:
        """Pause the caller until it is first in the queue, so that other work gets a turn. At most one paused caller
        continues in each turn."""
        went_on: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def go_on() -> bool:
            if went_on.done():
                return False
            went_on.set_result(None)
            return True

        self._append(go_on)
        await went_on

    def soon(self, work: Callable[[], None]) -> None:
        """Do a slice of work in one of the next turns, after the slices that were queued before."""

        def slice_of_work() -> bool:
            work()
            return False

        self._append(slice_of_work)

    def at_once(self, steps: Generator[None, None, T], *, elements: int) -> T:
        """Run a generator to its end in this turn, because its work is known to be short. Returns its result."""
        self.worked(elements)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result

    def worked(self, elements: int) -> None:
        """Record that so many elements are handled in this turn; more than the limit is an assertion error."""
        assert elements <= ELEMENTS_PER_TURN_MAX, f"{elements} elements in one turn; at most {ELEMENTS_PER_TURN_MAX}"
        if elements > self.most_elements:
            self.most_elements = elements

    def _append(self, work: Callable[[], bool]) -> None:
        self._queue.append(work)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        (self._loop or asyncio.get_running_loop()).call_soon(self._work_off)

    def _work_off(self) -> None:
        """Do the slices that are queued now, until the share of this turn is used up."""
        queue, now_ms = self._queue, self._clock.monotonic_ms
        until_ms = now_ms() + SHARE_MS
        try:
            for _ in range(len(queue)):
                if queue.popleft()() or now_ms() >= until_ms:
                    break
        finally:
            if queue:
                self._schedule()
            else:
                self._is_scheduled = False

    # Measuring turns

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to measure turns: ten times a second, compare the clock with the time at which the timer was due."""
        self._tick_later(loop)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def longest_seconds(self) -> float:
        """Return the longest turn since this was last called."""
        longest, self._longest_ms = self._longest_ms, 0.0
        return longest / 1000

    def too_long_for(self, took_ms: float, api: str, version: int, peer: str, client_id: str | None, size: int) -> None:
        """Log that a request, with those that were read together with it, has occupied the event loop for too long."""
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


@dataclass(slots=True, eq=False)
class _Run(Generic[T]):
    """A generator that is run in slices.

    It must not be part of a reference cycle: a cycle would keep the result, which may be a message of a hundred
    thousand objects, until the garbage collector finds it.
    """

    turns: Turns
    steps: Generator[None, None, T]
    elements: int
    done: asyncio.Future[T]

    def step(self) -> None:
        if self.done.done():  # The caller of ``Turns.run`` was cancelled.
            self.steps.close()
            return
        try:
            self.turns.worked(self.elements)
            next(self.steps)
        except StopIteration as end:
            self.done.set_result(end.value)
        except Exception as error:
            self.done.set_exception(error)
        else:
            self.turns.soon(self.step)
