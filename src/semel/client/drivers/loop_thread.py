"""An event loop in a thread of its own, for the blocking classes.

A forked process does not have this thread: using it there raises an error that says what to do.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from semel.client.drivers.process import Process
from semel.errors import StateError
from semel.net.event_loop import new_event_loop

T = TypeVar("T")

_STOP_TIMEOUT_S: Final = 10.0


class LoopThread:
    def __init__(self, name: str) -> None:
        self._name = name
        self._process = Process()
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"semel-{name}", daemon=True)
        self._stopped = False
        self._thread.start()

    def check(self) -> None:
        """Raise ``StateError`` if a coroutine would never run: after ``stop`` or after a fork."""
        self._process.check(self._name)
        if self._stopped:
            raise StateError(f"the {self._name} is closed")

    @property
    def is_running(self) -> bool:
        return not self._stopped

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread, wait for it, and return its result."""
        if threading.get_ident() == self._thread.ident:
            work.close()
            raise StateError(f"a callback of this {self._name} cannot wait for it: do that in another thread")
        return self.begin(work).result()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the thread, and return a future of its result."""
        try:
            self.check()
        except StateError:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_TIMEOUT_S)

    def abandon(self, last: Coroutine[Any, Any, None]) -> None:
        """Stop the thread once the coroutine is done, without waiting for either."""
        if self._stopped:
            last.close()
            return
        self._stopped = True
        done = asyncio.run_coroutine_threadsafe(last, self._loop)
        done.add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._loop.stop))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            # Tasks that still wait are cancelled; otherwise asyncio would complain about them at exit.
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        finally:
            self._loop.close()
