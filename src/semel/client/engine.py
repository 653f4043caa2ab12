"""A machine and what it runs on: made before there is a loop, and started in the one that it is first used from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

from semel.client.driver import Driver
from semel.client.machine.actions import Machine
from semel.clock import Clock
from semel.errors import StateError
from semel.net.network import Network

M = TypeVar("M", bound=Machine)


class Engine(Generic[M]):
    """``guard`` is held by the code that uses the machine. ``title`` names the client in the error after ``close``."""

    def __init__(
        self,
        title: str,
        machine: M,
        *,
        network: Network,
        clock: Clock,
        guard: AbstractContextManager[Any] | None,
        turned: Callable[[], None] = lambda: None,
    ) -> None:
        self._title = title
        self._network = network
        self._lock = guard
        self._turned = turned
        self.machine = machine
        self.clock = clock
        self.guard: AbstractContextManager[Any] = nullcontext() if guard is None else guard
        self.driver: Driver | None = None
        """``None`` before it was started. It stays, for what has to be done once nothing new is taken."""
        self.is_closed = False

    def running(self) -> Driver:
        """The driver, in the loop that this is called from first."""
        if self.is_closed:
            raise StateError(f"the {self._title} is closed")
        if self.driver is None:
            self.driver = Driver(
                self.machine, network=self._network, clock=self.clock, guard=self._lock, turned=self._turned
            )
            self.driver.wake()
        return self.driver

    def wake(self) -> None:
        """Let the driver look at what was changed."""
        if self.driver is not None:
            self.driver.wake()

    async def shut(self) -> None:
        """Give up what is left, and disconnect."""
        self.is_closed = True
        with self.guard:
            self.machine.shut(self.clock.monotonic_ms())
        if self.driver is not None:
            self.driver.turn()
            await self.driver.close()
