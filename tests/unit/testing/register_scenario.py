"""A little distributed system for the simulation's own tests: a server that must not forget what it acknowledged.

The server appends each number it gets to a file, syncs on a worker, and answers; the client counts up and repeats what
was not answered. Hosts die, lose power and freeze, and links break meanwhile. ``forgetful_register`` has a planted bug:
it answers before the sync.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

from semel.log.disk import read_file
from semel.testing.simulation import Simulation
from semel.testing.virtual.host import VirtualHost

NUMBERS = 25
PORT = 9092


async def register(simulation: Simulation) -> None:
    await _play(simulation, answer_before_sync=False)


async def forgetful_register(simulation: Simulation) -> None:
    await _play(simulation, answer_before_sync=True)


class Server(asyncio.Protocol):
    def __init__(self, host: VirtualHost, *, answer_before_sync: bool) -> None:
        self._file = host.disk.open("/register/numbers")
        self._worker = host.worker()
        self._answer_before_sync = answer_before_sync

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._file.write(self._file.size(), data)
        if self._answer_before_sync:
            self._transport.write(data)
        self._worker.run(self._file.sync, lambda result: self._synced(data, result))

    def _synced(self, data: bytes, result: object) -> None:
        assert result is None
        if not self._answer_before_sync:
            self._transport.write(data)


class Client(asyncio.Protocol):
    def __init__(self) -> None:
        self.answers: asyncio.Queue[int | None] = asyncio.Queue()

    def data_received(self, data: bytes) -> None:
        for number in data:
            self.answers.put_nowait(number)

    def connection_lost(self, error: Exception | None) -> None:
        self.answers.put_nowait(None)


async def _play(simulation: Simulation, *, answer_before_sync: bool) -> None:
    server, client = simulation.host("server"), simulation.host("client")
    acknowledged: list[int] = []

    async def serve() -> None:
        server.disk.make_folder("/register")
        server.disk.open("/register/numbers", create=True).close()
        server.disk.sync_directory("/")
        server.disk.sync_directory("/register")
        await server.network.listen("0.0.0.0", PORT, lambda: Server(server, answer_before_sync=answer_before_sync))

    async def ask() -> None:
        for number in range(1, NUMBERS + 1):
            while number not in acknowledged:
                with contextlib.suppress(OSError):
                    async with asyncio.timeout(5):
                        await attempt(number)
                await asyncio.sleep(0.05)

    async def attempt(number: int) -> None:
        transport, protocol = await client.network.connect("server", PORT, Client)
        assert isinstance(protocol, Client)
        transport.write(bytes([number]))
        try:
            if await protocol.answers.get() == number:
                acknowledged.append(number)
                simulation.trace.record(f"acknowledged {number}")
        finally:
            transport.abort()

    random = simulation.random("faults")

    async def suffer() -> None:
        for _ in range(12):
            await asyncio.sleep(random.uniform(0, 0.5))
            match random.randrange(6):
                case 0:
                    server.kill()
                case 1:
                    server.cut_power()
                case 2:
                    server.cut_power_in_disk_operation(random.randint(1, 6))
                case 3:
                    server.pause()
                    await asyncio.sleep(random.uniform(0, 10))
                    server.resume()
                case 4:
                    simulation.network.partition("client", "server")
                    await asyncio.sleep(random.uniform(0, 10))
                    simulation.network.heal()
                case _:
                    simulation.network.reset("client", "server")
            if not server.alive:
                await asyncio.sleep(random.uniform(0, 1))
                server.start(serve())

    server.start(serve())
    asking = client.start(ask())
    await suffer()
    if not server.alive:
        server.start(serve())
    server.disk.crash_after(1_000_000)  # The faults are over: now it must come to an end.
    await asking
    server.cut_power()
    await server.start(serve())
    kept = set(read_file(server.disk, "/register/numbers"))
    simulation.trace.record(f"kept {sorted(kept)}")
    assert acknowledged == list(range(1, NUMBERS + 1))
    assert kept >= set(acknowledged), f"acknowledged and forgotten: {sorted(set(acknowledged) - kept)}"
