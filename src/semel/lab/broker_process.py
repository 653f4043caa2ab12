"""A broker as a process of its own, one of a cluster whose other brokers are in the process that has started it.

    python -m semel.lab.broker_process SETTING=VALUE ...

Standard input is a socket, connected to the model of ZooKeeper in the starting process. Once the broker is a member of
the cluster, it prints the ports on which it listens: to clients, and to other brokers. It ends when the socket does, so
it never outlives the process that has started it. Its data is in memory.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Mapping

from semel.broker.config.broker_config import BrokerConfig
from semel.clock import SystemClock
from semel.errors import SemelError
from semel.lab.quiet_log import quiet_log
from semel.net.network import Listener, ProtocolFactory
from semel.testing.faults import Faults
from semel.testing.served_broker import ServedBroker
from semel.testing.zookeeper.session import ModelSession


class _InheritedConnection:
    """A ``Network`` that has one connection, which this process was started with. ``ended`` is set when it is lost."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection: socket.socket | None = connection
        self.ended = asyncio.Event()

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        raise NotImplementedError("there is one connection, and it exists already")

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        connection, self._connection = self._connection, None
        if connection is None:  # The session connects again because the first connection was lost.
            self.ended.set()
            raise ConnectionRefusedError("the connection to the model of ZooKeeper has ended")
        return await asyncio.get_running_loop().create_connection(factory, sock=connection)


async def serve(settings: Mapping[str, object], connection: socket.socket) -> None:
    zookeeper = _InheritedConnection(connection)

    async def open_session(config: BrokerConfig) -> ModelSession:
        session = ModelSession(zookeeper, ["zookeeper"], timeout_s=config.zookeeper_session_timeout_ms / 1000)
        await session.start()
        return session

    broker = ServedBroker(None, settings, SystemClock(), Faults(lambda name, away_s: None), open_session=open_session)
    await broker.start()
    assert broker.broker is not None
    for_brokers = broker.broker.endpoints.inter_broker_address
    assert for_brokers is not None
    print(broker.address.port, for_brokers.port, flush=True)
    await zookeeper.ended.wait()
    await broker.stop(kill=True)


def main(*texts: str) -> int:
    settings = dict(text.split("=", 1) for text in texts)
    with quiet_log(), socket.socket(fileno=sys.stdin.fileno()) as connection:
        try:
            asyncio.run(serve(settings, connection))
        except SemelError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
