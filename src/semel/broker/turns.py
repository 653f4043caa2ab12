"""Turns of the event loop: work that takes more than one, and how long they are.

The law: no turn is longer than ``TURN_MS_MAX``. What may take longer is done in slices, with the others' turns between
them. And all slices of all clients stand in one line, of which every turn does ``SHARE_MS``: two hundred clients with
long requests keep a short one no longer from being read than one client does.

Three numbers tell whether that holds:

- ``longest_seconds``: the longest turn since it was last asked, as the clock sees it. A timer that comes late says for
  how long the loop did something else, whatever that was; it costs nothing where the work is done.
- who it was: a request after which the clock had moved too far since its bytes were read, in a line of the log.
- ``most_elements``: the most elements of a request that were handled in one turn. Where time is virtual the clock does
  not move while work is done, so this number has a limit as well: to pass it is a bug, and the request fails.
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
"""What one client has of a turn, and all that stand in line together, unless a single slice takes longer."""
ELEMENTS_PER_TURN_MAX: Final = 10_000
"""What ``most_elements`` never passes."""
_TICK_MS: Final = 100.0

logger = logging.getLogger("semel.loop")


class Turns:
    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._clock = clock
        self._loop = loop
        self._line: deque[Callable[[], bool]] = deque()
        self._is_scheduled = False
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
        run: _Run[T] = _Run(self, steps, elements, asyncio.get_running_loop().create_future())
        self.soon(run.step)
        return await run.done

    async def pause(self) -> None:
        """Let everything else have a turn. In each turn one goes on of those that pause."""
        went_on: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def go_on() -> bool:
            if went_on.done():
                return False
            went_on.set_result(None)
            return True

        self._append(go_on)
        await went_on

    def soon(self, work: Callable[[], None]) -> None:
        """Do a slice of work in one of the next turns, after those that were asked for before."""

        def slice_of_work() -> bool:
            work()
            return False

        self._append(slice_of_work)

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

    def _append(self, work: Callable[[], bool]) -> None:
        self._line.append(work)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        (self._loop or asyncio.get_running_loop()).call_soon(self._work_off)

    def _work_off(self) -> None:
        """What stands in line now, as far as the share of this turn goes."""
        line, now_ms = self._line, self._clock.monotonic_ms
        until_ms = now_ms() + SHARE_MS
        try:
            for _ in range(len(line)):
                if line.popleft()() or now_ms() >= until_ms:
                    break
        finally:
            if line:
                self._schedule()
            else:
                self._is_scheduled = False

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


@dataclass(slots=True, eq=False)
class _Run(Generic[T]):
    """A generator that is driven in slices. Nothing in it refers to itself: a circle would keep the result, which may
    be a message of a hundred thousand objects, until the garbage collector finds it."""

    turns: Turns
    steps: Generator[None, None, T]
    elements: int
    done: asyncio.Future[T]

    def step(self) -> None:
        if self.done.done():  # The one who waited for it was cancelled.
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
