"""Makes the options with which a server listens from a listener of the settings: its TLS and its authentication."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from random import Random

from semel.broker.config.broker_config import BROKER_SETTINGS, BrokerConfig
from semel.broker.network.connection import Connection
from semel.broker.network.server import ListenerOptions
from semel.broker.node import Node
from semel.broker.security.listeners import Listener
from semel.broker.security.tls import ReloadedContext, broker_context, certificate_authentication, server_context
from semel.clock import Clock
from semel.log.worker import Worker
from semel.metadata.image import Endpoint
from semel.net.network import Network, SystemNetwork
from semel.security.sasl.client import Mechanism, Plain, Scram
from semel.security.sasl.jaas import jaas_options
from semel.settings import SettingError


def listener_options(
    listener: Listener,
    node: Node,
    serve: Callable[[Connection, memoryview], None],
    make_worker: Callable[[str], Worker],
    closers: list[Callable[[], object]],
) -> ListenerOptions:
    """Return the options of one listener: its TLS context, and how its clients are authenticated.

    ``serve`` serves the requests of authenticated clients. Functions that close the authentication are added to
    ``closers``. Raises SettingError.
    """
    own, protocol = node.config.for_listener(listener.name), listener.protocol

    def certificate_refused(host: str, reason: str) -> None:
        node.metrics.logins_refused.value += 1
        if node.audit is not None:
            node.audit.login_refused(host, mechanism="TLS", user=None, reason=reason)

    tls: ReloadedContext | None = None
    authenticate: Callable[[Connection], None] | None = None
    if protocol.uses_tls:
        tls = ReloadedContext(partial(server_context, listener=listener), own, node.clock)
    if protocol.uses_sasl:
        from semel.broker.security.authentication import Authenticator

        authenticator = Authenticator(node, own, serve, make_worker, has_tls=protocol.uses_tls)
        closers.append(authenticator.kill)
        authenticate = authenticator.begin
    elif tls is not None:
        authenticate = certificate_authentication(own, serve, certificate_refused)

    def limit(setting: str) -> int | None:
        """Return the current value of a limit of this listener: it can be altered while the broker runs."""
        text = node.config.sources.effective().get(f"listener.name.{listener.name.lower()}.{setting}")
        return None if text is None else int(text)

    return ListenerOptions(
        listener.name,
        authenticate,
        tls,
        partial(limit, "max.connections"),
        partial(limit, "max.connection.creation.rate"),
        certificate_refused,
    )


def advertised_endpoint(listener: Listener, port: int) -> Endpoint:
    """Return the host and port that clients receive for this listener, which listens on ``port``."""
    host, advertised_port = listener.advertised
    return Endpoint(host or socket.getfqdn(), advertised_port or port)


def inter_broker_network(listener: Listener, config: BrokerConfig, network: Network, clock: Clock) -> Network:
    """Return the network for connections to other brokers, with TLS if the listener has it. Raises SettingError."""
    if not listener.protocol.uses_tls:
        return network
    return SystemNetwork(tls=ReloadedContext(broker_context, config.for_listener(listener.name), clock))


def inter_broker_login(listener: Listener, config: BrokerConfig, random: Random) -> Callable[[], Mechanism] | None:
    """Return what makes the SASL mechanism for logins at other brokers; ``None`` without SASL. Raises SettingError."""
    if not listener.protocol.uses_sasl:
        return None
    own = config.for_listener(listener.name)
    name = own.sasl_mechanism_inter_broker_protocol
    setting = f"{name.lower()}.sasl.jaas.config"
    options = jaas_options(getattr(own, BROKER_SETTINGS[setting].attribute) or "")
    username, password = options.get("username"), options.get("password")
    if not username or not password:
        raise SettingError(
            setting,
            f"the brokers reach each other at {listener} with {name} (sasl.mechanism.inter.broker.protocol): "
            f"{setting} needs username=... and password=...",
        )
    if name == "PLAIN":
        return lambda: Plain(username, password)
    return lambda: Scram(name, username, password, nonce=f"{random.getrandbits(192):048x}")
