"""The server: accepts connections on its listeners, limits their number, and closes those that are idle or stalled.

The law: an unknown client costs at most the memory of one connection and one log line. Connections over the limits are
closed before a byte is read, and those over the rate of new connections wait (``connection_rate``). Idle ones are
closed after ``connections.max.idle.ms``, those that hold memory without progress after ``connections.max.stalled.ms``
(``stalled_connections``). All connections share one receive buffer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from semel.broker.metrics.metrics import Metrics
from semel.broker.network.connection import UNKNOWN_HOST, Connection
from semel.broker.network.connection_rate import ConnectionRate
from semel.broker.network.receive_buffer import SCRATCH_BYTES, ReceiveBuffer
from semel.broker.network.request_memory import RequestMemory
from semel.broker.network.response_memory import ResponseMemory
from semel.broker.network.stalled_connections import StalledConnections
from semel.clock import Clock
from semel.metadata.image import PLAINTEXT
from semel.net.network import Listener, Network, ProtocolFactory

if TYPE_CHECKING:
    import ssl

logger = logging.getLogger("semel.broker")

# How often idle and stalled connections are looked for in the time after which they are closed.
_SWEEPS_PER_IDLE_TIME: Final = 10
# How often stalled connections are looked for while requests wait for memory that connections hold.
_SCARCE_SWEEP_MS: Final = 50


@dataclass(frozen=True, slots=True)
class Limits:
    frame_bytes_max: int
    connections_max: int
    connections_per_ip_max: int
    connections_per_second_max: int
    idle_ms_max: int | None
    stalled_ms_max: int
    arriving_bytes_max: int
    leaving_bytes_max: int
    connections_rule: str = "max.connections"  # The setting, or the limit, that determines connections_max.


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """The options of one listener: its limits, its TLS, and how its clients are authenticated."""

    name: str = PLAINTEXT
    authenticate: Callable[[Connection], None] | None = None
    """Called with each connection before it is read. It may replace the connection's ``serve``."""
    tls: Callable[[], ssl.SSLContext] | None = None
    connections_max: Callable[[], int | None] = lambda: None
    """Returns how many of the server's connections this listener may have; None: no limit of its own."""
    connections_per_second_max: Callable[[], int | None] = lambda: None
    """Returns how many new connections in a second this listener may have; None: no limit of its own."""
    certificate_refused: Callable[[str, str], None] = lambda host, reason: None
    """Called with the host of a client whose certificate is refused, or missing but required, and with the reason."""


PLAIN: Final = ListenerOptions()


