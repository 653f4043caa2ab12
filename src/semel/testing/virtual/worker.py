"""The simulated worker thread: work runs at a later virtual time, in order, and ``done`` is called after more time.

Between submission and work, and between work and ``done``, virtual time passes and other callbacks run, as with a real
thread. So a test covers a write that happens while a sync is running, and a crash between the two.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TypeVar

from semel.testing.virtual.crash import SimulatedCrash
from semel.testing.virtual.latency import Latency, uniform_ms

T = TypeVar("T")


class VirtualWorker:
    """Keeps the contract of ``semel.log.worker.Worker``: one thing at a time, in the order submitted."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        *,
        work_ms: Latency = uniform_ms(0.05, 4.0),  # noqa: B008 - an immutable value
        hop_ms: Latency = uniform_ms(0.0, 0.2),  # noqa: B008
        brief_at_once: bool = False,
    ) -> None:
        self._loop = loop
        self._random = random
        self._work_ms = work_ms
        self._hop_ms = hop_ms
        self._brief_at_once = brief_at_once
        self._waiting: deque[Callable[[], Callable[[], None]]] = deque()
        self._finished: deque[Callable[[], None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        self.hangs = False
        """While it is true, no work is done and none is lost, as on a thread whose sync does not return."""

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None], *, brief: bool = False) -> None:
        if self._ended:
            raise RuntimeError("work was submitted to a worker that was stopped")

        def job() -> Callable[[], None]:
            result: T | BaseException
            try:
                result = work()
            except SimulatedCrash:
                self.kill()
                raise
            except BaseException as error:
                result = error
            return lambda: done(result)

        if brief and self._brief_at_once and not self.hangs and not self._waiting and not self._finished:
            self._finished.append(job())
            self._loop.call_soon(self._tell)
            return
        self._waiting.append(job)
        if self._timer is None:
            self._begin()

    def stop(self) -> None:
        """Do all submitted work at once, as when a thread is joined; ``done`` is called on later turns of the loop."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            self._finish(self._waiting.popleft()())

    def kill(self) -> None:
        """Drop all waiting work, and call ``done`` for none of the finished work, because the process is dead."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()
        self._finished.clear()

    def _begin(self) -> None:
        self._timer = self._loop.call_later(self._work_ms(self._random) / 1000, self._work)

    def _work(self) -> None:
        self._timer = None
        if not self.hangs:
            self._finish(self._waiting.popleft()())
        if self._waiting:
            self._begin()

    def _finish(self, tell: Callable[[], None]) -> None:
        # Through a queue, because timers can fire in another order: ``done`` must be called in the order of the work.
        self._finished.append(tell)
        self._loop.call_later(self._hop_ms(self._random) / 1000, self._tell)

    def _tell(self) -> None:
        if self._finished:
            self._finished.popleft()()
