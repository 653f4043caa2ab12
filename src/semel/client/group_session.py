"""An application and its group: it comes for records, waits, is told what has changed, and leaves.

These are the steps. How to wait between them, and how to call a listener, each kind of consumer knows itself: one
awaits, the other blocks its thread.
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
        self._teller: object | None = None
        """The task or thread that is telling the listener something."""
        self.listener: object | None = None

    # Coming for records

    def require_partitions(self) -> None:
        self.refuse_in_listener("poll")
        if not self._machine.assignment and not self._machine.is_subscribed:
            raise StateError(
                "poll: no partition is assigned to this consumer and no topic subscribed to, so nothing can come"
            )

    def visit(self) -> bool:
        """The application is here. Says whether that is news for the group. The guard is held."""
        group = self._machine.group
        return group is not None and group.visit(self._clock.monotonic_ms())

    async def wait(self, expires_ms: float, until: Promise[None] | None = None) -> bool:
        """Wait until there are records, an error, or something to tell the listener. ``False``: not in time.

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
                group.attend(self._clock.monotonic_ms())
            readable = self._machine.readable()
            if group is not None:
                # Then it is the application's turn. While its loop is blocked it stays away, although it still waits.
                readable.then(lambda _: group.depart(self._clock.monotonic_ms()))
        try:
            await driver.wait(readable, timeout_ms=None if timeout_ms == NEVER else timeout_ms)
        except TimeoutError:
            return False
        finally:
            if self._runtime.failure is None:
                with self._guard:
                    readable.fulfil(None)  # The wait is over.
                    if group is not None:
                        group.depart(self._clock.monotonic_ms())
        return True

    # What the listener is told

    @property
    def is_telling(self) -> bool:
        return self._teller is not None

    def due(self) -> Callback | None:
        """What the listener has to be told now. The caller must tell it, and then call ``told``."""
        with self._guard:
            callback = self._machine.due(self._clock.monotonic_ms())
        if callback is not None:
            self._teller = _caller()
        return callback

    def told(self, callback: Callback) -> None:
        """The listener was told."""
        self._teller = None
        with self._guard:
            self._machine.told(callback, self._clock.monotonic_ms())
        self._runtime.wake()

    def refuse_in_listener(self, call: str) -> None:
        if self._teller is not None and self._teller == _caller():
            raise StateError(f"{call}: not from within a listener, which is called in the middle of it")

    # Leaving

    def begin_leaving(self, reason: str) -> Promise[None]:
        """What ``unsubscribe`` and ``close`` begin with; then ``due`` has to be served until it is settled."""
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
