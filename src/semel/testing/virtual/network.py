"""A network in memory, with the faults of a real one.

Hosts have names, and every pair of hosts has a link. On each connection bytes arrive in order, late, and in pieces.
Faults happen only if a test injects them: ``partition``, ``pause``, ``reset`` and ``kill`` act at once, a ``Link`` has
the probabilities of random faults, and an ``interceptor`` decides about every single message.

``VirtualNetwork`` is itself the ``semel.net.network.Network`` of a host called ``localhost``; ``host(name)`` returns
that of another host.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import itertools
from collections.abc import Collection
from random import Random

from semel.net.network import ProtocolFactory
from semel.testing.virtual.frames import Interceptor
from semel.testing.virtual.links import Link, Links
from semel.testing.virtual.trace import Trace
from semel.testing.virtual.transport import Connection

_ITSELF = frozenset({"", "localhost", "127.0.0.1", "0.0.0.0", "::", "::1"})


class VirtualListener:
    def __init__(self, network: VirtualNetwork, host: str, port: int, factory: ProtocolFactory) -> None:
        self._network = network
        self._address = (host, port)
        self.factory = factory
        self.context = contextvars.copy_context()

    @property
    def port(self) -> int:
        return self._address[1]

    def close(self) -> None:
        if self._network._listeners.get(self._address) is self:
            del self._network._listeners[self._address]


class HostNetwork:
    """The network of one host: it listens on the host's own ports, and connects to other hosts by name."""

    def __init__(self, network: VirtualNetwork, name: str) -> None:
        self._network = network
        self.name = name

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> VirtualListener:
        if host not in _ITSELF and host != self.name:
            raise OSError(errno.EADDRNOTAVAIL, f"host {self.name} cannot listen as {host}")
        return self._network._listen(self.name, port, factory)

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        destination = self.name if host in _ITSELF else host
        return await self._network._connect(self.name, destination, port, factory)


