"""A real broker inside a test: on a port of its own, in a background thread, with its data in memory or in a folder.

    with Broker(num_partitions=4) as broker:
        ...                          # any client, at broker.bootstrap_servers
        broker.restart(kill=True)    # as after kill -9, with the same data on the same port
        broker.faults.drop_response("Produce")
        broker.clock.advance(minutes=15)
        broker.committed("orders")   # what a read_committed reader sees

It is the broker that ``semel serve`` runs, with every guarantee but one: data in memory does not outlive the fixture.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import SystemRandom
from typing import Any, Final, TypeVar

from semel.broker.broker import Address
from semel.broker.broker import Broker as RealBroker
from semel.broker.config.broker_config import BrokerConfig
from semel.client.values import ConsumerRecord
from semel.log.disk import Disk, SystemDisk
from semel.log.worker import ThreadWorker, Worker
from semel.net.network import SystemNetwork
from semel.testing.committed import committed_records, has_open_transaction
from semel.testing.faults import Faults
from semel.testing.faulty_connection import FaultyNetwork
from semel.testing.shifted_time import ShiftedClock, ShiftedLoop
from semel.testing.virtual.disk import VirtualDisk

T = TypeVar("T")

HOST: Final = "127.0.0.1"
MEMORY_FOLDER: Final = "/semel"
SECONDS_MAX: Final = 30.0


class Broker:
    """Start with ``with``, ``async with`` or ``start()``. Settings are Kafka's, with ``_`` for ``.``."""

    def __init__(self, data_dir: str | os.PathLike[str] | None = None, **settings: object) -> None:
        texts = {name.replace("_", "."): _text(value) for name, value in settings.items()}
        texts["log.dirs"] = MEMORY_FOLDER if data_dir is None else str(Path(data_dir).absolute())
        self._config = BrokerConfig.load(overrides=texts)
        self.disk: Disk = VirtualDisk() if data_dir is None else SystemDisk()
        self.clock = ShiftedClock()
        self.faults = Faults(self._move_coordinator)
        self._address = Address(HOST, 0)
        self._loop: ShiftedLoop | None = None
        self._thread: threading.Thread | None = None
        self._broker: RealBroker | None = None

    @property
    def port(self) -> int:
        assert self._address.port, "the broker was never started"
        return self._address.port

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> Broker:
        assert self._thread is None, "the broker is running already"
        self._loop = ShiftedLoop()
        self.clock.drive(self._loop)
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="semel-broker", daemon=True)
        self._thread.start()
        try:
            self._call(self._start())
        except BaseException:
            self._end_thread()
            raise
        return self

    def stop(self, *, kill: bool = False) -> None:
        """End it: cleanly, or as ``kill -9`` would. Its port, thread and files are free when this returns."""
        if self._thread is None:
            return
        try:
            self._call(self._stop(kill))
        finally:
            self._end_thread()

    def restart(self, *, kill: bool = False) -> None:
        """End it and start it again, on the same data and the same port."""
        self._call(self._stop(kill))
        self._call(self._start())

    def committed(self, topic: str, partition: int | None = None) -> list[ConsumerRecord]:
        """What a read_committed reader sees of the topic now: decoded, by partition and offset."""

        async def read() -> list[ConsumerRecord]:
            assert self._broker is not None, "the broker is not running"
            return committed_records(self._broker.node, topic, partition)

        return self._call(read())

    def has_open_transaction(self, topic: str) -> bool:
        """Whether a transaction with records in the topic has neither been committed nor aborted yet."""

        async def look() -> bool:
            assert self._broker is not None, "the broker is not running"
            return has_open_transaction(self._broker.node, topic)

        return self._call(look())

    def _move_coordinator(self, name: str, away_seconds: float) -> None:
        async def move() -> None:
            assert self._broker is not None, "the broker is not running"
            node = self._broker.node
            for coordinator in (node.coordinators.transactions, node.coordinators.groups):
                if coordinator.topic in node.image.topics:
                    await coordinator.move(coordinator.partition_for(name), away_ms=away_seconds * 1000)

        self._call(move())

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    async def __aenter__(self) -> Broker:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *exception: object) -> None:
        await asyncio.to_thread(self.stop)

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        make_worker: Callable[[str], Worker]
        if isinstance(self.disk, VirtualDisk):
            make_worker = lambda name: _LoopWorker(loop)  # noqa: E731 (it shares its type with the other branch)
        else:
            make_worker = lambda name: ThreadWorker(loop, name)  # noqa: E731
        broker = RealBroker(
            self._config,
            listen=self._address,
            disk=self.disk,
            network=FaultyNetwork(SystemNetwork(), self.faults),
            clock=self.clock,
            random=SystemRandom(),
            make_worker=make_worker,
        )
        await broker.start()
        self._broker, self._address = broker, broker.address

    async def _stop(self, kill: bool) -> None:
        broker, self._broker = self._broker, None
        if broker is None:
            return
        if not kill:
            await broker.stop()
            return
        broker.kill()
        if isinstance(self.disk, VirtualDisk):
            self.disk.kill()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None, "the broker is not running"
        future: concurrent.futures.Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(SECONDS_MAX)

    def _end_thread(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS_MAX)
        self._loop = self._thread = None
        self.clock.drive(None)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        # One more turn, for what was cut off on the last one.
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, asyncio.sleep(0), return_exceptions=True))
    finally:
        loop.close()


class _LoopWorker:
    """A worker for a disk that never blocks: it works on the loop, in order, and reports on a later turn."""

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
