"""A proxy before any Kafka cluster, which observes requests and responses and injects faults.

It has one listening port for each broker. In the responses that name brokers it replaces their addresses by its own, on
the host by which the client has reached it. If the API version of such a response could be newer than Semel knows, the
proxy could not replace addresses in it: it removes such versions from the response to ApiVersions.
Faults, the counting of requests and the observer are those of ``FaultyConnection``.

TLS ends here, because the proxy must read the messages: it has a TLS connection to the broker, and another connection,
with its own certificate or without TLS, to the client. SASL messages are passed on: the client authenticates at the
broker.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any, Final, cast

from semel.testing.faults import Faults
from semel.testing.faulty_connection import FaultyConnection
from semel.testing.tracing.wire_observer import WireObserver
from semel.testing.virtual.frames import FrameSplitter
from semel.types import Address
from semel.wire.apis import APIS, Api, ApiKey
from semel.wire.codec import decoder
from semel.wire.framing import SIZE_PREFIX_BYTES, decode_response_header, encode_response

HOST: Final = "127.0.0.1"
ANY_PORT: Final = Address(HOST, 0)

_NAME_BROKERS: Final = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.API_VERSIONS,
    }
)
_VERSIONS_MAX: Final = {key: APIS[key].max_version for key in _NAME_BROKERS}
# The first version of Fetch whose response can name the new leader's address.
_FETCH_NAMES_BROKERS: Final = 16
_SECONDS_MAX: Final = 30.0


class Proxy:
    """A running proxy: ``with Proxy(addresses) as proxy:`` and connect clients to ``proxy.bootstrap_servers``.

    The proxy's address for the first broker is ``listen``, where port 0 is any free port; those for the others are free
    ports of the same host. ``found`` is called for each broker, on the proxy's thread, with the broker's address and
    the proxy's address for it; ``unreachable`` for each broker to which the proxy cannot connect, with the error.
    ``broker_tls`` is for the connections to brokers, ``client_tls`` for those of clients.
    """

    def __init__(
        self,
        brokers: tuple[Address, ...],
        *,
        listen: Address = ANY_PORT,
        observer: WireObserver | None = None,
        found: Callable[[Address, Address], object] | None = None,
        unreachable: Callable[[Address, OSError], object] | None = None,
        broker_tls: ssl.SSLContext | None = None,
        client_tls: ssl.SSLContext | None = None,
    ) -> None:
        self.faults = Faults(_no_coordinator)
        self.faults.observer = observer
        self._bootstrap = brokers
        self._listen_address = listen
        self._found = found
        self._unreachable = unreachable
        self._broker_tls = broker_tls
        self._client_tls = client_tls
        self._ports: dict[Address, int] = {}
        self._servers: set[asyncio.Task[asyncio.Server]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="semel-proxy", daemon=True)

    @property
    def bootstrap_servers(self) -> str:
        host = self._listen_address.host
        return ",".join(str(Address(host, self._ports[address])) for address in self._bootstrap)

    def __enter__(self) -> Proxy:
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(_SECONDS_MAX)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS_MAX)

    def port_for(self, address: Address) -> int:
        """Return the proxy's port for this broker, opened if there is none yet. Called on the proxy's thread."""
        if address not in self._ports:
            host, port = self._listen_address
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listening = socket.create_server((host, 0 if self._ports else port), family=family)
            self._ports[address] = listening.getsockname()[1]
            if self._found is not None:
                self._found(address, Address(host, self._ports[address]))
            self._servers.add(
                self._loop.create_task(
                    self._loop.create_server(
                        lambda: FaultyConnection(lambda: _Relay(address, self), self.faults),
                        sock=listening,
                        ssl=self._client_tls,
                    )
                )
            )
        return self._ports[address]

    def is_also(self, address: Address, other: Address) -> None:
        """Use the port of ``address`` for ``other`` as well: the address to which a connection was made is the same
        broker's as the one that was given."""
        self._ports.setdefault(other, self._ports[address])

    async def connect(self, address: Address, factory: Callable[[], asyncio.Protocol]) -> asyncio.Transport | None:
        """Open a connection to a broker; ``None`` if it cannot be reached."""
        name = None if self._broker_tls is None else address.host
        try:
            transport, _ = await self._loop.create_connection(
                factory, address.host, address.port, ssl=self._broker_tls, server_hostname=name
            )
        except OSError as error:
            if self._unreachable is not None:
                self._unreachable(address, error)
            return None
        return transport

    async def _listen(self) -> None:
        """Open the ports for the given brokers. Raises ``OSError`` if the address cannot be used."""
        for address in self._bootstrap:
            self.port_for(address)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            for server in self._servers:
                if server.done() and not server.cancelled() and server.exception() is None:
                    server.result().close()
            self._loop.run_until_complete(asyncio.sleep(0))
        finally:
            self._loop.close()


