"""A thread with an event loop of its own, on which the brokers of a test run, besides the test and its clients."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from semel.testing.shifted_time import ShiftedClock, ShiftedLoop

T = TypeVar("T")

SECONDS_MAX: Final = 120.0


class LoopThread:
    """A thread that runs one event loop. ``clock`` shifts the loop's time."""

    def __init__(self, clock: ShiftedClock) -> None:
        self._clock = clock
        self.loop: ShiftedLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        assert self._thread is None, "it is running already"
        self.loop = ShiftedLoop()
        self._clock.drive(self.loop)
        self._thread = threading.Thread(target=_run, args=(self.loop,), name="semel-broker", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it: return its result or raise its error."""
        assert self.loop is not None, "the broker is not running"
        future: concurrent.futures.Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return future.result(SECONDS_MAX)

    def end(self) -> None:
        assert self.loop is not None
        assert self._thread is not None
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(SECONDS_MAX)
        self.loop = self._thread = None
        self._clock.drive(None)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        # The tasks that are left are cancelled, and get one more turn of the loop to end.
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, asyncio.sleep(0), return_exceptions=True))
    finally:
        loop.close()
