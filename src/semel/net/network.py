"""The network, as something that is handed in.

A server and a client reach sockets only through a ``Network``: the real one is asyncio's, the one in ``semel.testing``
delays, drops, repeats and partitions. Both speak in asyncio's transports and protocols, so the code above is the same.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Protocol

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Listener(Protocol):
    @property
    def port(self) -> int:
        """The port that is listened on: the one asked for, or the one the system chose for port 0."""

    def close(self) -> None:
        """Accept no more; connections that exist live on."""


class Network(Protocol):
    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener: ...

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]: ...


class SystemListener:
    def __init__(self, server: asyncio.Server) -> None:
        self._server = server

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        self._server.close()


class SystemNetwork:
    """TCP, without Nagle's delay: a request is worth its own packet. ``tls`` is for connecting, and asked each time."""

    def __init__(self, *, tls: Callable[[], ssl.SSLContext] | None = None) -> None:
        self._tls = tls

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> SystemListener:
        loop = asyncio.get_running_loop()
        return SystemListener(await loop.create_server(factory, host, port, backlog=1024))

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        loop = asyncio.get_running_loop()
        if self._tls is None:
            transport, protocol = await loop.create_connection(factory, host, port)
        else:
            context = self._tls()
            transport, protocol = await loop.create_connection(factory, host, port, ssl=context, server_hostname=host)
        connection = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return transport, protocol
