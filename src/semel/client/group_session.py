"""The steps of an application in its group: it polls, waits for records, runs callbacks, and leaves.

How to wait between the steps, and how to call a listener, is decided by each kind of consumer: one awaits, the other
blocks its thread.
"""

from __future__ import annotations

import asyncio
import threading

from semel.client.drivers.runtime import ClientRuntime
from semel.client.machine.connection.promise import Promise
from semel.client.machine.consumer.consumer import ConsumerMachine
from semel.client.machine.group.reassignment import Callback
from semel.clock import NEVER
from semel.errors import StateError


class GroupSession:
    def __init__(self, runtime: ClientRuntime[ConsumerMachine]) -> None:
        self._runtime = runtime
        self._machine = runtime.machine
        self._clock, self._guard = runtime.clock, runtime.guard
        self._callback_caller: object | None = None
        """The task or thread that is calling the listener now."""
        self.listener: object | None = None

    # Polling

    def require_partitions(self) -> None:
        self.refuse_in_listener("poll")
        if not self._machine.assignment and not self._machine.is_subscribed:
            raise StateError(
                "poll: no partition is assigned to this consumer and no topic subscribed to, so nothing can come"
            )

    def polled(self) -> bool:
        """Note that the application polls. Returns whether the driver must be woken for it. The guard must be held."""
        group = self._machine.group
        return group is not None and group.polled(self._clock.monotonic_ms())

    async def wait(self, expires_ms: float, until: Promise[None] | None = None) -> bool:
        """Wait until there are records, an error, or a callback to run. ``False``: none of these in time.

        ``until`` is settled by another thread, perhaps just now: then there is nothing left to wait for.
        """
        driver = self._runtime.running()
        timeout_ms = expires_ms - self._clock.monotonic_ms()
        if timeout_ms <= 0:
            return False
        group = self._machine.group
        with self._guard:
            if until is not None and until.settled:
                return True
            if group is not None:
                group.poll_began(self._clock.monotonic_ms())
            readable = self._machine.readable()
            if group is not None:
                # From here the application has to process records. While its loop is blocked it does not count as
                # polling.
                readable.then(lambda _: group.poll_ended(self._clock.monotonic_ms()))
        try:
            await driver.wait(readable, timeout_ms=None if timeout_ms == NEVER else timeout_ms)
        except TimeoutError:
            return False
        finally:
            if self._runtime.failure is None:
                with self._guard:
                    readable.fulfil(None)  # The wait is over.
                    if group is not None:
                        group.poll_ended(self._clock.monotonic_ms())
        return True

    # Callbacks of the rebalance listener

    @property
    def is_in_callback(self) -> bool:
        return self._callback_caller is not None

    def due(self) -> Callback | None:
        """Return the callback that is due now. The caller must run it, and then call ``callback_done``."""
        with self._guard:
            callback = self._machine.due(self._clock.monotonic_ms())
        if callback is not None:
            self._callback_caller = _caller()
        return callback

    def callback_done(self, callback: Callback) -> None:
        """Finish a callback that has run."""
        self._callback_caller = None
        with self._guard:
            self._machine.callback_done(callback, self._clock.monotonic_ms())
        self._runtime.wake()

    @property
    def is_in_listener(self) -> bool:
        """Whether the caller is the listener, or a deeper call of it."""
        return self._callback_caller is not None and self._callback_caller == _caller()

    def refuse_in_listener(self, call: str) -> None:
        if self.is_in_listener:
            raise StateError(f"{call}: not from within a listener, which is called in the middle of it")

    # Leaving

    def begin_leaving(self, reason: str) -> Promise[None]:
        """Begin ``unsubscribe`` or ``close``. The caller must serve ``due`` until the promise is settled."""
        self.refuse_in_listener("leave the group")
        with self._guard:
            promise = self._machine.leave(reason, self._clock.monotonic_ms())
        self._runtime.wake()
        return promise


def _caller() -> object:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return threading.get_ident()
