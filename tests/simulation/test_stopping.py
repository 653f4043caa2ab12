"""What a broker tells those that watch it while it stops, in virtual time."""

from __future__ import annotations

import asyncio
from functools import partial

from semel.broker.broker import STOP_TASKS_SECONDS_MAX, Broker
from semel.broker.config.broker_config import BrokerConfig
from semel.testing.simulation import Simulation, run
from semel.types import Address
from tests.simulation.served_broker import BROKER, CLIENTS, PORT, SETTINGS, create_topic
from tests.simulation.wire_client import WireClient

METRICS_PORT = 9100


class Answer(asyncio.Protocol):
    def __init__(self, closed: asyncio.Future[bytes]) -> None:
        self._received, self._closed = b"", closed

    def data_received(self, data: bytes) -> None:
        self._received += data

    def connection_lost(self, error: Exception | None) -> None:
        self._closed.set_result(self._received)


async def status_of(simulation: Simulation, path: str) -> bytes:
    """The first line of the answer to a GET of the path on the page of metrics."""
    closed: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    network = simulation.host(CLIENTS).network
    transport, _ = await network.connect(BROKER, METRICS_PORT, partial(Answer, closed))
    transport.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    return (await closed).partition(b"\r\n")[0]


def test_a_broker_that_stops_tells_a_probe_at_once_and_serves_its_metrics_on() -> None:
    async def scenario(simulation: Simulation) -> None:
        host, loop = simulation.host(BROKER), asyncio.get_running_loop()
        broker = Broker(
            BrokerConfig.load("", SETTINGS),
            listen=Address(BROKER, PORT),
            metrics_listen=Address(BROKER, METRICS_PORT),
            disk=host.disk,
            network=host.network,
            clock=host.clock,
            random=simulation.random("broker"),
            make_worker=lambda _: host.worker(),
        )
        await host.start(broker.start())
        assert await status_of(simulation, "/healthz") == b"HTTP/1.1 200 OK"

        host.hang_workers()  # The stop waits for the request that is being served.
        creating = asyncio.create_task(create_topic(WireClient(simulation.host(CLIENTS).network, BROKER, PORT), "t", 1))
        await asyncio.sleep(0.1)
        stopping, began_s = host.start(broker.stop()), loop.time()
        assert await status_of(simulation, "/healthz") == b"HTTP/1.1 503 Service Unavailable"
        assert await status_of(simulation, "/metrics") == b"HTTP/1.1 200 OK"
        assert loop.time() - began_s < STOP_TASKS_SECONDS_MAX
        assert not stopping.done()
        host.hang_workers(False)
        assert await stopping
        creating.cancel()

    run(scenario)
