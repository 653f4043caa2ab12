"""The worker: executes blocking work outside the event loop, so that a slow disk does not block the loop.

``run(work, done)`` executes ``work`` on the worker and then calls ``done`` on the loop, in the order submitted. The
real worker is one thread. The simulated one (``semel.testing``) runs ``work`` at a later point of virtual time, so that
a crash can come between the two.

Both threads share one interpreter, and switching between them costs time for every piece of work. If a disk syncs in a
tenth of a millisecond, the switch takes as long as the sync. So ``brief`` work is done on the loop itself while such
work has been fast on average; if the disk becomes slow, the thread does it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol, TypeVar

T = TypeVar("T")

QUICK_S: Final = 0.00025
"""Brief work that takes less than this on average is done on the loop."""

KILL_WAIT_S: Final = 0.25
"""How long ``kill`` waits for the running work. A disk may hang for ever."""

# How much one piece of work moves the average: after a stall of 50 ms the next hundred pieces go to the thread.
_WEIGHT: Final = 1 / 64
_UNKNOWN_S: Final = 0.001


class Worker(Protocol):
    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None], *, brief: bool = False) -> None:
        """Execute ``work``, then call ``done`` on the loop with its result or the exception it raised.

        ``brief``: the work is one small write, and may be done on the loop at once. ``done`` is still called on a later
        turn of the loop.
        """

    def stop(self) -> None:
        """Finish what was submitted and end. Nothing may be submitted afterwards."""

    def kill(self) -> None:
        """Start no more work and report no more results. Returns when the running work is over, or after a short wait.

        Work that hangs is left to a daemon thread, which does not keep the process alive.
        """


async def done_by(worker: Worker, loop: asyncio.AbstractEventLoop, work: Callable[[], T]) -> T:
    """The result of ``work``, after everything that was submitted before it. Raises what it raised."""
    result: asyncio.Future[T] = loop.create_future()

    def done(outcome: T | BaseException) -> None:
        if result.done():
            return
        if isinstance(outcome, BaseException):
            result.set_exception(outcome)
        else:
            result.set_result(outcome)

    worker.run(work, done)
    return await result


async def wait_for_callback(loop: asyncio.AbstractEventLoop, start: Callable[[Callable[[], None]], None]) -> None:
    """Call ``start`` with a callback, and wait until the callback is called."""
    called: asyncio.Future[None] = loop.create_future()

    def callback() -> None:
        if not called.done():
            called.set_result(None)

    start(callback)
    await called


class ThreadWorker:
    """One thread per worker: work is executed in the order submitted."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, name: str, *, monotonic_s: Callable[[], float] = monotonic
    ) -> None:
        self._loop = loop
        self._monotonic_s = monotonic_s
        self._brief_work_s = _UNKNOWN_S  # the average time of brief work
        self._unreported = 0
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._killed = False

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None], *, brief: bool = False) -> None:
        if brief and self._brief_work_s < QUICK_S and not self._unreported and not self._killed:
            self._loop.call_soon(done, self._result_of(work, brief))
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()

        def job() -> None:
            if self._killed:
                return
            result = self._result_of(work, brief)
            if not self._killed:
                # A closed loop raises: no caller waits for the result any more.
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(tell, result)

        def tell(result: T | BaseException) -> None:
            self._unreported -= 1
            done(result)

        self._unreported += 1
        self._jobs.put(job)

    def _result_of(self, work: Callable[[], T], brief: bool) -> T | BaseException:
        began_s = self._monotonic_s()
        try:
            return work()
        except BaseException as error:
            return error
        finally:
            if brief:
                self._brief_work_s += (self._monotonic_s() - began_s - self._brief_work_s) * _WEIGHT

    def stop(self) -> None:
        self._end(None)

    def kill(self) -> None:
        self._killed = True
        self._end(KILL_WAIT_S)

    def _end(self, timeout_s: float | None) -> None:
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(timeout_s)
            self._thread = None

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # Otherwise the files that it used, even deleted ones, would stay open until the next job.
