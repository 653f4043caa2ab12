"""One machine of a simulation: its network, disk, clock and process, and the ways in which it fails.

    RUNNING --pause--> PAUSED --resume--> RUNNING
    RUNNING or PAUSED --kill--> DEAD       the process dies; what it wrote is still there
    RUNNING or PAUSED --cut_power--> DEAD  the machine dies; what it synced is still there
    DEAD --start--> RUNNING                a new process on the same disk

Any other transition changes nothing, so that a fault can be injected without checking the host's state. After the death
of a process none of its callbacks run, and code of it that is still on the stack cannot write, sync or send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

from semel.testing.virtual.clock import VirtualClock
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.loop import Process, ProcessState, VirtualLoop
from semel.testing.virtual.network import VirtualNetwork
from semel.testing.virtual.trace import Trace
from semel.testing.virtual.worker import VirtualWorker

T = TypeVar("T")


class VirtualHost:
    def __init__(self, name: str, loop: VirtualLoop, network: VirtualNetwork, random: Random, trace: Trace) -> None:
        self.name = name
        self.network = network.host(name)
        self.clock = VirtualClock(loop)
        self.disk = VirtualDisk(Random(random.getrandbits(64)), trace=trace, name=name)
        self._loop = loop
        self._cables = network
        self._random = random
        self._trace = trace
        self._process = Process(name)
        self._power_was_cut = False
        self._workers: list[VirtualWorker] = []

    @property
    def alive(self) -> bool:
        return self._process.state is not ProcessState.DEAD

    def worker(self, *, brief_at_once: bool = False) -> VirtualWorker:
        """Return a new worker for the host's process. It stops when the process dies, because it uses its timers."""
        worker = VirtualWorker(self._loop, Random(self._random.getrandbits(64)), brief_at_once=brief_at_once)
        self._workers.append(worker)
        return worker

    def hang_workers(self, hang: bool = True) -> None:
        """Let the work of the process's workers hang, like syncs of a disk that does not respond, or continue."""
        for worker in self._workers:
            worker.hangs = hang

    def start(self, main: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Run ``main`` in the host's process, or in a new process if the last one died.

        The task of a killed process never ends: do not wait for it.
        """
        if not self.alive:
            self._trace.record(f"start {self.name}")
            if self._power_was_cut:
                self.disk.crash()
            else:
                self.disk.kill()
            self._process = Process(self.name)
            self._workers.clear()
        return self._loop.start(self._process, main, name=name or self.name)

    def pause(self) -> None:
        """Stop the process as with SIGSTOP: none of its timers fire, and it neither receives nor sends anything."""
        if self._process.state is ProcessState.RUNNING:
            self._loop.pause(self._process)
            self._cables.pause(self.name)

    def resume(self) -> None:
        if self._process.state is ProcessState.PAUSED:
            self._loop.resume(self._process)
            self._cables.resume(self.name)

    def kill(self) -> None:
        """Simulate ``kill -9``: the process dies at once, and its peers' connections are closed."""
        self._die(power_cut=False)

    def cut_power(self) -> None:
        """Cut the power of the machine: its peers are not notified, and data that was not synced may be lost."""
        self._die(power_cut=True)

    def kill_in_disk_operation(self, changes: int) -> None:
        """Call ``kill`` in the middle of the n-th operation from now that changes the disk."""
        self.disk.crash_after(changes, then=self.kill)

    def cut_power_in_disk_operation(self, changes: int) -> None:
        self.disk.crash_after(changes, then=self.cut_power)

    def _die(self, *, power_cut: bool) -> None:
        if not self.alive:
            return
        self._power_was_cut = power_cut
        self.disk.halt()
        self._loop.kill(self._process)
        self._cables.kill(self.name, silently=power_cut)
