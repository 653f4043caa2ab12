"""All connections of a client: which broker can be asked now, and what happens to the requests in flight.

A connection is made only when it is needed: ``ready`` connects to a broker that is not connected. A request that is not
answered in time ends its connection, because responses come in order; ``lost`` is then called for every request in
flight on it.

A client may have several connections to a broker, on different lanes: a Fetch that waits for records holds back every
request behind it on its connection, so requests that must not wait have a lane of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from random import Random
from typing import Final, NamedTuple

from semel.client.config.common import ClientConfig
from semel.client.machine.connection.actions import Action, Connect, Disconnect, FetchToken, Send
from semel.client.machine.connection.calls import Call
from semel.client.machine.connection.connection import BrokerConnection, ConnectionState
from semel.client.machine.connection.retry import Backoff, Retry
from semel.client.machine.connection.traffic import Traffic
from semel.client.security.sasl import mechanism_for, token_provider
from semel.clock import NEVER
from semel.errors import AuthorizationFailed, DecodeError, ErrorCode
from semel.security.sasl.client import Mechanism, OAuthBearer
from semel.security.sasl.login import Authentication
from semel.types import Address, Buffer
from semel.wire.apis import ApiKey

log = logging.getLogger(__name__)

_STEPS: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})

DATA: Final = 0
"""The lane of Produce and Fetch requests, and of machines that need no other lane."""
COORDINATION: Final = 1
"""The lane of all requests that must not wait behind a Fetch."""
MEMBERSHIP: Final = 2
"""The lane of JoinGroup and SyncGroup, which wait for other members: heartbeats must not wait behind them."""


class Route(NamedTuple):
    node_id: int
    lane: int = DATA


class Connections:
    def __init__(
        self, config: ClientConfig, random: Random, *, in_flight_max: int = 100, software_version: str = "0"
    ) -> None:
        self._config = config
        self._random = random
        self._in_flight_max = in_flight_max
        self._software_version = software_version
        self._first_try = Retry(Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, random))
        self._setup = Backoff(
            config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms, random
        )
        self._addresses: dict[int, Address] = {}
        self._by_route: dict[Route, BrokerConnection] = {}
        self._routes: dict[int, Route] = {}
        self._retries: dict[Route, Retry] = {}
        """The retries of brokers that could not be reached, or whose connection was lost."""
        self._actions: list[Action] = []
        self._next_number = 1
        self._features_epoch: int | None = None
        self._traffic = Traffic()
        self._refusal: AuthorizationFailed | None = None
        self._token_provider = token_provider(config.security)
        self._outages = config.outages
        self.on_failed: Callable[[], None] = _ignored
        """Called when a broker could not be reached or a connection was lost: its partitions may have new leaders."""
        self.features: Mapping[str, int] = {}
        """The newest finalized features that any broker has reported: name to level."""

    # Which broker to ask

    def set_addresses(self, addresses: Mapping[int, Address], now_ms: float) -> None:
        """Set the addresses of all brokers. A connection is kept under its broker's new number, if that has changed.

        So the first connection, made before the broker's number was known, stays in use.
        """
        names = {address: node_id for node_id, address in addresses.items()}
        for route, connection in tuple(self._by_route.items()):
            address = addresses.get(route.node_id)
            if address == connection.address:
                continue
            heir = Route(names.get(connection.address, route.node_id), route.lane)
            if address is None and heir not in self._by_route:
                self._by_route[heir] = self._by_route.pop(route)
                self._routes[connection.number] = heir
            elif address is not None:
                self._end(connection, f"broker {route.node_id} is no longer at {connection.address}", now_ms)
        self._addresses = dict(addresses)

    def ready(self, route: Route, now_ms: float) -> bool:
        """Whether a request can be sent on this route now. If there is no connection yet, this starts to connect."""
        connection = self._by_route.get(route)
        if connection is None:
            if route.node_id in self._addresses and self._retry(route).is_due(now_ms):
                self._connect(route, now_ms)
            return False
        return self._can_send(connection, now_ms)

    def is_unreachable(self, route: Route) -> bool:
        """Whether the last attempt to connect failed, or the metadata no longer has an address of the broker."""
        return route in self._retries or route.node_id not in self._addresses

    def least_loaded(self, now_ms: float, lane: int = DATA) -> Route | None:
        """Return the ready broker with the fewest requests in flight.

        If no broker is ready or about to be, connect to one and return ``None``.
        """
        routes = [Route(node_id, lane) for node_id in self._addresses]
        if not routes:
            return None
        start = self._random.randrange(len(routes))
        best: Route | None = None
        least = self._in_flight_max
        pending = False
        for route in routes[start:] + routes[:start]:
            connection = self._by_route.get(route)
            if connection is None:
                continue
            if connection.state is not ConnectionState.READY:
                pending = True
            elif self._can_send(connection, now_ms) and len(connection.in_flight) < least:
                best, least = route, len(connection.in_flight)
        if best is None and not pending:
            for route in routes[start:] + routes[:start]:
                if route not in self._by_route and self._retry(route).is_due(now_ms):
                    self._connect(route, now_ms)
                    break
        return best

    def send(self, route: Route, call: Call, now_ms: float) -> None:
        """Send a request to a broker that is ready. Raises ``UnsupportedVersion``."""
        connection = self._by_route[route]
        deadline_ms = now_ms + (call.timeout_ms or self._config.request_timeout_ms)
        parts = connection.encode(call, now_ms, deadline_ms)
        self._traffic.sent(parts)
        self._actions.append(Send(connection.number, parts))

    def take_actions(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

    # What happens

    def connected(self, number: int, now_ms: float) -> None:
        connection = self._connection(number)
        if connection is not None:
            parts = connection.negotiate(now_ms, now_ms + self._config.request_timeout_ms)
            self._actions.append(Send(number, parts))

    def received(self, number: int, frame: Buffer, now_ms: float) -> None:
        connection = self._connection(number)
        if connection is None:
            return
        try:
            answered = connection.answered(frame, now_ms)
            if answered is None:
                return
            head, response = answered
            if head.api.key is ApiKey.API_VERSIONS and connection.state is ConnectionState.NEGOTIATING:
                self._negotiated(connection, response, now_ms)
                return
            if head.api.key in _STEPS:
                self._step(connection, response, now_ms)
                return
        except DecodeError as error:
            log.error("broker %s sent what cannot be read: %s", connection.address, error)
            self._end(connection, f"broker {connection.address} sent what cannot be read", now_ms, failed=True)
            return
        self._traffic.answered(frame, head.api.key, now_ms - head.sent_ms)
        head.call.answered(response, head.version, now_ms)

    def disconnected(self, number: int, reason: str, now_ms: float) -> None:
        connection = self._connection(number)
        if connection is not None:
            self._end(connection, f"{connection.address}: {reason}", now_ms, failed=True, tell=False)

    def token_received(self, number: int, token: str, now_ms: float) -> None:
        connection = self._connection(number)
        if connection is None:
            return
        if connection.state is ConnectionState.AWAITING_TOKEN:
            self._open(connection, OAuthBearer(token), now_ms)
        elif connection.state is ConnectionState.READY:
            self._authenticate_again(connection, OAuthBearer(token), now_ms)

    def token_failed(self, number: int, reason: str, now_ms: float) -> None:
        """Handle the failure to get a token.

        A connection that is being set up ends. One that is ready stays until its session ends, and tries again.
        """
        connection = self._connection(number)
        if connection is None:
            return
        if connection.state is ConnectionState.AWAITING_TOKEN:
            self._end(connection, f"{connection.address}: {reason}", now_ms, failed=True)
        elif connection.state is ConnectionState.READY:
            log.warning("the session with broker %s cannot be renewed yet: %s", connection.address, reason)
            again_ms = now_ms + self._config.reconnect_backoff_max_ms
            connection.session_deadline_ms = min(again_ms, connection.session_end_ms)

    def refused(self, reason: str, *, code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED) -> None:
        """Fail this client for good: it or a broker could not be authenticated, and a retry changes nothing."""
        self._refusal = AuthorizationFailed(code, reason)

    def poll(self, now_ms: float) -> None:
        """End connections that are slow or idle, and renew sessions. Raises ``AuthorizationFailed`` once refused."""
        if self._refusal is not None:
            raise self._refusal
        idle_ms = self._config.connections_max_idle_ms
        for route, connection in tuple(self._by_route.items()):
            if not connection.in_flight and route.node_id not in self._addresses:
                self._end(connection, f"{connection.address} is no longer needed", now_ms)
            elif connection.in_flight and now_ms >= connection.in_flight[0].deadline_ms:
                name = connection.in_flight[0].api.name
                timeout_ms = connection.in_flight[0].call.timeout_ms or self._config.request_timeout_ms
                waited = f"{name} was not answered within {timeout_ms} ms"
                self._end(connection, f"{connection.address}: {waited}", now_ms, failed=True)
            elif connection.state is not ConnectionState.READY and now_ms >= connection.setup_deadline_ms:
                awaits_token = connection.state is ConnectionState.AWAITING_TOKEN
                what = "a token" if awaits_token else "connecting"
                self._end(connection, f"{connection.address}: {what} took too long", now_ms, failed=True)
            elif now_ms >= connection.session_deadline_ms:
                self._renew_session(connection, now_ms)
            elif idle_ms >= 0 and not connection.in_flight and now_ms >= connection.active_ms + idle_ms:
                self._end(connection, f"{connection.address} was idle", now_ms)

    def next_deadline_ms(self, now_ms: float) -> float:
        deadline = NEVER
        idle_ms = self._config.connections_max_idle_ms
        for connection in self._by_route.values():
            if connection.in_flight:
                deadline = min(deadline, connection.in_flight[0].deadline_ms)
            elif idle_ms >= 0:
                deadline = min(deadline, connection.active_ms + idle_ms)
            if connection.state is not ConnectionState.READY:
                deadline = min(deadline, connection.setup_deadline_ms)
            deadline = min(deadline, connection.session_deadline_ms)
            if connection.throttled_until_ms > now_ms:
                deadline = min(deadline, connection.throttled_until_ms)
        return min((deadline, *(retry.next_deadline_ms(now_ms) for retry in self._retries.values())))

    def metrics(self) -> dict[str, float]:
        """Return the counts of connections, requests and responses. Handshakes are not counted."""
        return self._traffic.metrics(in_flight=sum(len(one.in_flight) for one in self._by_route.values()))

    def close(self, reason: str, now_ms: float) -> None:
        for connection in tuple(self._by_route.values()):
            self._end(connection, reason, now_ms)

    # Inside

    def _connection(self, number: int) -> BrokerConnection | None:
        route = self._routes.get(number)
        return None if route is None else self._by_route[route]

    def _retry(self, route: Route) -> Retry:
        return self._retries.get(route, self._first_try)

    def _can_send(self, connection: BrokerConnection, now_ms: float) -> bool:
        return (
            connection.state is ConnectionState.READY
            and len(connection.in_flight) < self._in_flight_max
            and now_ms >= connection.throttled_until_ms
        )

    def _connect(self, route: Route, now_ms: float) -> None:
        self._traffic.connecting()
        number, self._next_number = self._next_number, self._next_number + 1
        connection = BrokerConnection(
            number, self._addresses[route.node_id], self._config.client_id, self._software_version
        )
        connection.active_ms = now_ms
        connection.made_after = self._outages.ended(str(connection.address))
        self._by_route[route] = connection
        self._routes[number] = route
        if self._token_provider is not None:
            # The token comes before the connection: a broker gives a new connection little time to authenticate.
            connection.state = ConnectionState.AWAITING_TOKEN
            connection.setup_deadline_ms = now_ms + self._config.request_timeout_ms
            self._actions.append(FetchToken(number, self._token_provider))
        elif self._config.security.security_protocol.uses_sasl:
            self._open(connection, mechanism_for(self._config.security, self._random), now_ms)
        else:
            self._open(connection, None, now_ms)

    def _open(self, connection: BrokerConnection, mechanism: Mechanism | None, now_ms: float) -> None:
        connection.state = ConnectionState.CONNECTING
        connection.authentication = None if mechanism is None else Authentication(mechanism)
        failures = self._retry(self._routes[connection.number]).failures
        connection.setup_deadline_ms = now_ms + self._setup.delay_ms(failures + 1)
        self._actions.append(Connect(connection.number, connection.address.host, connection.address.port))

    def _renew_session(self, connection: BrokerConnection, now_ms: float) -> None:
        if connection.is_unused:
            self._end(connection, f"{connection.address}: the session ends, and was not used", now_ms)
        elif self._token_provider is None:
            self._authenticate_again(connection, mechanism_for(self._config.security, self._random), now_ms)
        elif now_ms < connection.session_end_ms:
            connection.session_deadline_ms = connection.session_end_ms
            self._actions.append(FetchToken(connection.number, self._token_provider))
        else:
            self._end(connection, f"{connection.address}: no token before the session's end", now_ms, failed=True)

    def _authenticate_again(self, connection: BrokerConnection, mechanism: Mechanism, now_ms: float) -> None:
        deadline_ms = now_ms + self._config.request_timeout_ms
        parts = connection.authenticate_again(Authentication(mechanism), now_ms, deadline_ms)
        self._actions.append(Send(connection.number, parts))

    def _negotiated(self, connection: BrokerConnection, response: object, now_ms: float) -> None:
        again = connection.negotiated(response)  # type: ignore[arg-type]
        if again is not None:
            parts = connection.negotiate(now_ms, now_ms + self._config.request_timeout_ms, version=again)
            self._actions.append(Send(connection.number, parts))
            return
        versions = connection.api_versions
        assert versions is not None
        epoch = versions.finalized_features_epoch
        if epoch is not None and (self._features_epoch is None or epoch > self._features_epoch):
            self._features_epoch = epoch
            self.features = {feature.name: feature.max_version_level for feature in versions.finalized_features}
        if connection.state is ConnectionState.AUTHENTICATING:
            parts = connection.authenticate(now_ms, now_ms + self._config.request_timeout_ms)
            self._actions.append(Send(connection.number, parts))
        else:
            self._became_ready(connection, now_ms)

    def _step(self, connection: BrokerConnection, response: object, now_ms: float) -> None:
        try:
            parts = connection.authenticated(response, now_ms, now_ms + self._config.request_timeout_ms)
        except AuthorizationFailed as error:
            self.refused(f"{connection.address}: {error.message}", code=error.code)
            self._end(connection, f"{connection.address} did not authenticate this client", now_ms, failed=True)
            return
        if parts is None:
            self._became_ready(connection, now_ms)
        else:
            self._actions.append(Send(connection.number, parts))

    def _became_ready(self, connection: BrokerConnection, now_ms: float) -> None:
        self._retries.pop(self._routes[connection.number], None)
        self._outages.answered(str(connection.address), now_ms)

    def _end(
        self, connection: BrokerConnection, reason: str, now_ms: float, *, failed: bool = False, tell: bool = True
    ) -> None:
        route = self._routes.pop(connection.number)
        del self._by_route[route]
        self._traffic.disconnected()
        if tell:
            self._actions.append(Disconnect(connection.number))
        if failed:
            # A bootstrap address that is tried because all brokers are unreachable is not another outage.
            is_known = route.node_id < 0 and any(other.node_id >= 0 for other in self._retries)
            self._retries[route] = self._retry(route).failed(now_ms)
            broker = str(connection.address)
            self._outages.lost(broker, reason, now_ms, made_after=connection.made_after, is_known=is_known)
            self.on_failed()
        for waiting in tuple(connection.in_flight):
            waiting.call.lost(reason, now_ms)


def _ignored() -> None:
    """Do nothing: the default of ``on_failed``, until ``Metadata`` sets it."""
