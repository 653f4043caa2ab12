"""The server lets in what its limits allow, and a flood of connections leaves room for other addresses."""

from __future__ import annotations

import pytest

from semel.broker.metrics.metrics import Metrics
from semel.broker.network.connection import Connection
from semel.broker.network.server import Limits, Server
from semel.net.network import Listener, ProtocolFactory
from semel.testing.virtual.clock import VirtualClock
from semel.testing.virtual.loop import VirtualLoop
from tests.unit.broker.network.connection_bench import Transport

RATE = 2
LIMITS = Limits(
    frame_bytes_max=1000,
    connections_max=10_000,
    connections_per_ip_max=10_000,
    connections_per_second_max=RATE,
    idle_ms_max=None,
    stalled_ms_max=30_000,
    arriving_bytes_max=1000,
    leaving_bytes_max=1000,
)


class Network:
    """The listener of the test: it makes connections to the server."""

    port = 9092

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.served: list[Connection] = []
        self.server = Server(
            limits=lambda: LIMITS,
            serve=lambda connection, frame: self.served.append(connection),
            metrics=Metrics(),
            clock=VirtualClock(self.loop),
            loop=self.loop,
            soon=self.loop.call_soon,
        )
        self.loop.run_until_complete(self.server.listen(self, "broker", self.port))  # type: ignore[arg-type]

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        self.factory = factory
        return self  # type: ignore[return-value]

    def is_served_at_once(self, peer: tuple[str, int] | None) -> bool:
        """Send a request from this address; None if its client is gone before the server accepts the connection."""
        connection = self.factory()
        assert isinstance(connection, Connection)
        transport = Transport(connection, peer)
        connection.connection_made(transport)
        if not transport.closing:
            transport.deliver(b"\x00\x00\x00\x01?")
        return connection in self.served


@pytest.mark.parametrize("reset", [False, True])
def test_a_flood_from_one_address_leaves_half_of_the_rate_to_others(reset: bool) -> None:
    """Connections that are reset before they are accepted have no address. They are no address of their own."""
    network = Network()
    for port in range(1000):
        network.is_served_at_once(("10.0.0.2", port))
        if reset:
            network.is_served_at_once(None)
    assert not network.is_served_at_once(("10.0.0.2", 1000))
    for port in range(RATE):
        assert network.is_served_at_once(("10.0.0.3", port))
