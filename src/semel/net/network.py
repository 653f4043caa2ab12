"""The network, as an interface: the real one and that of simulations are passed in.

Servers and clients use sockets only through a ``Network``. The real one is asyncio's; the one in ``semel.testing``
delays, drops and repeats data, and partitions hosts. Both use asyncio's transports and protocols, so the code above
them is the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Callable
from typing import Protocol

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Listener(Protocol):
    @property
    def port(self) -> int:
        """The port that is listened on: the requested one, or for port 0 the one that the operating system chose."""

    def close(self) -> None:
        """Stop accepting connections. Existing connections stay open."""


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
    """TCP without Nagle's algorithm, so that every request is sent at once.

    ``tls`` returns the context for outgoing connections; it is called for each connection. All addresses of a name are
    tried, one after the other. One that does not answer takes all the time that an attempt has, so the next attempt
    begins with the others.
    """

    def __init__(self, *, tls: Callable[[], ssl.SSLContext] | None = None) -> None:
        self._tls = tls
        self._unanswered: dict[str, dict[str, None]] = {}
        """The addresses of a name that did not answer an attempt, the last one last."""

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> SystemListener:
        loop = asyncio.get_running_loop()
        return SystemListener(await loop.create_server(factory, host, port, backlog=1024))

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        unanswered = self._unanswered.setdefault(host, {})
        found = await self._addresses(host, port)
        # Those that are left of the unanswered ones come in the order in which they did not answer.
        in_order = [one for one in found if one not in unanswered] + [one for one in unanswered if one in found]
        errors: list[OSError] = []
        for address in in_order:
            try:
                connected = await self._connect_to(address, host, port, factory)
            except ssl.SSLError:
                raise  # The address was right.
            except OSError as error:
                errors.append(error)
            except asyncio.CancelledError:
                unanswered.pop(address, None)
                unanswered[address] = None
                raise
            else:
                unanswered.pop(address, None)
                return connected
        if len(errors) == 1:
            raise errors[0]
        raise OSError(f"no address of {host} can be connected to: {'; '.join(map(str, errors))}")

    async def _addresses(self, host: str, port: int) -> list[str]:
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(host)
            return [host]  # A lookup would take a thread.
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))

    async def _connect_to(
        self, address: str, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        loop = asyncio.get_running_loop()
        if self._tls is None:
            transport, protocol = await loop.create_connection(factory, address, port)
        else:
            context = self._tls()
            transport, protocol = await loop.create_connection(
                factory, address, port, ssl=context, server_hostname=host
            )
        connection = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return transport, protocol