class _Relay(asyncio.BufferedProtocol):
    """The protocol behind a ``FaultyConnection``: it passes requests on to the real broker, and the responses back."""

    def __init__(self, address: Address, proxy: Proxy) -> None:
        self._address = address
        self._proxy = proxy
        self._client: asyncio.Transport | None = None
        self._broker: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._buffer = bytearray()
        self._unsent = bytearray()
        """Requests that arrived before the connection to the broker was open."""
        self._requests = FrameSplitter()
        self._asked: dict[int, tuple[int, int]] = {}
        """API key and version of the requests that are not answered yet, by correlation id."""

    # The client.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._client = cast(asyncio.Transport, transport)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def get_buffer(self, sizehint: int) -> bytearray:
        self._buffer = bytearray(max(sizehint, 1))
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        for frame in self._requests.feed(bytes(self._buffer[:nbytes])):
            if len(frame) >= 12:
                key, version = (int.from_bytes(frame[at : at + 2], "big", signed=True) for at in (4, 6))
                self._asked[int.from_bytes(frame[8:12], "big", signed=True)] = key, version
            if self._broker is None:
                self._unsent += frame
            else:
                self._broker.write(frame)

    def connection_lost(self, error: Exception | None) -> None:
        self._client = None
        if self._connecting is not None:
            self._connecting.cancel()
        if self._broker is not None:
            self._broker.close()

    def eof_received(self) -> bool | None:
        return None

    def pause_writing(self) -> None:
        """The client reads slowly: stop reading from the broker."""
        if self._broker is not None:
            self._broker.pause_reading()

    def resume_writing(self) -> None:
        if self._broker is not None:
            self._broker.resume_reading()

    # The broker.

    def broker_is_slow(self) -> None:
        if self._client is not None:
            self._client.pause_reading()

    def broker_has_read(self) -> None:
        if self._client is not None:
            self._client.resume_reading()

    async def _connect(self) -> None:
        broker = await self._proxy.connect(self._address, lambda: _Answers(self))
        if broker is None:
            self.broker_lost()
            return
        self._broker = broker
        self._proxy.is_also(self._address, Address(*broker.get_extra_info("peername")[:2]))
        self._broker.write(bytes(self._unsent))

    def answered(self, frame: bytes) -> None:
        key, version = self._asked.pop(int.from_bytes(frame[4:8], "big", signed=True), (-1, -1))
        if self._client is not None:
            self._client.write(self._readdressed(frame, key, version) if key in _NAME_BROKERS else frame)

    def broker_lost(self) -> None:
        if self._client is not None:
            self._client.abort()

    def _readdressed(self, frame: bytes, key: int, version: int) -> bytes:
        api = APIS[key]
        if not api.min_version <= version <= api.max_version:
            return frame  # The broker refuses a request of this version, in a response that names no brokers.
        body = memoryview(frame)[SIZE_PREFIX_BYTES:]
        if key == ApiKey.FETCH and version < _FETCH_NAMES_BROKERS:
            return frame
        correlation_id, position = decode_response_header(body, api, version)
        if key == ApiKey.API_VERSIONS and int.from_bytes(body[position : position + 2], "big"):
            return frame  # An error, which is always encoded as version 0.
        response = decoder(api.response_class, version)(body, position)
        if key == ApiKey.FETCH and not response.node_endpoints:
            return frame  # The usual case: its records need not be encoded again.
        return self._changed(api, version, correlation_id, response)

    def _changed(self, api: Api, version: int, correlation_id: int, response: Any) -> bytes:
        match api.key:
            case ApiKey.API_VERSIONS:
                for one in response.api_keys:
                    one.max_version = min(one.max_version, _VERSIONS_MAX.get(one.api_key, one.max_version))
            case ApiKey.PRODUCE | ApiKey.FETCH:
                self._readdress(response.node_endpoints)
            case ApiKey.FIND_COORDINATOR:
                self._readdress([response, *response.coordinators])
            case _:
                self._readdress(response.brokers)
        return bytes(encode_response(correlation_id, api, version, response))

    def _readdress(self, brokers: list[Any]) -> None:
        for broker in brokers:
            if broker.host and broker.port is not None and broker.port > 0:
                broker.port, broker.host = self._proxy.port_for(Address(broker.host, broker.port)), self._own_host

    @property
    def _own_host(self) -> str:
        """The host by which the client has reached the proxy, which may listen on all addresses of its machine."""
        own = None if self._client is None else self._client.get_extra_info("sockname")
        return own[0] if isinstance(own, tuple) else HOST


class _Answers(asyncio.Protocol):
    def __init__(self, relay: _Relay) -> None:
        self._relay = relay
        self._frames = FrameSplitter()

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            self._relay.answered(frame)

    def connection_lost(self, error: Exception | None) -> None:
        self._relay.broker_lost()

    def pause_writing(self) -> None:
        self._relay.broker_is_slow()

    def resume_writing(self) -> None:
        self._relay.broker_has_read()


def _no_coordinator(name: str, away_seconds: float) -> None:
    raise NotImplementedError(f"the coordinator of {name} belongs to another broker, which is not asked to move it")