class VirtualNetwork:
    """All hosts and connections. ``give_up_ms`` is how long TCP waits for an acknowledgement before it gives up."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        *,
        link: Link = Link(),  # noqa: B008 - an immutable value
        give_up_ms: float = 120_000.0,
        trace: Trace | None = None,
    ) -> None:
        self.interceptor: Interceptor | None = None
        """Decides about every frame of the connections that are opened after it was set. There is at most one."""
        self._links = Links(loop, random, link=link, give_up_ms=give_up_ms, trace=trace)
        self._listeners: dict[tuple[str, int], VirtualListener] = {}
        self._connections: dict[int, Connection] = {}
        self._numbers = itertools.count(1)
        self._ports = itertools.count(40_000)
        self._dialling: list[asyncio.Future[None]] = []

    def host(self, name: str) -> HostNetwork:
        return HostNetwork(self, name)

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> VirtualListener:
        return self._listen("localhost" if host in _ITSELF else host, port, factory)

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        return await self.host("localhost").connect(host, port, factory)

    # -- faults -------------------------------------------------------------------------------------------------------

    def set_link(self, one: str, other: str, link: Link) -> None:
        self._links.by_pair[frozenset((one, other))] = link

    def partition(self, host: str, *others: str) -> None:
        """Block all bytes between the host and each of the others. TCP retries until ``heal`` or until it gives up."""
        self._links.record(f"partition {host} | {' '.join(others)}")
        self._links.partitions.update(frozenset((host, other)) for other in others)

    def partition_one_way(self, source: str, *destinations: str) -> None:
        """Block all bytes from the source to each of the destinations; bytes in the other direction arrive."""
        self._links.record(f"partition {source} -> {' '.join(destinations)}")
        self._links.one_way.update((source, destination) for destination in destinations)

    def heal(self, host: str | None = None, *others: str) -> None:
        """End the named partitions, or those of one host, or all of them."""
        self._links.record(f"heal {' '.join((host or 'all', *others))}")

        def is_healed(pair: Collection[str]) -> bool:
            return host is None or (host in pair and (not others or any(other in pair for other in others)))

        self._links.partitions -= {pair for pair in self._links.partitions if is_healed(pair)}
        self._links.one_way -= {pair for pair in self._links.one_way if is_healed(pair)}
        self._unblocked()

    def pause(self, host: str) -> None:
        """Stop delivering to and from the host until ``resume``."""
        self._links.record(f"pause {host}")
        self._links.paused.add(host)

    def resume(self, host: str) -> None:
        self._links.record(f"resume {host}")
        self._links.paused.discard(host)
        self._unblocked()

    def reset(self, one: str, other: str) -> None:
        """Reset every connection between the two hosts; both ends notice it."""
        self._links.record(f"reset {one} | {other}")
        for connection in tuple(self._connections.values()):
            if connection.joins(one, other):
                connection.reset()

    def kill(self, host: str, *, silently: bool = False) -> None:
        """End the listeners and connections of a host whose process has died; its protocols are not called any more.

        Its peers' connections are closed, as the kernel does after ``kill -9``. With ``silently``, for a power cut,
        the peers notice it only when they next write.
        """
        self._links.record(f"kill {host}")
        self._links.paused.discard(host)
        for listener in [listener for address, listener in self._listeners.items() if address[0] == host]:
            listener.close()
        for connection in tuple(self._connections.values()):
            for end in connection.ends:
                if end.host == host:
                    end.vanish(silently=silently)
        self._unblocked()

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    # -- private ------------------------------------------------------------------------------------------------------

    def _listen(self, name: str, port: int, factory: ProtocolFactory) -> VirtualListener:
        address = (name, port or next(self._ports))
        if address in self._listeners:
            raise OSError(errno.EADDRINUSE, f"{name}:{port} is being listened on already")
        listener = self._listeners[address] = VirtualListener(self, *address, factory)
        return listener

    async def _connect(
        self, source: str, destination: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        deadline = self._links.loop.time() + self._links.give_up_ms / 1000
        await self._cross(source, destination, deadline)
        listener = self._listeners.get((destination, port))
        if listener is None or self._links.link(source, destination).refuses:
            await self._cross(destination, source, deadline)
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"no listener on {destination}:{port}")
        number = next(self._numbers)
        client, server = (source, next(self._ports)), (destination, port)
        self._links.record(f"connect {number} from {source}:{client[1]} to {destination}:{port}")
        connection = self._connections[number] = Connection(
            number, self._links, client, server, interceptor=self.interceptor, over=self._forget
        )
        self._links.loop.call_soon(
            connection.server.made, listener.factory, listener.context.copy(), context=self._links.context
        )
        try:
            await self._cross(destination, source, deadline)
        except BaseException:
            connection.client.abort()
            raise
        if connection.client.gone:
            raise ConnectionResetError(
                errno.ECONNRESET, f"{destination}:{port} was lost while {source} connected to it"
            )
        connection.client.made(factory, contextvars.copy_context())
        return connection.client, connection.client.get_protocol()

    def _forget(self, number: int) -> None:
        self._connections.pop(number, None)

    async def _cross(self, source: str, destination: str, deadline: float) -> None:
        """Wait for the time that one packet of the TCP handshake takes. Raises ``TimeoutError`` at the deadline."""
        await asyncio.sleep(self._links.delay_s(source, destination))
        while self._links.blocked(source, destination):
            healed = self._links.loop.create_future()
            self._dialling.append(healed)
            try:
                async with asyncio.timeout_at(deadline):
                    await healed
            except TimeoutError:
                raise TimeoutError(errno.ETIMEDOUT, f"{destination} did not answer {source}") from None
            await asyncio.sleep(self._links.delay_s(source, destination))

    def _unblocked(self) -> None:
        for connection in tuple(self._connections.values()):
            for end in connection.ends:
                end.unblocked()
        dialling, self._dialling = self._dialling, []
        for healed in dialling:
            if not healed.done():
                healed.set_result(None)
