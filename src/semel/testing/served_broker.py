"""One broker on the event loop of a test, which can be stopped and restarted with the same data and the same port."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Final, TypeVar

from semel.broker.broker import Broker
from semel.broker.config.broker_config import BrokerConfig
from semel.broker.config.listener_config import parse_listener
from semel.clock import Clock
from semel.log.disk import Disk, SystemDisk
from semel.log.worker import ThreadWorker, Worker
from semel.net.network import SystemNetwork
from semel.testing.faults import Faults
from semel.testing.faulty_connection import FaultyNetwork
from semel.testing.virtual.disk import VirtualDisk
from semel.types import Address

if TYPE_CHECKING:
    from semel.broker.cluster.shared_metadata import OpenSession
    from semel.broker.node import Node

T = TypeVar("T")

HOST: Final = "127.0.0.1"
MEMORY_FOLDER: Final = "/semel"


class ServedBroker:
    """A broker that can be restarted. Its methods are called on the loop's thread.

    Without ``data_dir`` the data is in memory.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None,
        settings: Mapping[str, object],
        clock: Clock,
        faults: Faults,
        *,
        open_session: OpenSession | None = None,
    ) -> None:
        texts = {name.replace("_", "."): _text(value) for name, value in settings.items()}
        texts["log.dirs"] = MEMORY_FOLDER if data_dir is None else str(Path(data_dir).absolute())
        self._texts = texts
        self._config = BrokerConfig.load(overrides=texts)
        self.disk: Disk = VirtualDisk() if data_dir is None else SystemDisk()
        self.address = Address(HOST, 0)
        self.addresses: dict[str, Address] = {}
        """The addresses by listener name, after the first start."""
        self._clock = clock
        self._faults = faults
        self._open_session = open_session
        self.broker: Broker | None = None
        """The broker while it runs; ``None`` before and after."""

    @property
    def node(self) -> Node:
        assert self.broker is not None, "the broker is not running"
        return self.broker.node

    @property
    def bootstrap_servers(self) -> str:
        assert self.address.port, "the broker was never started"
        return str(self.address)

    async def start(self) -> None:
        assert self.broker is None, "the broker is running already"
        loop = asyncio.get_running_loop()
        make_worker: Callable[[str], Worker]
        if isinstance(self.disk, VirtualDisk):
            make_worker = lambda name: _LoopWorker(loop)  # noqa: E731 (it shares its type with the other branch)
        else:
            make_worker = lambda name: ThreadWorker(loop, name)  # noqa: E731
        broker = Broker(
            self._config,
            listen=None if self._config.listeners else self.address,
            open_session=self._open_session,
            disk=self.disk,
            network=FaultyNetwork(SystemNetwork(), self._faults),
            clock=self._clock,
            random=SystemRandom(),
            make_worker=make_worker,
        )
        await broker.start()
        self.broker, self.address, self.addresses = broker, broker.address, dict(broker.endpoints.addresses)
        if self._config.listeners:
            self._config = BrokerConfig.load(overrides={**self._texts, "listeners": ",".join(self._with_ports(broker))})

    def _with_ports(self, broker: Broker) -> Iterator[str]:
        """Return the listeners with the ports that they have now, so that the next start uses the same ports."""
        for text in self._config.listeners or ():
            listener = parse_listener(text)
            assert listener is not None, "the setting has a rule"
            known = self.addresses.get(listener.name, broker.endpoints.inter_broker_address)
            assert known is not None
            yield f"{listener.name}://{Address(listener.host, known.port)}"

    async def stop(self, *, kill: bool) -> None:
        """Stop the broker, cleanly or as ``kill -9`` would. Does nothing if it does not run."""
        broker, self.broker = self.broker, None
        if broker is None:
            return
        if not kill:
            await broker.stop()
            return
        broker.kill()
        if isinstance(self.disk, VirtualDisk):
            # Callbacks that the broker has scheduled for the next turn still run, and may use its open files: the files
            # are closed after that turn.
            await asyncio.sleep(0)
            self.disk.kill()

    async def move_coordinator(self, name: str, away_seconds: float) -> None:
        """Simulate a failover of the transactional id's and the group's coordinator, if this broker is it."""
        node = self.node
        for coordinator in (node.coordinators.transactions, node.coordinators.groups):
            if coordinator.topic in node.image.topics and coordinator.elsewhere(name) is None:
                await coordinator.move(coordinator.partition_for(name), away_ms=away_seconds * 1000)


class _LoopWorker:
    """A worker for a disk that never blocks: it runs work on the event loop, in order, on a later turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._killed = False

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None], *, brief: bool = False) -> None:
        def job() -> None:
            if self._killed:
                return
            result: T | BaseException
            try:
                result = work()
            except Exception as error:
                result = error
            done(result)

        self._loop.call_soon(job)

    def stop(self) -> None:
        pass

    def kill(self) -> None:
        self._killed = True


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
