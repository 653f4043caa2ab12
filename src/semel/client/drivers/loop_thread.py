"""An event loop in a thread of its own, for the blocking classes.

A forked process does not have this thread: using it there raises an error that says what to do.

When the interpreter exits, the threads of clients that were not closed end first. A thread of uvloop that is woken
after the interpreter was finalized crashes the process, whose exit code is then not the application's. Exit handlers
that run later (those of ``logging``, for example) may still flush and close a client: its loop then runs in their
thread.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from time import monotonic
from typing import Any, Final, TypeVar
from weakref import WeakSet

from semel.client.drivers.process import Process
from semel.errors import StateError
from semel.net.event_loop import new_event_loop

T = TypeVar("T")

_STOP_TIMEOUT_S: Final = 10.0
# How long the exit of the interpreter waits for all threads. In one of them a callback of the application may hang.
_EXIT_TIMEOUT_S: Final = 2.0


class LoopThread:
    def __init__(self, name: str) -> None:
        self._name = name
        self._process = Process()
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"semel-{name}", daemon=True)
        self._lock = threading.RLock()
        """Held while something is given to the loop, and while the loop is told to stop. So what was given in time is
        done or cancelled, and no thread waits for it for ever.
        """
        self._finishing = 0
        """How many threads are in ``finish``. The last of them stops this one."""
        self._stopped = False
        self._has_left = False
        """Whether the thread has ended because the interpreter exits. The loop is still whole."""
        self._thread.start()
        _threads.add(self)

    def check(self) -> None:
        """Raise ``StateError`` if nothing that is begun now goes on by itself.

        That is so after ``stop``, after a fork, and when the interpreter exits.
        """
        self._check()
        if self._has_left:
            raise StateError(f"the {self._name} sends nothing any more: the interpreter exits")

    def check_is_usable(self) -> None:
        """Raise ``StateError`` if even a coroutine that is waited for would not run: after ``stop``, after a fork."""
        self._check()

    def _check(self) -> None:
        self._process.check(self._name)
        if self._stopped:
            raise StateError(f"the {self._name} is closed")

    @property
    def is_running(self) -> bool:
        return not self._stopped

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread, wait for it, and return its result."""
        self._refuse_callback(work)
        return self.begin(work).result()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the thread, and return a future of its result."""
        try:
            self._check()
            with self._lock:
                self._check()  # Another thread may have stopped it.
                if not self._has_left:
                    return asyncio.run_coroutine_threadsafe(work, self._loop)
        except StateError:
            work.close()
            raise
        return self._run_here(work)

    def finish(self, last: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the thread, wait for it, and stop. Does nothing if another thread has done that.

        If several threads do it at the same time, the last one stops, so that none ends what another one waits for.
        """
        self._refuse_callback(last)
        if self._process.is_current:
            with self._lock:
                self._finishing += 1
        try:
            self.begin(last).result()
        except StateError:
            if not self._stopped:
                raise
        finally:
            self._stop(finished=1)

    def stop(self) -> None:
        self._stop()

    def _stop(self, *, finished: int = 0) -> None:
        """Stop, but not for a thread that has finished while others have not."""
        if not self._process.is_current:
            self._stopped = True  # After a fork there is no thread, and the lock may be held for ever.
            return
        with self._lock:
            self._finishing -= finished
            if self._stopped or (finished and self._finishing):
                return
            self._stopped = True
            if not self._has_left:
                self._loop.call_soon_threadsafe(self._loop.stop)
        if self._has_left:
            self._end_loop()
        else:
            self._thread.join(_STOP_TIMEOUT_S)

    def begin_leaving(self) -> bool:
        """End the thread, and leave its loop as it is. Returns whether there is a thread to end."""
        if self._stopped or self._has_left or not self._process.is_current:
            return False
        self._has_left = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        return True

    def end_leaving(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)
        self._has_left = not self._thread.is_alive()

    def abandon(self, last: Coroutine[Any, Any, None]) -> None:
        """Stop the thread once the coroutine is done, without waiting for either."""
        if not self._process.is_current:
            last.close()
            return
        with self._lock:
            if self._stopped or self._has_left:
                last.close()
                return
            self._stopped = True
            done = asyncio.run_coroutine_threadsafe(last, self._loop)
        done.add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._loop.stop))

    def _refuse_callback(self, work: Coroutine[Any, Any, Any]) -> None:
        if threading.current_thread() is self._thread:
            work.close()
            raise StateError(f"a callback of this {self._name} cannot wait for it: do that in another thread")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            if not self._has_left:
                self._end_loop()

    def _run_here(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(self._loop.run_until_complete(work))
        except Exception as error:
            done.set_exception(error)
        return done

    def _end_loop(self) -> None:
        try:
            self._loop.run_until_complete(_cancel_tasks())
        finally:
            self._loop.close()


async def _cancel_tasks() -> None:
    """Cancel the tasks that still wait; otherwise asyncio would complain about them at exit."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


_threads: WeakSet[LoopThread] = WeakSet()


def _leave_all() -> None:
    leaving = [thread for thread in tuple(_threads) if thread.begin_leaving()]
    deadline = monotonic() + _EXIT_TIMEOUT_S
    for thread in leaving:
        thread.end_leaving(max(0.0, deadline - monotonic()))


atexit.register(_leave_all)
