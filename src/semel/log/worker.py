"""Where blocking work goes, so that the event loop never waits for a slow disk.

``run(work, done)`` executes ``work`` off the loop and calls ``done`` on it, in the order submitted. The real worker is
one thread; the simulated one (``semel.testing``) runs ``work`` at a later moment of virtual time, so that a crash can
fall between the two.

There is one interpreter for both threads, and it changes hands several times for every piece of work. Where a disk
syncs in a tenth of a millisecond, that takes as much time as the sync, and costs more. So a piece of ``brief`` work is
done by the loop itself as long as such work has been quick on the whole; a disk that is slow, or becomes so, gets the
thread again.
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
"""Brief work that takes less on the whole is not worth the way to a thread and back."""

KILL_WAIT_S: Final = 0.25
"""How long ``kill`` waits for what is running. A disk may hang for ever."""

# How much one piece of work moves the average: a stall of 50 ms sends the next hundred to the thread.
_WEIGHT: Final = 1 / 64
_UNKNOWN_S: Final = 0.001


class Worker(Protocol):
    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None], *, brief: bool = False) -> None:
        """Execute ``work`` elsewhere, then call ``done`` on the loop with its result or the exception it raised.

        ``brief``: it is one small write, which may be done here and now. ``done`` is called on a later turn even so.
        """

    def stop(self) -> None:
        """Finish what was submitted and end. Nothing may be submitted afterwards."""

    def kill(self) -> None:
        """Begin nothing more and report nothing more; return once what was running is over, or hangs.

        What hangs is left to a thread that does not keep the process alive.
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


class ThreadWorker:
    """One thread per worker: work is executed in the order submitted."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, name: str, *, monotonic_s: Callable[[], float] = monotonic
    ) -> None:
        self._loop = loop
        self._monotonic_s = monotonic_s
        self._brief_work_s = _UNKNOWN_S  # How long it has taken on the whole.
        self._untold = 0
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._killed = False

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None], *, brief: bool = False) -> None:
        if brief and self._brief_work_s < QUICK_S and not self._untold and not self._killed:
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
                # A loop that is gone raises: nobody is left to be told.
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(tell, result)

        def tell(result: T | BaseException) -> None:
            self._untold -= 1
            done(result)

        self._untold += 1
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
