"""A broker of a cluster that runs as a process of its own, so that it can be killed with SIGKILL.

The process (``broker_process.py``) has two ties to this one: its session with the cluster's model of ZooKeeper, over a
pair of connected sockets, and the address at which clients and other brokers reach it. That address is a port of this
process, which forwards to the port of the broker. So requests to it are recorded in one order with those to the brokers
of this process, and faults can happen to them.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Final, cast

from semel.errors import SemelError
from semel.metadata.image import PLAINTEXT
from semel.net.network import Listener, SystemNetwork
from semel.testing.cluster import ZOOKEEPER, Cluster
from semel.testing.faults import Faults
from semel.testing.faulty_connection import FaultyNetwork
from semel.testing.served_broker import HOST
from semel.testing.tracing.wire_observer import WireObserver
from semel.testing.zookeeper.server import ServedConnection

_LISTENERS: Final = (PLAINTEXT, "BROKERS")
"""For clients, and for other brokers. Clients of the other brokers look for a listener of the same name."""
_PAUSE_S: Final = 0.002
_BUFFER_BYTES: Final = 65_536


class KillableBroker:
    """One more broker of a cluster, in a process of its own. It has joined the cluster when the constructor returns.

    Settings are Kafka's, with ``_`` for ``.``. ``observer`` receives the requests of clients and of other brokers, and
    the responses. Raises ``SemelError`` if the broker cannot be started.
    """

    def __init__(
        self, cluster: Cluster, node_id: int, settings: Mapping[str, object], *, observer: WireObserver
    ) -> None:
        self.node_id = node_id
        self.faults = Faults(_no_coordinator)
        self.faults.observer = observer
        self._cluster = cluster
        own_end, other_end = socket.socketpair()
        with other_end:
            self._session, self._forwarders = cluster.thread.call(self._open(own_end))
            self._process = subprocess.Popen(
                [sys.executable, "-m", "semel.lab.broker_process", *_texts({**settings, **self._own_settings()})],
                stdin=other_end.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        assert self._process.stdout is not None
        ports = self._process.stdout.readline().split()
        if not ports:
            _, errors = self._process.communicate()
            self.close()
            raise SemelError(f"broker {node_id} could not be started: {errors.strip()[-500:]}")
        cluster.thread.call(self._joined([int(port) for port in ports]))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def was_killed(self) -> bool:
        """Whether SIGKILL has ended the process."""
        return self._process.poll() == -signal.SIGKILL

    def kill(self) -> None:
        """End the process with SIGKILL. Its session ends at once; without this it would expire some seconds later."""
        self.close()
        self._cluster.thread.call(self._expired())

    def close(self) -> None:
        """End the process, if it runs still, and free the ports."""
        self._process.kill()
        self._process.communicate()
        for forwarder in self._forwarders:
            self._cluster.thread.call(forwarder.close())

    def _own_settings(self) -> dict[str, object]:
        for_clients, for_brokers = _LISTENERS
        ports = [forwarder.port for forwarder in self._forwarders]
        advertised = [f"{name}://{HOST}:{port}" for name, port in zip(_LISTENERS, ports, strict=True)]
        return {
            "node_id": self.node_id,
            "zookeeper_connect": f"{ZOOKEEPER}:2181",
            "listeners": ",".join(f"{name}://{HOST}:0" for name in _LISTENERS),
            "advertised_listeners": ",".join(advertised),
            "listener_security_protocol_map": f"{for_clients}:PLAINTEXT,{for_brokers}:PLAINTEXT",
            "inter_broker_listener_name": for_brokers,
        }

    # On the thread of the cluster

    async def _open(self, connection: socket.socket) -> tuple[ServedConnection, list[_Forwarder]]:
        session = await self._cluster.zookeeper.server.serve(connection)
        return session, [await _Forwarder.listening(self.faults) for _ in _LISTENERS]

    async def _joined(self, ports: list[int]) -> None:
        """Forward to these ports from now on; returns when the other brokers have received the registration."""
        for forwarder, port in zip(self._forwarders, ports, strict=True):
            forwarder.target.set_result(port)
        await self._until_registered(True)

    async def _expired(self) -> None:
        """End the session; returns when the other brokers know that the registration has ended."""
        self._cluster.zookeeper.server.expire(self._session.session_id)
        await self._until_registered(False)

    async def _until_registered(self, is_registered: bool) -> None:
        others = [broker.node for broker in self._cluster.brokers.values() if broker.is_running]
        while any((self.node_id in node.image.brokers) is not is_registered for node in others):
            await asyncio.sleep(_PAUSE_S)


class _Forwarder:
    """Listens on a port, and forwards every connection to the port ``target`` once that is known."""

    def __init__(self) -> None:
        self.target: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._listener: Listener | None = None

    @classmethod
    async def listening(cls, faults: Faults) -> _Forwarder:
        forwarder = cls()
        network = FaultyNetwork(SystemNetwork(), faults)
        forwarder._listener = await network.listen(HOST, 0, lambda: _Forwarding(forwarder.target))
        return forwarder

    @property
    def port(self) -> int:
        assert self._listener is not None
        return self._listener.port

    async def close(self) -> None:
        self.target.cancel()
        if self._listener is not None:
            self._listener.close()


class _Forwarding(asyncio.BufferedProtocol):
    """One connection of a client. There is no flow control, since a scene sends only a few kilobytes."""

    def __init__(self, target: asyncio.Future[int]) -> None:
        self._target = target
        self._buffer = bytearray(_BUFFER_BYTES)
        self._unsent = bytearray()
        """Bytes that were received before there was a connection to the broker."""
        self._client: asyncio.Transport | None = None
        self._broker: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._client = cast(asyncio.Transport, transport)
        self._connecting = asyncio.get_running_loop().create_task(self._connect(self._client))

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._broker is None:
            self._unsent += self._buffer[:nbytes]
        else:
            self._broker.write(bytes(self._buffer[:nbytes]))

    def connection_lost(self, error: Exception | None) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        if self._broker is not None:
            self._broker.abort()

    async def _connect(self, client: asyncio.Transport) -> None:
        try:
            port = await asyncio.shield(self._target)
            self._broker, _ = await SystemNetwork().connect(HOST, port, lambda: _Answers(client))
        except (OSError, asyncio.CancelledError):
            client.abort()
            return
        self._broker.write(bytes(self._unsent))


class _Answers(asyncio.Protocol):
    """The connection to the broker: its bytes are sent to the client, and when it ends, the client's is closed."""

    def __init__(self, client: asyncio.Transport) -> None:
        self._client = client

    def data_received(self, data: bytes) -> None:
        self._client.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._client.abort()


def _texts(settings: Mapping[str, object]) -> list[str]:
    return [f"{name}={value}" for name, value in settings.items()]


def _no_coordinator(name: str, away_seconds: float) -> None:
    raise NotImplementedError(f"the coordinator of {name} is in another process, which is not asked to move it")
