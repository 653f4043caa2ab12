"""The listeners of a broker, for clients and for other brokers, and the endpoints that it advertises.

With the setting ``listeners`` there are several listeners, each with its protocol (``semel.broker.security``). Without
it there is one, PLAINTEXT, at an address that is passed in, and no security module is imported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.network.server import Limits, Server
from semel.broker.node import Node
from semel.broker.requests.dispatch import Dispatcher
from semel.clock import Clock
from semel.log.worker import Worker
from semel.metadata.image import PLAINTEXT, Endpoint
from semel.metadata.image import Broker as RegisteredBroker
from semel.net.network import Network
from semel.settings import SettingError
from semel.types import Address

if TYPE_CHECKING:
    from semel.broker.security.listeners import Listener, Listeners
    from semel.security.sasl.client import Mechanism

WILDCARD_HOSTS: Final = frozenset({"", "0.0.0.0", "::"})


class Endpoints:
    """The listeners of one broker and their addresses. A configured port of 0 is replaced once the broker listens."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        listen: Address | None,
        advertise: Address | None,
        inter_broker_listen: Address | None,
        network: Network,
        make_worker: Callable[[str], Worker],
    ) -> None:
        """Raises SettingError if the arguments and the settings of listeners contradict each other."""
        listeners = check_listeners(config, listen, advertise, inter_broker_listen)
        self._of_clients = None if listeners is None else listeners.clients
        self._of_brokers = None if listeners is None else listeners.brokers
        self.address = listen or Address("", 0)
        """The address of the first listener for clients."""
        self.addresses: dict[str, Address] = {}
        """The addresses of all listeners for clients, by the listener's name."""
        self.inter_broker_address = inter_broker_listen
        self._advertise = advertise
        self._config = config
        self._network = network
        self._make_worker = make_worker
        self._login_closers: list[Callable[[], object]] = []

    async def listen(self, node: Node, dispatcher: Dispatcher, server: Server) -> None:
        """Listen for clients, on all their listeners."""
        if self._of_clients is None:
            self.address = self.address._replace(port=await server.listen(self._network, *self.address))
            self.addresses[PLAINTEXT] = self.address
            return
        for listener in self._of_clients:
            self.addresses[listener.name] = await self._listen_as(listener, node, dispatcher, server)
        self.address = next(iter(self.addresses.values()))

    async def listen_to_brokers(self, node: Node, dispatcher: Dispatcher, server: Server) -> None:
        if self._of_brokers is not None:
            self.inter_broker_address = await self._listen_as(self._of_brokers, node, dispatcher, server)
        else:
            address = self.inter_broker_address or Address(self.address.host, 0)
            self.inter_broker_address = address._replace(port=await server.listen(self._network, *address))

    async def _listen_as(self, listener: Listener, node: Node, dispatcher: Dispatcher, server: Server) -> Address:
        from semel.broker.security.listening import listener_options

        options = listener_options(listener, node, dispatcher.request, self._make_worker, self._login_closers)
        return Address(listener.host, await server.listen(self._network, listener.host, listener.port, options))

    def close_logins(self) -> None:
        """Close the SASL logins of all listeners: from now on no client can log in."""
        while self._login_closers:
            self._login_closers.pop()()

    def registration(self) -> RegisteredBroker:
        """Return what clients learn of this broker: its id, its rack and its advertised endpoints."""
        node_id, rack = self._config.node_id, self._config.broker_rack
        if self._of_clients is None:
            host, port = self._advertise or self.address
            return RegisteredBroker(node_id, host, port or self.address.port, rack)
        from semel.broker.security.listening import advertised_endpoint

        endpoints = {
            listener.name: advertised_endpoint(listener, self.addresses[listener.name].port)
            for listener in self._of_clients
        }
        return RegisteredBroker(node_id, *next(iter(endpoints.values())), rack, endpoints=endpoints)

    def inter_broker_endpoint(self, own: RegisteredBroker) -> Endpoint:
        """Return the endpoint at which other brokers connect to this one."""
        assert self.inter_broker_address is not None
        host, port = self.inter_broker_address
        if self._of_brokers is None:
            return Endpoint(own.host if host in WILDCARD_HOSTS else host, port)
        from semel.broker.security.listening import advertised_endpoint

        return advertised_endpoint(self._of_brokers, port)

    def inter_broker_network_and_login(
        self, clock: Clock, random: Random
    ) -> tuple[Network, Callable[[], Mechanism] | None]:
        """Return the network for connections to other brokers, and the SASL login for them; None without SASL."""
        if self._of_brokers is None:
            return self._network, None
        from semel.broker.security.listening import inter_broker_login, inter_broker_network

        network = inter_broker_network(self._of_brokers, self._config, self._network, clock)
        return network, inter_broker_login(self._of_brokers, self._config, random)


def check_listeners(
    config: BrokerConfig, listen: Address | None, advertise: Address | None, inter_broker_listen: Address | None
) -> Listeners | None:
    """Return the listeners of the setting ``listeners``; None without it. Raises SettingError."""
    if config.listeners is None:
        assert listen is not None, "nowhere to listen: neither the argument nor the setting listeners"
        for setting in ("advertised.listeners", "inter.broker.listener.name", "security.inter.broker.protocol"):
            if setting in config.sources.effective():
                raise SettingError(setting, f"{setting} is set, and listeners is not: set both")
        return None
    from semel.broker.security.listeners import configured_listeners

    if listen is not None or advertise is not None:
        raise SettingError(
            "listeners",
            f"listeners is set ({','.join(config.listeners)}), and so are --listen or --advertise: give only one of "
            "them",
        )
    listeners = configured_listeners(config)
    if inter_broker_listen is not None and listeners.brokers is not None:
        raise SettingError(
            "inter.broker.listener.name",
            f"the brokers listen at {listeners.brokers} by inter.broker.listener.name, and at {inter_broker_listen} by "
            "--inter-broker-listen: give only one of them",
        )
    return listeners


def server_of(node: Node, dispatcher: Dispatcher, loop: asyncio.AbstractEventLoop) -> Server:
    """Return a server that does not listen yet."""
    return Server(
        limits=lambda: _limits(node),
        serve=dispatcher.request,
        metrics=node.metrics,
        clock=node.clock,
        loop=loop,
        soon=node.turns.soon,
        admits=lambda host: node.quotas is None or node.quotas.admits(host),
    )


def _limits(node: Node) -> Limits:
    config = node.config
    connections_max, rule = config.max_connections, "max.connections"
    by_files = node.descriptors.connections_max(len(node.partitions))
    if by_files is not None and by_files < connections_max:
        connections_max, rule = by_files, "what partitions leave of the limit of open files (ulimit -n, LimitNOFILE)"
    return Limits(
        frame_bytes_max=config.socket_request_max_bytes,
        connections_max=connections_max,
        connections_rule=rule,
        connections_per_ip_max=config.max_connections_per_ip,
        connections_per_second_max=config.max_connection_creation_rate,
        idle_ms_max=config.connections_max_idle_ms if config.connections_max_idle_ms >= 0 else None,
        stalled_ms_max=config.connections_max_stalled_ms,
        arriving_bytes_max=config.queued_max_request_bytes,
        leaving_bytes_max=config.queued_max_response_bytes,
    )
