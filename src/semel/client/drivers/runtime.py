"""The runtime of a client: its machine, and a driver that is started in the loop that the client is first used from.

With ``own_thread`` the driver has a loop in a thread of its own, which goes on while the application blocks its loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

from semel.client.drivers.driver import Driver
from semel.client.drivers.loop_thread import LoopThread
from semel.client.machine.connection.actions import Machine
from semel.clock import Clock
from semel.errors import ClientFailed, StateError
from semel.net.network import Network

M = TypeVar("M", bound=Machine)


class ClientRuntime(Generic[M]):
    """A machine with its driver, which is started by the first call of ``running``.

    ``guard`` is held by the code that uses the machine. ``title`` names the client in the error after ``close``.
    ``failed`` is called if the driver fails: it has to fail what waits for something other than a promise.
    """

    def __init__(
        self,
        title: str,
        machine: M,
        *,
        network: Network,
        clock: Clock,
        guard: AbstractContextManager[Any] | None,
        turned: Callable[[], None] = lambda: None,
        failed: Callable[[ClientFailed], None] = lambda error: None,
        own_thread: bool = False,
    ) -> None:
        if own_thread:
            assert guard is None, "a thread of its own comes with a lock of its own"
            guard = threading.RLock()
        self._title = title
        self._network = network
        self._lock = guard
        self._turned = turned
        self._tell_failed = failed
        self._has_own_thread = own_thread
        self._thread: LoopThread | None = None
        self.machine = machine
        self.clock = clock
        self.guard: AbstractContextManager[Any] = nullcontext() if guard is None else guard
        self.driver: Driver | None = None
        """``None`` before the first call. It is kept after ``shut``, for calls that are still finishing."""
        self.is_closed = False
        self.failure: ClientFailed | None = None
        """Why the client has closed itself, if it has."""

    def running(self) -> Driver:
        """Return the driver. The first call starts it, in the loop that it is called from or in a thread of its own."""
        if self.is_closed:
            raise self.closed_error()
        if self.driver is None:
            if self._has_own_thread:
                self._thread = LoopThread(self._title)
                self.driver = self._thread.run(self._driven(asyncio.get_running_loop()))
            else:
                self.driver = self._drive()
            self.driver.wake()
        self.driver.check_process()
        return self.driver

    def closed_error(self, call: str = "") -> StateError:
        """Return the error of a call after the client was closed. If the client closed itself, it says why."""
        why = "closed" if self.failure is None else f"closed since it has failed: {self.failure.__cause__!r}"
        error = StateError(f"{call and f'{call}: '}the {self._title} is {why}")
        error.__cause__ = self.failure
        return error

    def check_failure(self) -> None:
        """Raise if the client has closed itself: its machine may be in any state."""
        if self.failure is not None:
            raise self.closed_error()

    def check_process(self) -> None:
        """Raise ``StateError`` after a fork."""
        if self.driver is not None:
            self.driver.check_process()

    def wake(self) -> None:
        """Let the driver poll the machine, which was changed."""
        if self.driver is not None:
            self.driver.wake()

    async def shut(self) -> None:
        """Shut the machine, which fails all open calls, and close its connections."""
        self.check_process()
        self.is_closed = True
        error: Exception | None = None
        if self.failure is None:
            try:
                with self.guard:
                    self.machine.shut(self.clock.monotonic_ms())
            except Exception as raised:
                error = raised
        if self._thread is None:
            await self._disconnect(error)
        elif self._thread.is_running:
            await asyncio.wrap_future(self._thread.begin(self._disconnect(error)))
            self._thread.stop()

    def abandon(self) -> None:
        """End the thread of a client that the application dropped without closing it, as if it had been killed."""
        self.is_closed = True
        if self._thread is not None and self._thread.is_running:
            self._thread.abandon(self._disconnect())

    def _drive(self, application_loop: asyncio.AbstractEventLoop | None = None) -> Driver:
        return Driver(
            self._title,
            self.machine,
            network=self._network,
            clock=self.clock,
            guard=self._lock,
            turned=self._turned,
            failed=self._failed,
            application_loop=application_loop,
        )

    async def _driven(self, application_loop: asyncio.AbstractEventLoop) -> Driver:
        return self._drive(application_loop)

    def _failed(self, failure: ClientFailed) -> None:
        self.failure = failure
        self.is_closed = True
        self._tell_failed(failure)

    async def _disconnect(self, error: Exception | None = None) -> None:
        if self.driver is not None:
            if error is not None:
                self.driver.fail(error)
            self.driver.turn()
            await self.driver.close()