class Server:
    """Accepts connections on one or several listeners, and closes them. Their requests are served by ``serve``.

    The limits, and the memory of requests and of answers, are for all its listeners together.
    """

    def __init__(
        self,
        *,
        limits: Callable[[], Limits],
        serve: Callable[[Connection, memoryview], None],
        metrics: Metrics,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        soon: Callable[[Callable[[], None]], object],
        admits: Callable[[str], bool] = lambda host: True,
    ) -> None:
        """``admits`` returns whether an address may open one more connection, by its quota."""
        self.clock = clock
        self._admits = admits
        self.request = serve
        self.soon = soon
        self.received_bytes, self.sent_bytes = metrics.received_bytes, metrics.sent_bytes
        self.connections: dict[Connection, None] = {}
        self._limits = limits
        """Returns the current limits: some can be altered while the broker runs."""
        self._metrics = metrics
        self._loop = loop
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._rate = ConnectionRate()
        self._listener_rates: defaultdict[str, ConnectionRate] = defaultdict(ConnectionRate)
        self._per_ip: dict[str, int] = {}
        self._per_listener: Counter[str] = Counter()
        self._options: dict[str, ListenerOptions] = {}
        self.memory = RequestMemory(limits().arriving_bytes_max, self._shrink_all, self._memory_is_scarce)
        self.responses = ResponseMemory(limits().leaving_bytes_max, self._memory_is_scarce, loop.call_soon)
        self._stalled = StalledConnections(self.memory, self.responses)
        self._listeners: list[Listener] = []
        self._sweep: asyncio.TimerHandle | None = None
        self._scarce_sweep: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None
        self.on_closed: Callable[[Connection], None] = _ignored
        """Called with every connection that was closed or lost."""

    async def listen(self, network: Network, host: str, port: int, options: ListenerOptions = PLAIN) -> int:
        """Begin to accept connections at this address. Returns the port."""
        factory: ProtocolFactory = partial(self._connection, options.name)
        if options.tls is not None:
            from semel.net.tls_server import TlsProtocolFactory

            factory = TlsProtocolFactory(
                factory, options.tls, self._loop, self.soon, self._tls_refused, options.certificate_refused
            )
        self._options[options.name] = options
        listener = await network.listen(host, port, factory)
        self._listeners.append(listener)
        if self._sweep is None:
            self._sweep_later()
        return listener.port

    def stop_accepting(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        for timer in (self._sweep, self._scarce_sweep):
            if timer is not None:
                timer.cancel()
        self._sweep = self._scarce_sweep = None

    def stop_reading(self) -> None:
        """Serve no further request of any client. A connection is closed when its requests are answered."""
        self.stop_accepting()
        for connection in list(self.connections):
            connection.finish()

    async def finish_connections(self, *, timeout_s: float) -> None:
        """Answer the requests that were begun, and close the connections. After ``timeout_s`` abort those whose clients
        have not read their answers."""
        self.stop_reading()
        if self.connections:
            self._emptied = self._loop.create_future()
            try:
                await asyncio.wait_for(self._emptied, timeout_s)
            except TimeoutError:
                self.kill()

    def kill(self) -> None:
        """Stop accepting, and abort all connections."""
        self.stop_accepting()
        for connection in list(self.connections):
            connection.abort()

    # Called by connections (``AcceptingServer``).

    def opened(self, connection: Connection) -> bool:
        limits, host, name = self._limits(), connection.host, connection.listener
        on_host = self._per_ip.get(host, 0) + 1
        self.connections[connection] = None
        self._per_ip[host] = on_host
        self._per_listener[name] += 1
        if not self._listeners:
            return False
        if host == UNKNOWN_HOST:
            return False  # It counts as no address: as one more it would use up the rate of the others.
        options = self._options[name]
        for count, maximum, setting in (
            (len(self.connections), limits.connections_max, limits.connections_rule),
            (on_host, limits.connections_per_ip_max, "max.connections.per.ip"),
            (self._per_listener[name], options.connections_max(), f"listener.name.{name.lower()}.max.connections"),
        ):
            if maximum is not None and count > maximum:
                self._metrics.connections_refused.value += 1
                logger.warning("connection from %s refused: %s is %d", connection.peer, setting, maximum)
                return False
        if not self._admits(host):
            self._metrics.connections_refused.value += 1
            logger.warning("connection from %s refused: its quota of connection_creation_rate", connection.peer)
            return False
        own_rate = options.connections_per_second_max()
        for rates, rate, setting in (
            (self._listener_rates[name], own_rate, f"listener.name.{name.lower()}.max.connection.creation.rate"),
            (self._rate, limits.connections_per_second_max, "max.connection.creation.rate"),
        ):
            if rate is not None and not self._is_within_rate(connection, rates, rate, setting):
                return False
        self._metrics.connections_accepted.value += 1
        if options.authenticate is not None:
            options.authenticate(connection)
        return True

    def _is_within_rate(self, connection: Connection, rates: ConnectionRate, rate: int, setting: str) -> bool:
        """Whether the connection is within the rate. It is muted for a while if it has to wait for that."""
        wait_ms = rates.wait_ms(connection.host, rate, connection.active_at_ms)
        if wait_ms is None:
            self._metrics.connections_refused.value += 1
            logger.warning("connection from %s refused: %s is %d", connection.peer, setting, rate)
            return False
        if wait_ms:
            logger.warning("connection from %s waits for %d ms: %s is %d", connection.peer, wait_ms, setting, rate)
            connection.mute(wait_ms)
        return True

    def closed(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self._per_listener[connection.listener] -= 1
        remaining = self._per_ip.get(connection.host, 0) - 1
        if remaining > 0:
            self._per_ip[connection.host] = remaining
        else:
            self._per_ip.pop(connection.host, None)
        self.on_closed(connection)
        if not self.connections and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def refused(self, connection: Connection, reason: object) -> None:
        self._metrics.malformed.value += 1
        logger.warning("connection from %s closed: %s", connection.peer, reason)

    def _tls_refused(self, peer: str, reason: str) -> None:
        self._metrics.malformed.value += 1
        logger.warning("connection from %s closed: %s", peer, reason)

    def _connection(self, listener: str) -> Connection:
        inbox = ReceiveBuffer(self._scratch, self._limits().frame_bytes_max, self.memory)
        return Connection(self, inbox, self._loop, listener)

    def _shrink_all(self) -> None:
        for connection in self.connections:
            connection.shrink()

    def _sweep_later(self) -> None:
        limits = self._limits()
        time_ms = (
            limits.stalled_ms_max if limits.idle_ms_max is None else min(limits.idle_ms_max, limits.stalled_ms_max)
        )
        self._sweep = self._loop.call_later(max(time_ms // _SWEEPS_PER_IDLE_TIME, 10) / 1000, self._swept)

    def _swept(self) -> None:
        self._close_stalled()
        idle_ms_max = self._limits().idle_ms_max
        if idle_ms_max is not None:
            self._close_idle(idle_ms_max)
        self._sweep_later()

    def _close_idle(self, idle_ms_max: int) -> None:
        now_ms = self.clock.monotonic_ms()
        for connection in list(self.connections):
            idle_ms = now_ms - connection.active_at_ms
            if connection.idle and idle_ms >= idle_ms_max:
                if connection.paused_at_ms is None:
                    connection.close()
                elif connection.unread_ms(now_ms) >= idle_ms_max:
                    connection.abort()  # A close would wait until the client reads.
            elif idle_ms >= idle_ms_max / _SWEEPS_PER_IDLE_TIME:
                connection.shrink()

    def _memory_is_scarce(self) -> None:
        """Begin to look for stalled connections at once: progress is measured from one look to the next."""
        if self._scarce_sweep is None and self._listeners:
            self._scarce_sweep = self._loop.call_later(0, self._swept_scarce)

    def _swept_scarce(self) -> None:
        self._scarce_sweep = None
        self._close_stalled()
        if self._stalled.is_memory_scarce:
            self._scarce_sweep = self._loop.call_later(_SCARCE_SWEEP_MS / 1000, self._swept_scarce)

    def _close_stalled(self) -> None:
        found = self._stalled.find(
            list(self.connections),
            now_ms=self.clock.monotonic_ms(),
            stalled_ms_max=self._limits().stalled_ms_max,
        )
        for connection, reason in found:
            self._metrics.connections_stalled.value += 1
            logger.warning("connection from %s closed: %s", connection.peer, reason)
            connection.abort()


def _ignored(connection: Connection) -> None:
    """The ``on_closed`` of a server for clients."""
