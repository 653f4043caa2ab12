"""Where blocking work goes, so that the event loop never waits for a disk.

``run(work, done)`` executes ``work`` off the loop and calls ``done`` on it, in the order submitted. The real worker is
one thread; the simulated one (``semel.testing``) runs ``work`` at a later moment of virtual time, so that a crash can
fall between the two.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Worker(Protocol):
    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Execute ``work`` elsewhere, then call ``done`` on the loop with its result or the exception it raised."""

    def stop(self) -> None:
        """Finish what was submitted and end. Nothing may be submitted afterwards."""

    def kill(self) -> None:
        """Begin nothing more and report nothing more; return once what was running is over."""


class ThreadWorker:
    """One thread per worker: work is executed in the order submitted."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._killed = False

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()

        def job() -> None:
            if self._killed:
                return
            result: T | BaseException
            try:
                result = work()
            except BaseException as error:
                result = error
            if not self._killed:
                # A loop that is gone raises: nobody is left to be told.
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(done, result)

        self._jobs.put(job)

    def stop(self) -> None:
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def kill(self) -> None:
        self._killed = True
        self.stop()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
