"""An event loop in a thread of its own, for callers that block.

A process that was forked has no such thread, whatever its memory says: use there raises, and says what to do.
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
        """Raise if no answer would ever come: after ``stop``, after a fork, or on this very thread."""
        self._process.check(self._name)
        if self._stopped:
            raise StateError(f"the {self._name} is closed")

    @property
    def is_running(self) -> bool:
        return not self._stopped

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, once it has."""
        if threading.get_ident() == self._thread.ident:
            work.close()
            raise StateError(f"a callback of this {self._name} cannot wait for it: do that in another thread")
        return self.begin(work).result()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """The coroutine is on its way; the future has what it returns."""
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
        """Stop once the coroutine is done, and wait for neither."""
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
            # What is still waited for never comes: it is cancelled, or asyncio would complain about it at exit.
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        finally:
            self._loop.close()
